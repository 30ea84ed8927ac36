package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// What is kept of a webhook beside its body, which stands verbatim in a bucket
// of its own (001 webhooks).
func appendWebhookInfo(b []byte, w *store.Webhook) []byte {
	start := len(b)
	b = append(openSeal(b), `"route":`...)
	b = appendText(b, w.Route)
	b = append(b, `,"received_at":`...)
	b = strconv.AppendInt(b, int64(w.ReceivedAt), 10)
	b = append(b, `,"body_crc":`...)
	b = strconv.AppendUint(b, uint64(crc32.Checksum(w.Body, castagnoli)), 10)
	b = append(b, `,"header":`...)
	b = append(b, w.Header...)
	return closeSeal(b, start, sumOf(w.ID[:]))
}

func parseWebhookInfo(key, raw []byte) (w store.Webhook, bodySum uint64, err error) {
	rest, err := unseal(raw, sumOf(key))
	if err != nil {
		return w, 0, err
	}
	f := fields{rest: rest}
	w.ID = uuid.UUID(key)
	w.Route = string(f.text(`"route":`))
	w.ReceivedAt = effects.Time(f.number(`,"received_at":`))
	bodySum = f.number(`,"body_crc":`)
	w.Header = f.remainder(`,"header":`)
	return w, bodySum, f.err()
}

func (t *readTx) Webhooks(limit int) (found []store.Webhook, err error) {
	if err := t.check("webhooks"); err != nil || limit <= 0 {
		return nil, err
	}
	bodies := t.table(bucketWebhooks)
	err = t.scan("webhooks", t.table(bucketWebhooksInfo), nil, func(k, v []byte) (bool, error) {
		if len(k) != idLen {
			return false, fmt.Errorf("webhooks: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), idLen)
		}
		w, sum, err := parseWebhookInfo(k, v)
		if err == nil {
			w.Body, err = body(bodies, k, sum)
		}
		if err != nil {
			return false, fmt.Errorf("webhook %s: %w", uuid.UUID(k), err)
		}
		found = append(found, w)
		return len(found) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func body(bodies *table, key []byte, sum uint64) (b []byte, err error) {
	defer guard("body", &err)
	b, ok := bodies.get(key)
	if !ok || uint64(crc32.Checksum(b, castagnoli)) != sum {
		return nil, fmt.Errorf("%w: its body is missing or changed", store.ErrCorrupt)
	}
	return b, nil
}

func (t *tx) PutWebhook(w store.Webhook) (err error) {
	if err := t.check("put webhook"); err != nil {
		return err
	}
	defer guard("put webhook", &err)
	if w.ID == uuid.Nil {
		return errors.New("put webhook: id is zero")
	}
	w.ReceivedAt = clampTime(w.ReceivedAt)
	if err := t.table(bucketWebhooksInfo).bucket.Put(w.ID[:], appendWebhookInfo(nil, &w)); err != nil {
		return fmt.Errorf("put webhook %s: %w", w.ID, err)
	}
	if err := t.table(bucketWebhooks).bucket.Put(w.ID[:], t.keep(append(t.room(len(w.Body)), w.Body...))); err != nil {
		return fmt.Errorf("put webhook %s: %w", w.ID, err)
	}
	return nil
}

func (t *tx) DeleteWebhook(id uuid.UUID) (err error) {
	if err := t.check("delete webhook"); err != nil {
		return err
	}
	defer guard("delete webhook", &err)
	ok, err := t.table(bucketWebhooksInfo).remove(id[:])
	if err != nil {
		return fmt.Errorf("delete webhook %s: %w", id, err)
	}
	if !ok {
		return fmt.Errorf("delete webhook %s: %w", id, store.ErrNotFound)
	}
	if _, err := t.table(bucketWebhooks).remove(id[:]); err != nil {
		return fmt.Errorf("delete webhook %s: %w", id, err)
	}
	return nil
}

// quarantineValue is the stored form of what was set aside. Raw is in base64:
// it need not be JSON.
type quarantineValue struct {
	Kind   effects.Kind `json:"kind"`
	ID     uuid.UUID    `json:"id"`
	At     effects.Time `json:"at"`
	Reason string       `json:"reason"`
	Raw    []byte       `json:"raw"`
}

func (t *readTx) Quarantine(limit int) (found []store.Quarantined, err error) {
	if err := t.check("quarantine"); err != nil || limit <= 0 {
		return nil, err
	}
	err = t.scan("quarantine", t.table(bucketQuarantine), nil, func(k, v []byte) (bool, error) {
		var q quarantineValue
		if err := parseJSON(k, v, &q); err != nil {
			return false, fmt.Errorf("quarantine: key %x: %w", k, err)
		}
		found = append(found, store.Quarantined(q))
		return len(found) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// maxListSweep bounds how many list entries SetAside looks through for those of
// the record: nobody knows its terms any more. In a greater list some may stay;
// who scans the list does not find their record.
const maxListSweep = 4 << 20

func (t *tx) SetAside(q store.Quarantined, due effects.Time) (err error) {
	if err := t.check("set aside"); err != nil {
		return err
	}
	defer guard("set aside", &err)
	q.At = clampTime(q.At)
	if err := t.setAside(&q, due); err != nil {
		return &store.RecordError{Op: "set aside", Kind: q.Kind, ID: q.ID, Err: err}
	}
	return nil
}

func (t *tx) setAside(q *store.Quarantined, due effects.Time) error {
	if err := store.ValidateKind(q.Kind); err != nil {
		return err
	}
	tables, err := t.writable(q.Kind)
	if err != nil {
		return err
	}
	if raw, ok := tables.records.get(q.ID[:]); ok {
		if err := t.removeRecord(q, tables, raw); err != nil {
			return err
		}
	}
	if due != 0 {
		key := store.NewDueKey(due, q.ID)
		if _, err := t.table(bucketDue).remove(key[:]); err != nil {
			return err
		}
	}
	return t.putJSON("set aside", bucketQuarantine, appendQuarantineKey(nil, q), quarantineValue(*q))
}

func (t *tx) removeRecord(q *store.Quarantined, tables *kindTables, raw []byte) error {
	epoch, err := t.current()
	if err != nil {
		return err
	}
	// A record whose envelope is whole is still the base of a replay.
	r, err := parseRecord(q.Kind, q.ID, raw)
	if err == nil && r.Seq < epoch.First {
		if err := t.keepBase(epoch, q.Kind, q.ID, raw); err != nil {
			return err
		}
	}
	if q.Raw == nil {
		q.Raw = raw
		if err == nil {
			q.Raw = r.State
		}
	}
	if err := tables.records.bucket.Delete(q.ID[:]); err != nil {
		return err
	}
	return t.removeTerms(q.Kind, tables.lists, q.ID)
}

// removeTerms looks for the list entries of a record by its id.
func (t *tx) removeTerms(kind effects.Kind, lists *table, id uuid.UUID) error {
	var keys [][]byte
	counts := map[countKey]int64{}
	swept := 0
	err := t.scan("set aside", lists, nil, func(k, v []byte) (bool, error) {
		if swept++; swept > maxListSweep {
			return false, nil
		}
		if len(k) >= lengthSize+listTail && bytes.Equal(k[len(k)-idLen:], id[:]) {
			keys = append(keys, bytes.Clone(k))
			if string(v) == counted {
				counts[countKey{kind, string(k[lengthSize : len(k)-listTail])}]--
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := lists.remove(k); err != nil {
			return err
		}
	}
	for k, n := range counts {
		if err := t.add(k, n); err != nil {
			return err
		}
	}
	return nil
}

func appendMeta(b, key, value []byte) []byte {
	start := len(b)
	b = append(openSeal(b), `"value":`...)
	b = append(b, value...)
	return closeSeal(b, start, sumOf(key))
}

func parseMeta(key, raw []byte) ([]byte, error) {
	rest, err := unseal(raw, sumOf(key))
	if err != nil {
		return nil, err
	}
	f := fields{rest: rest}
	value := f.remainder(`"value":`)
	return value, f.err()
}

func (t *readTx) Meta(name string) (value []byte, err error) {
	if err := t.check("meta"); err != nil {
		return nil, err
	}
	defer guard("meta", &err)
	raw, ok := t.table(bucketMeta).get([]byte(name))
	if !ok {
		return nil, nil
	}
	if value, err = parseMeta([]byte(name), raw); err != nil {
		return nil, fmt.Errorf("meta %q: %w", name, err)
	}
	return value, nil
}

func (t *tx) SetMeta(name string, value []byte) (err error) {
	if err := t.check("set meta"); err != nil {
		return err
	}
	defer guard("set meta", &err)
	if err := store.ValidateName("meta", name); err != nil {
		return fmt.Errorf("set meta: %w", err)
	}
	key := []byte(name)
	if value == nil {
		_, err = t.table(bucketMeta).remove(key)
	} else {
		err = t.table(bucketMeta).bucket.Put(key, appendMeta(nil, key, value))
	}
	if err != nil {
		return fmt.Errorf("set meta %q: %w", name, err)
	}
	return nil
}
