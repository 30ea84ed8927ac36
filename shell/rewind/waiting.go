package rewind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// waiting has what the given records wait for, and where they stand in the lists, sorted as an
// export gives it.
type waiting struct {
	due    *sorter // by key and kind
	terms  *sorter // by kind and name
	outbox *sorter // by key
	runs   *sorter // by id: how many attempts of a run had ended
	key    []byte
	value  []byte
}

// interrupted is the holder of what may have begun: a claim that nobody has.
const interrupted = "rewound"

func newWaiting(o Options) *waiting {
	part := func() *sorter { return newSorter(o.Spill, o.Memory/8) }
	return &waiting{due: part(), terms: part(), outbox: part(), runs: part()}
}

func (w *waiting) all() []*sorter { return []*sorter{w.due, w.terms, w.outbox, w.runs} }

func (w *waiting) begin() (err error) {
	for _, s := range w.all() {
		err = errors.Join(err, s.begin())
	}
	return err
}

func (w *waiting) close() (err error) {
	for _, s := range w.all() {
		err = errors.Join(err, s.close())
	}
	return err
}

// add notes what a record waits for; changed: the source has another state of it; other: or another record
// under its id.
func (w *waiting) add(state core.State, r store.Record, changed, other bool) error {
	if at := state.Deadline(); !at.IsZero() {
		key := store.NewDueKey(at, r.ID)
		w.value = binary.AppendUvarint(w.value[:0], uint64(engine.DueShare(core.ScopeOf(state))))
		if err := w.due.add(append(append(w.key[:0], key[:]...), r.Kind...), w.value); err != nil {
			return err
		}
	}
	for _, t := range state.Terms() {
		w.key = append(append(w.key[:0], r.Kind...), 0)
		w.key = append(append(w.key, t.Name...), 0)
		w.key = binary.BigEndian.AppendUint64(w.key, uint64(t.At)^1<<63)
		w.key = append(w.key, r.ID[:]...)
		counted := []byte{0}
		if t.Counted {
			counted[0] = 1
		}
		if err := w.terms.add(w.key, counted); err != nil {
			return err
		}
	}
	for _, e := range core.Outstanding(state) {
		if err := w.addEffect(state, r, e); err != nil {
			return err
		}
	}
	return w.addRun(state, r.ID, changed, other)
}

// addEffect notes an outer effect as one that may have begun.
func (w *waiting) addEffect(state core.State, r store.Record, e effects.Outer) error {
	w.key = binary.BigEndian.AppendUint32(append(w.key[:0], r.ID[:]...), e.Number())
	lane := store.ShareLane(e.Lane(), engine.ShareOf(core.ScopeOf(state)))
	w.value = binary.AppendUvarint(w.value[:0], r.Seq)
	w.value = binary.AppendUvarint(w.value, uint64(len(r.Kind)))
	w.value = binary.AppendUvarint(w.value, uint64(len(lane)))
	w.value = append(append(w.value, r.Kind...), lane...)
	if e.Repeatable() { // the rest stands in the machine's state
		w.value = e.AppendJSON(w.value)
	}
	return w.outbox.add(w.key, w.value)
}

func effectOf(key, value []byte) (e store.OutboxEntry) {
	number := func() uint64 {
		n, size := binary.Uvarint(value)
		value = value[size:]
		return n
	}
	cut := len(key) - 4
	e.Key = store.EffectKey{ID: uuid.UUID(key[:cut]), N: binary.BigEndian.Uint32(key[cut:])}
	e.Seq = number()
	kind, lane := number(), number()
	e.Kind, e.Lane, e.Effect = effects.Kind(value[:kind]), string(value[kind:kind+lane]), value[kind+lane:]
	e.Holder = interrupted
	return e
}

// everyAttempt of a run that the source has as it was.
const everyAttempt = math.MaxUint32

// addRun notes of how many attempts, counted from 0, a run had stored all its logs by then, and an
// action all that it has written: these stay. Those of an action that recurs may be of a later cycle.
func (w *waiting) addRun(state core.State, id uuid.UUID, changed, other bool) error {
	if !core.KeepsLogs(state.Ref().Kind) {
		return nil
	}
	ended := uint32(everyAttempt)
	if changed {
		switch s := state.(type) {
		case core.Orchestrator:
			if ended = s.RetryAttempt; s.State.Terminal() || s.State == core.OrchestratorRetrying || s.Logs.Stored {
				ended++
			}
		case core.Action:
			if ended = s.Attempt; s.Status.Type != core.StatusRunning {
				ended++
			}
			if !s.Recurrence.IsZero() {
				ended = 0
			}
		}
	}
	if other {
		ended = 0 // its logs went with it
	}
	w.value = binary.BigEndian.AppendUint32(w.value[:0], ended)
	return w.runs.add(id[:], w.value)
}

// hadEnded reports whether an attempt of a run had ended; runs are asked for in the order of their ids.
func (w *waiting) hadEnded(run uuid.UUID, attempt uint32) (bool, error) {
	for {
		key, value, ok := w.runs.peek()
		switch order := bytes.Compare(key, run[:]); {
		case !ok || order > 0:
			return false, nil
		case order == 0:
			return attempt < binary.BigEndian.Uint32(value), nil
		}
		if err := w.runs.next(); err != nil {
			return false, err
		}
	}
}

// giveDue gives the due index.
func (w *waiting) giveDue(to store.Sink) error {
	return each(w.due, func(k, share []byte) error {
		var key store.DueKey
		n, _ := binary.Uvarint(share)
		return to.Due(store.DueEntry{Kind: effects.Kind(k[copy(key[:], k):]), Key: key, Share: uint32(n)})
	})
}

// giveTerms gives the list indexes.
func (w *waiting) giveTerms(to store.Sink) error {
	return each(w.terms, func(k, counted []byte) error {
		kind, rest, _ := bytes.Cut(k, []byte{0})
		tail := rest[len(rest)-8-len(uuid.UUID{}):]
		t := store.Term{Name: string(rest[:len(rest)-len(tail)-1]), At: effects.Time(binary.BigEndian.Uint64(tail) ^ 1<<63), Counted: counted[0] != 0}
		return to.Term(effects.Kind(kind), uuid.UUID(tail[8:]), t)
	})
}

// giveOutbox gives what comes before an entry that the source has, and that; nil: what is left. An entry
// of the source tells more: that its effect waits for its turn, and so has certainly not begun.
func (w *waiting) giveOutbox(to store.Sink, now *store.OutboxEntry, report *Report) error {
	var name []byte
	if now != nil {
		name = binary.BigEndian.AppendUint32(append([]byte{}, now.Key.ID[:]...), now.Key.N)
	}
	for {
		key, value, ok := w.outbox.peek()
		order := bytes.Compare(key, name)
		if !ok || now != nil && order > 0 {
			return nil // nobody waited for the effect of now by then
		}
		e := effectOf(key, value)
		same := now != nil && order == 0
		if same {
			e.Seq, e.Lane, e.Holder, e.Token = now.Seq, now.Lane, now.Holder, now.Token
			if len(e.Effect) == 0 {
				e.Effect = now.Effect // of an earlier build
			}
		}
		if !e.Waiting() {
			report.Interrupted++
		}
		if err := to.Outbox(e); err != nil {
			return err
		}
		if err := w.outbox.next(); err != nil || same {
			return err
		}
	}
}

// each calls fn for each entry.
func each(s *sorter, fn func(key, value []byte) error) error {
	for {
		key, value, ok := s.peek()
		if !ok {
			return nil
		}
		if err := fn(key, value); err != nil {
			return err
		}
		if err := s.next(); err != nil {
			return err
		}
	}
}
