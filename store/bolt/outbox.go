package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// entry makes an outbox entry of its stored form.
func (t *readTx) entry(k, raw []byte) (e store.OutboxEntry, err error) {
	if len(k) != effectLen {
		return e, fmt.Errorf("outbox: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), effectLen)
	}
	key := effectKeyOf(k)
	o, err := parseOutbox(k, raw)
	if err != nil {
		return e, fmt.Errorf("outbox entry %s: %w", key, err)
	}
	return store.OutboxEntry{
		Key: key, Seq: o.seq, Kind: effects.Kind(t.text(o.kind)), Lane: t.text(o.lane),
		Effect: o.effect, Holder: t.text(o.holder), Token: o.token,
	}, nil
}

func (t *readTx) Outbox(fn func(store.OutboxEntry) error) error {
	if err := t.check("outbox"); err != nil {
		return err
	}
	return t.scan("outbox", t.table(bucketOutbox), nil, func(k, v []byte) (bool, error) {
		e, err := t.entry(k, v)
		if err != nil {
			return false, err
		}
		return true, fn(e)
	})
}

func (t *readTx) OutboxEntry(key store.EffectKey) (e store.OutboxEntry, err error) {
	if err := t.check("outbox entry"); err != nil {
		return e, err
	}
	defer guard("outbox entry", &err)
	k := effectKeyBytes(key)
	raw, ok := t.table(bucketOutbox).get(k[:])
	if !ok {
		return e, fmt.Errorf("outbox entry %s: %w", key, store.ErrNotFound)
	}
	return t.entry(k[:], raw)
}

func (t *readTx) Waiting(lane string, limit int) (found []store.OutboxEntry, err error) {
	if err := t.check("waiting"); err != nil || limit <= 0 || len(lane) > store.MaxName {
		return nil, err
	}
	prefix := appendName(nil, lane)
	outbox := t.table(bucketOutbox)
	err = t.scan("waiting", t.table(bucketWaiting), prefix, func(k, _ []byte) (bool, error) {
		if !bytes.HasPrefix(k, prefix) || len(found) == limit {
			return false, nil
		}
		if len(k) != len(prefix)+waitTail {
			return false, fmt.Errorf("waiting: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), len(prefix)+waitTail)
		}
		key := k[len(prefix)+8:]
		raw, ok, err := guardedGet("waiting", outbox, key)
		if err != nil {
			return false, err
		}
		if !ok {
			return false, fmt.Errorf("waiting: %w: outbox entry %s is not there", store.ErrCorrupt, effectKeyOf(key))
		}
		e, err := t.entry(key, raw)
		found = append(found, e)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func guardedGet(op string, t *table, key []byte) (v []byte, ok bool, err error) {
	defer guard(op, &err)
	v, ok = t.get(key)
	touch(v)
	return v, ok, nil
}

func (t *readTx) WaitingLanes() (lanes []string, err error) {
	if err := t.check("waiting lanes"); err != nil {
		return nil, err
	}
	defer guard("waiting lanes", &err)
	waiting := t.table(bucketWaiting)
	if waiting == nil {
		return nil, nil
	}
	for k, _ := waiting.cursor.First(); k != nil; {
		lane, ok := laneOf(k)
		if !ok {
			return nil, fmt.Errorf("waiting lanes: %w: key %x", store.ErrCorrupt, k)
		}
		lanes = append(lanes, string(lane))
		// The next lane begins after the greatest key of this one.
		end := append(slices.Clone(k[:lengthSize+len(lane)]), bytes.Repeat([]byte{0xff}, waitTail+1)...)
		if k, _ = waiting.cursor.Seek(end); k != nil && bytes.Compare(k, end) < 0 {
			return nil, fmt.Errorf("waiting lanes: %w: key %x is out of order", store.ErrCorrupt, k)
		}
	}
	slices.Sort(lanes)
	return lanes, nil
}

func laneOf(k []byte) ([]byte, bool) {
	if len(k) < lengthSize {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(k))
	if len(k) != lengthSize+n+waitTail {
		return nil, false
	}
	return k[lengthSize : lengthSize+n], true
}

func (t *tx) PutOutbox(e store.OutboxEntry) (err error) {
	if err := t.check("put outbox"); err != nil {
		return err
	}
	defer guard("put outbox", &err)
	if err := e.Validate(); err != nil {
		return fmt.Errorf("put outbox %s: %w", e.Key, err)
	}
	outbox, waiting := t.table(bucketOutbox), t.table(bucketWaiting)
	key := effectKeyBytes(e.Key)
	stays := false // its place in the waiting index
	if raw, ok := outbox.get(key[:]); ok {
		if stays, err = t.unwait(key[:], raw, &e); err != nil {
			return fmt.Errorf("put outbox %s: %w", e.Key, err)
		}
	}
	const room = sealed + len(`"seq":,"kind":,"lane":,"holder":,"token":,"effect":}`) + 2*20
	need := room + len(e.Effect) + 6*(len(e.Kind)+len(e.Lane)+len(e.Holder)+1) // a byte takes up to six escaped
	if err := outbox.bucket.Put(key[:], t.keep(appendOutbox(t.room(need), key[:], &e))); err != nil {
		return fmt.Errorf("put outbox %s: %w", e.Key, err)
	}
	if e.Waiting() && !stays {
		var b [128]byte
		if err := waiting.bucket.Put(appendWaitKey(b[:0], e.Lane, e.Seq, key[:]), []byte{}); err != nil {
			return fmt.Errorf("put outbox %s: %w", e.Key, err)
		}
	}
	return nil
}

// unwait takes the stored entry out of the waiting index, unless its successor
// (nil: none) has the same place there.
func (t *tx) unwait(key, raw []byte, successor *store.OutboxEntry) (stays bool, err error) {
	o, err := parseOutbox(key, raw)
	if err != nil {
		return false, err
	}
	if len(o.holder) > 0 {
		return false, nil
	}
	if successor != nil && successor.Waiting() && successor.Seq == o.seq && successor.Lane == string(o.lane) {
		return true, nil
	}
	var b [128]byte
	_, err = t.table(bucketWaiting).remove(appendWaitKey(b[:0], string(o.lane), o.seq, key))
	return false, err
}

func (t *tx) DeleteOutbox(key store.EffectKey) (err error) {
	if err := t.check("delete outbox"); err != nil {
		return err
	}
	defer guard("delete outbox", &err)
	k := effectKeyBytes(key)
	outbox := t.table(bucketOutbox)
	raw, ok := outbox.get(k[:])
	if !ok {
		return fmt.Errorf("delete outbox %s: %w", key, store.ErrNotFound)
	}
	if _, err := t.unwait(k[:], raw, nil); err != nil {
		return fmt.Errorf("delete outbox %s: %w", key, err)
	}
	if err := outbox.bucket.Delete(k[:]); err != nil {
		return fmt.Errorf("delete outbox %s: %w", key, err)
	}
	return nil
}
