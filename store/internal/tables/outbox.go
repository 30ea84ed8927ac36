package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// entry makes an outbox entry of its stored form. The caller says in its error
// which one it is.
func (t *ReadTx) entry(k, raw []byte) (e store.OutboxEntry, err error) {
	if len(k) != effectLen {
		return e, fmt.Errorf("%w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), effectLen)
	}
	o, err := parseOutbox(k, raw)
	if err != nil {
		return e, err
	}
	return store.OutboxEntry{
		Key: effectKeyOf(k), Seq: o.seq, Kind: effects.Kind(t.text(o.kind)), Lane: t.text(o.lane),
		Effect: o.effect, Holder: t.text(o.holder), Token: o.token,
	}, nil
}

// Outbox implements [store.ReadTx].
func (t *ReadTx) Outbox(fn func(store.OutboxEntry) error) error {
	if err := t.check("outbox"); err != nil {
		return err
	}
	var bad []error
	err := t.scan("outbox", t.table(inOutbox), nil, func(k, v []byte) (bool, error) {
		e, err := t.entry(k, v)
		if err != nil {
			bad = appendBad(bad, store.NewOutboxError("outbox", effectKeyOf(Fit(k, effectLen)), err))
			return true, nil
		}
		return true, fn(e)
	})
	if err != nil {
		return err
	}
	return errors.Join(bad...)
}

// OutboxEntry implements [store.ReadTx].
func (t *ReadTx) OutboxEntry(key store.EffectKey) (e store.OutboxEntry, err error) {
	if err := t.check("outbox entry"); err != nil {
		return e, err
	}
	defer Guard("outbox entry", &err)
	k := t.effectKey(key)
	raw, ok := t.table(inOutbox).Get(k)
	if !ok {
		return e, fmt.Errorf("outbox entry %s: %w", key, store.ErrNotFound)
	}
	if e, err = t.entry(k, raw); err != nil {
		return e, store.NewOutboxError("outbox entry", key, err)
	}
	return e, nil
}

// Waiting implements [store.ReadTx].
func (t *ReadTx) Waiting(lane string, limit int) (found []store.OutboxEntry, err error) {
	if err := t.check("waiting"); err != nil || limit <= 0 || len(lane) > store.MaxName {
		return nil, err
	}
	prefix := appendName(nil, lane)
	var bad []error
	err = t.scan("waiting", t.table(inWaiting), prefix, func(k, _ []byte) (bool, error) {
		if !bytes.HasPrefix(k, prefix) || len(found) == limit {
			return false, nil
		}
		key, e, err := t.waitingEntry(k)
		switch {
		case err != nil:
			bad = appendBad(bad, t.stray("waiting", k, key, err))
		case e.Waiting(): // else the key is damaged and not its own: it must not be handed out twice
			found = append(found, e)
		}
		return true, nil
	})
	return found, errors.Join(append(bad, err)...)
}

// waitingEntry gives the entry that a key of the waiting index leads to. The
// index has no checksum: the entry itself says whether it waits.
func (t *ReadTx) waitingEntry(k []byte) (key []byte, e store.OutboxEntry, err error) {
	key, sound := t.effectOf(k)
	if !sound {
		return key, e, fmt.Errorf("%w: its key in the waiting index, %x, cannot be read", store.ErrCorrupt, k)
	}
	raw, ok, err := guardedGet("waiting", t.table(inOutbox), key)
	switch {
	case err != nil:
		return key, e, err
	case !ok:
		return key, e, fmt.Errorf("%w: the waiting index leads to it, and it is not there", store.ErrCorrupt)
	}
	e, err = t.entry(key, raw)
	return key, e, err
}

// effectOf gives the outbox key that a key of the waiting index leads to. It is
// not sound where that key, or the length of the lane in it, is damaged: then
// either its beginning or its end says which entry it is most likely about.
func (t *ReadTx) effectOf(k []byte) (key []byte, sound bool) {
	if _, ok := laneOf(k); ok {
		return k[len(k)-effectLen:], true
	}
	if len(k) >= lengthSize {
		if at := lengthSize + int(binary.BigEndian.Uint16(k)) + 8; at < len(k) {
			key = Fit(k[at:], effectLen)
			if _, ok, err := guardedGet("waiting", t.table(inOutbox), key); ok && err == nil {
				return key, false
			}
		}
	}
	return Fit(k[max(len(k)-effectLen, 0):], effectLen), false
}

// stray makes the error about an entry that the waiting index leads to, and
// notes the key that leads there: nothing else tells how to find it.
func (t *ReadTx) stray(op string, waiting, key []byte, err error) error {
	k := effectKeyOf(key)
	if t.strays == nil {
		t.strays = make(map[store.EffectKey][][]byte)
	}
	t.strays[k] = append(t.strays[k], bytes.Clone(waiting))
	return store.NewOutboxError(op, k, err)
}

func guardedGet(op string, t *table, key []byte) (v []byte, ok bool, err error) {
	defer Guard(op, &err)
	v, ok = t.Get(key)
	touch(v)
	return v, ok, nil
}

// WaitingLanes implements [store.ReadTx].
func (t *ReadTx) WaitingLanes() (lanes []string, err error) {
	if err := t.check("waiting lanes"); err != nil {
		return nil, err
	}
	defer Guard("waiting lanes", &err)
	waiting := t.table(inWaiting)
	var bad []error
	for k, _ := waiting.walk().First(); k != nil; {
		end := slices.Clone(k)
		if lane, ok := laneOf(k); ok {
			lanes = append(lanes, string(lane))
			// The next lane begins after the greatest key of this one.
			end = append(end[:lengthSize+len(lane)], bytes.Repeat([]byte{0xff}, waitTail+1)...)
			k, _ = waiting.walk().Seek(end)
		} else {
			key, _, err := t.waitingEntry(k)
			bad = appendBad(bad, t.stray("waiting lanes", k, key, err))
			k, _ = waiting.walk().Next()
		}
		if k != nil && bytes.Compare(k, end) <= 0 {
			bad = append(bad, fmt.Errorf("waiting lanes: %w: key %x is out of order", store.ErrCorrupt, k))
			break // else it might go in a circle
		}
	}
	slices.Sort(lanes)
	return lanes, errors.Join(bad...)
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

// PutOutbox implements [store.Tx].
func (t *Tx) PutOutbox(e store.OutboxEntry) (err error) {
	if err := t.check("put outbox"); err != nil {
		return err
	}
	defer Guard("put outbox", &err)
	if err := e.Validate(); err != nil {
		return fmt.Errorf("put outbox %s: %w", e.Key, err)
	}
	outbox, waiting := t.table(inOutbox), t.table(inWaiting)
	key := t.effectKey(e.Key)
	stays := false // its key in the waiting index
	raw, stored := outbox.Get(key)
	if stored || t.strays[e.Key] != nil {
		stays, err = t.unwait(key, raw, &e)
	}
	if err != nil {
		return fmt.Errorf("put outbox %s: %w", e.Key, err)
	}
	t.scratch = appendOutbox(t.scratch[:0], key, &e)
	if stored {
		outbox.Put(key, t.scratch)
	} else {
		outbox.PutNew(key, t.scratch)
	}
	if e.Waiting() && !stays {
		var b [128]byte
		waiting.PutNew(AppendWaitKey(b[:0], e.Lane, e.Seq, key), nil)
	}
	return nil
}

// unwait takes the stored entry out of the waiting index, unless its successor
// (nil: none) has the same key there. If the entry cannot say its key, or is not
// under it, the key is looked for.
func (t *Tx) unwait(key, raw []byte, successor *store.OutboxEntry) (stays bool, err error) {
	if keys := t.strays[effectKeyOf(key)]; keys != nil {
		delete(t.strays, effectKeyOf(key))
		t.removeKeys(keys)
		return false, nil
	}
	if isHandedOut(key, raw) {
		return false, nil
	}
	o, err := parseOutbox(key, raw)
	if err != nil {
		return false, t.removeWaiting(key)
	}
	if len(o.holder) > 0 {
		return false, nil
	}
	if successor != nil && successor.Waiting() && successor.Seq == o.seq && successor.Lane == string(o.lane) {
		return true, nil
	}
	var b [128]byte
	if !t.table(inWaiting).remove(AppendWaitKey(b[:0], string(o.lane), o.seq, key)) {
		err = t.removeWaiting(key)
	}
	return false, err
}

// removeWaiting looks for the keys of the waiting index that lead to an entry. As
// with SetAside, in a greater index than maxListSweep one may stay.
func (t *Tx) removeWaiting(key []byte) error {
	var keys [][]byte
	swept := 0
	err := t.scan("waiting", t.table(inWaiting), nil, func(k, _ []byte) (bool, error) {
		if at, _ := t.effectOf(k); bytes.Equal(at, key) {
			keys = append(keys, bytes.Clone(k))
		}
		swept++
		return swept < maxListSweep, nil
	})
	if err != nil {
		return err
	}
	t.removeKeys(keys)
	return nil
}

func (t *Tx) removeKeys(keys [][]byte) {
	for _, k := range keys {
		t.table(inWaiting).Delete(k)
	}
}

// DeleteOutbox implements [store.Tx].
func (t *Tx) DeleteOutbox(key store.EffectKey) (err error) {
	if err := t.check("delete outbox"); err != nil {
		return err
	}
	defer Guard("delete outbox", &err)
	k := t.effectKey(key)
	outbox := t.table(inOutbox)
	at, raw := outbox.find(k)
	if at == nil && t.strays[key] == nil { // late answers come this way: no search of the index
		return fmt.Errorf("delete outbox %s: %w", key, store.ErrNotFound)
	}
	_, err = t.unwait(k, raw, nil)
	if err == nil && at != nil {
		outbox.Delete(at)
	}
	if err != nil {
		return fmt.Errorf("delete outbox %s: %w", key, err)
	}
	return nil
}
