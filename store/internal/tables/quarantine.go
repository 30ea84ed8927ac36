package tables

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// QuarantineValue is the stored form of what was set aside. Raw is in base64:
// it need not be JSON.
type QuarantineValue struct {
	Kind   effects.Kind `json:"kind"`
	ID     uuid.UUID    `json:"id"`
	N      uint32       `json:"n,omitempty"`
	At     effects.Time `json:"at"`
	Reason string       `json:"reason"`
	Raw    []byte       `json:"raw"`
}

// Quarantine implements [store.ReadTx].
func (t *ReadTx) Quarantine(limit int) (found []store.Quarantined, err error) {
	if err := t.check("quarantine"); err != nil || limit <= 0 {
		return nil, err
	}
	err = t.scan("quarantine", t.table(inQuarantine), nil, func(k, v []byte) (bool, error) {
		var q QuarantineValue
		if err := ParseJSON(k, v, &q); err != nil {
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

// SetAside implements [store.Tx].
func (t *Tx) SetAside(q store.Quarantined, due effects.Time) (err error) {
	if err := t.check("set aside"); err != nil {
		return err
	}
	defer Guard("set aside", &err)
	q.At = ClampTime(q.At)
	if err := t.setAside(&q, due); err != nil {
		return &store.RecordError{Op: "set aside", Kind: q.Kind, ID: q.ID, Err: err}
	}
	return nil
}

func (t *Tx) setAside(q *store.Quarantined, due effects.Time) error {
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
		t.putDue([]dueOp{{key: key[:], kind: q.Kind}})
	}
	key := AppendQuarantineKey(nil, q)
	if _, ok := t.table(inQuarantine).Get(key); ok && q.Raw == nil {
		return nil // set aside before, perhaps with its bytes
	}
	return t.putJSON("set aside", inQuarantine, key, QuarantineValue(*q))
}

// standing gives what is stored of a webhook or an outbox entry: the body or the
// effect, or all of it where it cannot be read, a webhook's in two parts with a
// line break between.
func (t *ReadTx) standing(q *store.Quarantined) (raw []byte, err error) {
	defer Guard("set aside", &err)
	if q.Kind == store.KindOutbox {
		key := effectKeyBytes(store.EffectKey{ID: q.ID, N: q.N})
		_, v := t.table(inOutbox).find(key[:])
		if o, err := parseOutbox(key[:], v); err == nil {
			v = o.effect
		}
		return bytes.Clone(v), nil
	}
	bodies := t.table(inWebhooks)
	k, info := t.table(inWebhooksInfo).find(q.ID[:])
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

func (t *Tx) removeRecord(q *store.Quarantined, tables *kindTables, key, raw []byte) error {
	epoch, err := t.current()
	if err != nil {
		return err
	}
	// A record whose envelope is whole is still the base of a replay.
	r, err := ParseRecord(q.Kind, q.ID, raw, &t.texts)
	if err == nil && r.Seq < epoch.First {
		last, err := t.lastSeq()
		if err != nil {
			return err
		}
		t.keepBase(epoch, max(last, epoch.First), q.Kind, q.ID, raw)
	}
	if q.Raw == nil {
		q.Raw = Legible(raw)
		if err == nil {
			q.Raw = r.State
		}
	}
	tables.records.Delete(key)
	return t.removeTerms(q.Kind, tables.lists, q.ID)
}

// removeTerms looks for the list entries of a record by its id.
func (t *Tx) removeTerms(kind effects.Kind, lists *table, id uuid.UUID) error {
	var keys [][]byte
	counts := map[countKey]int64{}
	err := t.listEntries("set aside", lists, id, func(k, v []byte) {
		keys = append(keys, bytes.Clone(k))
		if string(v) == Counted {
			counts[countKey{kind, string(effects.CountName(k[lengthSize : len(k)-listTail]))}]--
		}
	})
	if err != nil {
		return err
	}
	for _, k := range keys {
		lists.Delete(k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(counts), countKey.compare) {
		t.add(k, counts[k])
	}
	return nil
}
