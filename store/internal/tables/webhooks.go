package tables

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// What is kept of a webhook beside its body, which stands verbatim in a bucket
// of its own (001 webhooks).
func appendWebhookInfo(b []byte, w *store.Webhook) []byte {
	start := len(b)
	b = appendText(openSeal(b), `"route":`, w.Route)
	b = appendNumber(b, `,"received_at":`, uint64(w.ReceivedAt))
	b = appendNumber(b, `,"body_crc":`, uint64(crc32.Checksum(w.Body, castagnoli)))
	b = append(b, `,"header":`...)
	b = append(b, w.Header...)
	return closeSeal(b, start, sumOf(w.ID[:]))
}

func parseWebhookInfo(key, raw []byte) (w store.Webhook, bodySum uint64, err error) {
	f := openFields(raw, sumOf(key))
	w.ID = uuid.UUID(key)
	w.Route = string(f.text(`"route":`))
	w.ReceivedAt = effects.Time(f.number(`,"received_at":`))
	bodySum = f.number(`,"body_crc":`)
	w.Header = f.remainder(`,"header":`)
	return w, bodySum, f.err
}

// Webhooks implements [store.ReadTx].
func (t *ReadTx) Webhooks(limit int) (found []store.Webhook, err error) {
	if err := t.check("webhooks"); err != nil || limit <= 0 {
		return nil, err
	}
	infos, bodies := t.table(inWebhooksInfo), t.table(inWebhooks)
	var bad []error
	passOver := func(k []byte, err error) {
		bad = appendBad(bad, &store.RecordError{Op: "webhooks", Kind: store.KindWebhook, ID: uuid.UUID(Fit(k, IDLen)), Err: err})
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
			ok, err := infos.has("webhooks", Fit(k, IDLen))
			if err == nil && !ok {
				passOver(k, errBodyAlone)
			}
			return true, err
		})
	}
	return found, errors.Join(append(bad, err)...)
}

// errBodyAlone is about a webhook of which the key of the other part is damaged, or that part is lost.
var errBodyAlone = fmt.Errorf("%w: there is a body, and nothing beside it", store.ErrCorrupt)

// HasWebhook reports whether a raw webhook is stored, readable or not.
func (t *ReadTx) HasWebhook(id uuid.UUID) (bool, error) {
	const op = "has webhook"
	if err := t.check(op); err != nil {
		return false, err
	}
	return t.table(inWebhooksInfo).has(op, id[:])
}

// webhook makes a webhook of its stored parts.
func webhook(k, info []byte, bodies *table) (w store.Webhook, err error) {
	if len(k) != IDLen {
		return w, fmt.Errorf("%w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), IDLen)
	}
	w, sum, err := parseWebhookInfo(k, info)
	if err == nil {
		w.Body, err = body(bodies, k, sum)
	}
	return w, err
}

func body(bodies *table, key []byte, sum uint64) (b []byte, err error) {
	defer Guard("body", &err)
	b, ok := bodies.Get(key)
	if !ok || uint64(crc32.Checksum(b, castagnoli)) != sum {
		return nil, fmt.Errorf("%w: its body is missing or changed", store.ErrCorrupt)
	}
	return b, nil
}

// PutWebhook implements [store.Tx].
func (t *Tx) PutWebhook(w store.Webhook) (err error) {
	if err := t.check("put webhook"); err != nil {
		return err
	}
	defer Guard("put webhook", &err)
	if w.ID == uuid.Nil {
		return errors.New("put webhook: id is zero")
	}
	w.ReceivedAt = ClampTime(w.ReceivedAt)
	t.table(inWebhooksInfo).Put(w.ID[:], appendWebhookInfo(nil, &w))
	t.table(inWebhooks).Put(w.ID[:], w.Body)
	return nil
}

// DeleteWebhook implements [store.Tx].
func (t *Tx) DeleteWebhook(id uuid.UUID) (err error) {
	if err := t.check("delete webhook"); err != nil {
		return err
	}
	defer Guard("delete webhook", &err)
	info := t.table(inWebhooksInfo).drop(id[:])
	body := t.table(inWebhooks).drop(id[:])
	if !info && !body {
		return fmt.Errorf("delete webhook %s: %w", id, store.ErrNotFound)
	}
	return nil
}
