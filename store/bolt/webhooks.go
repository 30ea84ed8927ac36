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
	infos, bodies := t.table(bucketWebhooksInfo), t.table(bucketWebhooks)
	var bad []error
	passOver := func(k []byte, err error) {
		bad = appendBad(bad, &store.RecordError{Op: "webhooks", Kind: store.KindWebhook, ID: uuid.UUID(fit(k, idLen)), Err: err})
	}
	err = t.scan("webhooks", infos, nil, func(k, v []byte) (bool, error) {
		w, err := webhook(k, v, bodies)
		if err != nil {
			passOver(k, err)
			return true, nil
		}
		found = append(found, w)
		return len(found) < limit, nil
	})
	if err == nil && len(found) < limit {
		// A body alone is what is left where the key of the other part is damaged.
		err = t.scan("webhooks", bodies, nil, func(k, _ []byte) (bool, error) {
			ok, err := infos.has("webhooks", fit(k, idLen))
			if err == nil && !ok {
				passOver(k, fmt.Errorf("%w: there is a body, and nothing beside it", store.ErrCorrupt))
			}
			return true, err
		})
	}
	return found, errors.Join(append(bad, err)...)
}

// webhook makes a webhook of its stored parts.
func webhook(k, info []byte, bodies *table) (w store.Webhook, err error) {
	if len(k) != idLen {
		return w, fmt.Errorf("%w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), idLen)
	}
	w, sum, err := parseWebhookInfo(k, info)
	if err == nil {
		w.Body, err = body(bodies, k, sum)
	}
	return w, err
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
	info, err := t.table(bucketWebhooksInfo).drop(id[:])
	if err != nil {
		return fmt.Errorf("delete webhook %s: %w", id, err)
	}
	body, err := t.table(bucketWebhooks).drop(id[:])
	if err != nil {
		return fmt.Errorf("delete webhook %s: %w", id, err)
	}
	if !info && !body {
		return fmt.Errorf("delete webhook %s: %w", id, store.ErrNotFound)
	}
	return nil
}

// quarantineValue is the stored form of what was set aside. Raw is in base64:
// it need not be JSON.
type quarantineValue struct {
	Kind   effects.Kind `json:"kind"`
	ID     uuid.UUID    `json:"id"`
	N      uint32       `json:"n,omitempty"`
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

// maxListSweep bounds how many list entries SetAside and TermsOf look through for those of
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

// RemoveDue implements [store.Tx].
func (t *tx) RemoveDue(d store.DueEntry) (err error) {
	if err := t.check("remove due"); err != nil {
		return err
	}
	defer guard("remove due", &err)
	if err := t.putDue([]dueOp{{key: d.Key[:], kind: d.Kind}}); err != nil {
		return &store.RecordError{Op: "remove due", Kind: d.Kind, ID: d.Key.ID(), Err: err}
	}
	return nil
}

func (t *tx) setAside(q *store.Quarantined, due effects.Time) error {
	bad := store.ValidateKind(q.Kind)
	switch {
	case bad != nil && due == 0:
		return bad
	case bad != nil: // no record's: the value of the due entry is damaged
	case q.Kind == store.KindWebhook || q.Kind == store.KindOutbox:
		if q.Raw == nil {
			q.Raw, _ = t.standing(q) // what cannot be read even so must not hold up the rest
		}
	default:
		tables := t.kind(q.Kind)
		if k, raw := tables.records.find(q.ID[:]); k != nil {
			if err := t.removeRecord(q, tables, k, raw); err != nil {
				return err
			}
		}
	}
	if due != 0 {
		key := store.NewDueKey(due, q.ID)
		if err := t.putDue([]dueOp{{key: key[:], kind: q.Kind}}); err != nil {
			return err
		}
	}
	key := appendQuarantineKey(nil, q)
	if _, ok := t.table(bucketQuarantine).get(key); ok && q.Raw == nil {
		return nil // set aside before, perhaps with its bytes
	}
	return t.putJSON("set aside", bucketQuarantine, key, quarantineValue(*q))
}

// standing gives what is stored of a webhook or an outbox entry: the body or the
// effect, or all of it where it cannot be read, a webhook's in two parts with a
// line break between.
func (t *tx) standing(q *store.Quarantined) (raw []byte, err error) {
	defer guard("set aside", &err)
	if q.Kind == store.KindOutbox {
		key := effectKeyBytes(store.EffectKey{ID: q.ID, N: q.N})
		_, v := t.table(bucketOutbox).find(key[:])
		if o, err := parseOutbox(key[:], v); err == nil {
			v = o.effect
		}
		return bytes.Clone(v), nil
	}
	bodies := t.table(bucketWebhooks)
	k, info := t.table(bucketWebhooksInfo).find(q.ID[:])
	if w, err := webhook(k, info, bodies); err == nil {
		return bytes.Clone(w.Body), nil
	}
	parts := [][]byte{}
	if k != nil {
		parts = append(parts, bytes.Clone(info))
	}
	if k, body := bodies.find(q.ID[:]); k != nil {
		parts = append(parts, body)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return bytes.Join(parts, []byte("\n")), nil
}

func (t *tx) removeRecord(q *store.Quarantined, tables *kindTables, key, raw []byte) error {
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
	if err := tables.records.bucket.Delete(key); err != nil {
		return err
	}
	return t.removeTerms(q.Kind, tables.lists, q.ID)
}

// removeTerms looks for the list entries of a record by its id.
func (t *tx) removeTerms(kind effects.Kind, lists *table, id uuid.UUID) error {
	var keys [][]byte
	counts := map[countKey]int64{}
	err := t.listEntries("set aside", lists, id, func(k, v []byte) {
		keys = append(keys, bytes.Clone(k))
		if string(v) == counted {
			counts[countKey{kind, string(k[lengthSize : len(k)-listTail])}]--
		}
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
