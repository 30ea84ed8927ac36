package tables

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// ExportOptions say what the tables alone do not tell.
type ExportOptions struct {
	Bytes int64           // about how many it will be: see [store.Head]
	Place json.RawMessage // see [store.Head]
	// Lost is why the whole journal is left out; nil: it is not.
	Lost error
}

// Export gives all that a transaction sees, as [store.Exporter] does.
func Export(tx *ReadTx, to store.Sink, o ExportOptions) error {
	x := &exporter{ReadTx: tx, to: to, o: o, bad: make(map[effects.Ref]struct{})}
	if err := x.all(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// exporter gives all of one View.
type exporter struct {
	*ReadTx
	to      store.Sink
	o       ExportOptions
	epoch   store.Epoch              // the current one
	bad     map[effects.Ref]struct{} // records that were passed over
	room    Texts                    // for the text of one entry
	refused error                    // of the sink
}

func (x *exporter) all() error {
	for _, part := range []func() error{
		x.head, x.records, x.due, x.terms, x.outboxEntries, x.webhooks, x.runLogs, x.claimed, x.setAsides, x.metas,
		func() error { return x.journal(x.o.Lost) },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) head() (err error) {
	if x.epoch, err = x.current(); err != nil {
		return err
	}
	h := store.Head{Bytes: x.o.Bytes, Place: x.o.Place}
	if h.Seq, err = x.lastSeq(); err != nil {
		return err
	}
	if h.Token, err = x.token(); err != nil {
		return err
	}
	return x.to.Begin(h)
}

// omit tells that something is left out.
func (x *exporter) omit(what, name string, err error) error {
	return x.give(x.to.Omitted(store.Omission{What: what, Name: name, Reason: err.Error()}))
}

// give notes an error of the sink.
func (x *exporter) give(err error) error {
	if err != nil {
		x.refused = err
	}
	return err
}

// setAside gives what cannot be read as what was set aside, and tells of it.
func (x *exporter) setAside(q store.Quarantined, what string, err error) error {
	q.At, q.Reason, q.Raw = x.epoch.Started, err.Error(), bytes.Clone(q.Raw)
	name := q.ID.String()
	if q.Kind == store.KindOutbox {
		name = store.EffectKey{ID: q.ID, N: q.N}.String()
	}
	if err := x.omit(what, name, err); err != nil {
		return err
	}
	return x.give(x.to.Quarantined(q))
}

// each visits the entries of a table.
func (x *exporter) each(name string, fn func(k, v []byte) error) error {
	t, err := x.openNamed("export", name)
	if err != nil {
		return err
	}
	return x.scan("export "+name, t, nil, func(k, v []byte) (bool, error) { return true, fn(k, v) })
}

func (x *exporter) eachOf(in int, fn func(k, v []byte) error) error {
	return x.each(fixedNames[in], fn)
}

// eachKind visits the tables of all kinds that have this prefix.
func (x *exporter) eachKind(prefix string, fn func(kind effects.Kind, k, v []byte) error) error {
	kinds, err := x.kindsOf(prefix)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := x.each(prefix+string(kind), func(k, v []byte) error { return fn(kind, k, v) }); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) records() error {
	return x.eachKind(RecordsPrefix, func(kind effects.Kind, k, v []byte) error {
		r, err := RecordAt(kind, k, v, x.room.again())
		if err != nil {
			id := uuid.UUID(Fit(k, IDLen))
			x.bad[effects.Ref{Kind: kind, ID: id}] = struct{}{}
			return x.setAside(store.Quarantined{Kind: kind, ID: id, Raw: Legible(v)}, "record", err)
		}
		return x.give(x.to.Record(r))
	})
}

func (x *exporter) isBad(kind effects.Kind, id uuid.UUID) bool {
	_, bad := x.bad[effects.Ref{Kind: kind, ID: id}]
	return bad
}

func (x *exporter) due() error {
	return x.eachOf(inDue, func(k, v []byte) error {
		var key store.DueKey
		if len(k) != len(key) {
			return x.omit("due entry", fmt.Sprintf("%x", k), fmt.Errorf("%w: the key has %d bytes, not %d", store.ErrCorrupt, len(k), len(key)))
		}
		copy(key[:], k)
		for rest := string(v); rest != ""; {
			e := store.DueEntry{Key: key}
			if e.Kind, e.Share, rest = cutKinds(rest); x.isBad(e.Kind, key.ID()) {
				continue
			}
			if err := x.give(x.to.Due(e)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *exporter) terms() error {
	return x.eachKind(ListsPrefix, func(kind effects.Kind, k, v []byte) error {
		name, ok := TermOf(k)
		if !ok {
			return x.omit("list entry", fmt.Sprintf("%x", k), fmt.Errorf("%w: the key is none of a list", store.ErrCorrupt))
		}
		tail := k[len(k)-listTail:]
		id := uuid.UUID(tail[8:])
		if x.isBad(kind, id) {
			return nil
		}
		return x.give(x.to.Term(kind, id, store.Term{Name: name, At: timeOf(tail), Counted: string(v) == Counted}))
	})
}

func (x *exporter) outboxEntries() error {
	return x.eachOf(inOutbox, func(k, v []byte) error {
		e, err := x.entry(k, v)
		if err != nil {
			key := effectKeyOf(Fit(k, effectLen))
			return x.setAside(store.Quarantined{Kind: store.KindOutbox, ID: key.ID, N: key.N, Raw: v}, "outbox entry", err)
		}
		return x.give(x.to.Outbox(e))
	})
}

func (x *exporter) webhooks() error {
	bodies, infos := x.table(inWebhooks), x.table(inWebhooksInfo)
	bad := func(k []byte, err error) error {
		q := store.Quarantined{Kind: store.KindWebhook, ID: uuid.UUID(Fit(k, IDLen))}
		q.Raw, _ = x.standing(&q) // what cannot be read even so is lost
		return x.setAside(q, "webhook", err)
	}
	err := x.eachOf(inWebhooksInfo, func(k, v []byte) error {
		w, err := webhook(k, v, bodies)
		if err != nil {
			return bad(k, err)
		}
		return x.give(x.to.Webhook(w))
	})
	if err != nil {
		return err
	}
	return x.eachOf(inWebhooks, func(k, _ []byte) error { // see ReadTx.Webhooks
		ok, err := infos.has("webhooks", Fit(k, IDLen))
		if err == nil && !ok {
			err = bad(k, errBodyAlone)
		}
		return err
	})
}

func (x *exporter) runLogs() error {
	return x.eachOf(inRunLogs, func(k, v []byte) error {
		text, err := parseRunLog(k, v)
		if err == nil && len(k) != effectLen {
			err = fmt.Errorf("%w: the key has %d bytes, not %d", store.ErrCorrupt, len(k), effectLen)
		}
		key := effectKeyOf(Fit(k, effectLen))
		if err != nil {
			return x.omit("run log", key.String(), err)
		}
		return x.give(x.to.RunLog(key.ID, key.N, text))
	})
}

func (x *exporter) claimed() error {
	return x.eachOf(inClaims, func(k, v []byte) error {
		c, err := ParseClaim(k, v)
		if err != nil {
			return x.omit("claim", fmt.Sprintf("%q", k), err)
		}
		return x.give(x.to.Claim(c))
	})
}

func (x *exporter) setAsides() error {
	return x.eachOf(inQuarantine, func(k, v []byte) error {
		var q QuarantineValue
		if err := ParseJSON(k, v, &q); err != nil {
			return x.omit("what was set aside", fmt.Sprintf("%x", k), err)
		}
		return x.give(x.to.Quarantined(store.Quarantined(q)))
	})
}

func (x *exporter) metas() error {
	return x.eachOf(inMeta, func(k, v []byte) error {
		value, err := parseMeta(k, v)
		if err != nil {
			return x.omit("value", fmt.Sprintf("%q", k), err)
		}
		return x.give(x.to.Meta(string(k), value))
	})
}
