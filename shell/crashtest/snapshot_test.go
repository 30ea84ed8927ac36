//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// line is what one run of a tool has left behind.
type line struct {
	action  uuid.UUID
	cycle   uint32
	attempt uint32
}

// text gives the line as the tools write it: the idempotency key, the attempt.
func (l line) text() string { return fmt.Sprintf("%s/%d %d\n", l.action, l.cycle, l.attempt) }

// lineWidth makes each line of side effects 256 bytes long, with its end: a kill may cut a
// write between two pages of the file, and so no line stands on two of them.
const lineWidth = 255

// readLines reads the file of the side effects.
func readLines(path string) ([]line, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []line
	for s := range strings.Lines(string(b)) {
		l, err := parseLine(s)
		if err != nil {
			return nil, fmt.Errorf("side effect %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func parseLine(s string) (line, error) {
	key, attempt, ok1 := strings.Cut(strings.TrimRight(strings.TrimSuffix(s, "\n"), " "), " ")
	id, cycle, ok2 := strings.Cut(key, "/")
	action, err1 := uuid.Parse(id)
	n, err2 := strconv.ParseUint(cycle, 10, 32)
	a, err3 := strconv.ParseUint(attempt, 10, 32)
	if err := errors.Join(err1, err2, err3); err != nil || !ok1 || !ok2 || !strings.HasSuffix(s, "\n") {
		return line{}, fmt.Errorf("%q is not a whole line: %w", s, err)
	}
	return line{action: action, cycle: uint32(n), attempt: uint32(a)}, nil
}

// snapshot is all that a store holds.
type snapshot struct {
	actions     map[uuid.UUID]core.Action
	recurring   map[uuid.UUID]core.RecurringAction
	occurrences map[uuid.UUID][]core.Occurrence // by recurring action
	backfills   map[uuid.UUID]core.Backfill
	guards      []core.Dedup
	outbox      []string
	webhooks    []uuid.UUID
	quarantine  []string
	due         []store.DueKey
	counts      map[string]uint64
}

// take reads a store.
func take(ctx context.Context, st store.Store) (*snapshot, error) {
	s := &snapshot{
		actions: make(map[uuid.UUID]core.Action), recurring: make(map[uuid.UUID]core.RecurringAction),
		occurrences: make(map[uuid.UUID][]core.Occurrence), backfills: make(map[uuid.UUID]core.Backfill), counts: make(map[string]uint64),
	}
	const all = 1 << 20
	return s, st.View(ctx, func(tx store.ReadTx) error {
		if err := tx.Records(s.record); err != nil {
			return err
		}
		if err := tx.Outbox(func(e store.OutboxEntry) error {
			s.outbox = append(s.outbox, fmt.Sprintf("%s run %d, lane %s, holder %q", e.Key.ID, e.Key.N, e.Lane, e.Holder))
			return nil
		}); err != nil {
			return err
		}
		hooks, err := tx.Webhooks(all)
		if err != nil {
			return err
		}
		for _, h := range hooks {
			s.webhooks = append(s.webhooks, h.ID)
		}
		aside, err := tx.Quarantine(all)
		if err != nil {
			return err
		}
		for _, q := range aside {
			s.quarantine = append(s.quarantine, fmt.Sprintf("%s/%s: %s", q.Kind, q.ID, q.Reason))
		}
		due, err := tx.Due(nil, nil, effects.MaxTime, all)
		for _, d := range due {
			s.due = append(s.due, d.Key)
		}
		return errors.Join(err, s.readCounts(tx))
	})
}

func (s *snapshot) record(r store.Record) error {
	st, err := core.DecodeState(r.Kind, r.State)
	if err != nil {
		return fmt.Errorf("record %s/%s: %w", r.Kind, r.ID, err)
	}
	switch st := st.(type) {
	case core.Action:
		s.actions[r.ID] = st
	case core.RecurringAction:
		s.recurring[r.ID] = st
	case core.Occurrence:
		s.occurrences[st.RecurringID] = append(s.occurrences[st.RecurringID], st)
	case core.Backfill:
		s.backfills[r.ID] = st
	case core.Dedup:
		s.guards = append(s.guards, st)
	default:
		return fmt.Errorf("record %s/%s is a %T, which this suite does not know", r.Kind, r.ID, st)
	}
	return nil
}

var statuses = []core.StatusType{core.StatusPending, core.StatusRunning, core.StatusCompleted, core.StatusFailed, core.StatusCancelled}

func (s *snapshot) readCounts(tx store.ReadTx) error {
	for _, term := range append([]string{core.TermAll}, terms(statuses)...) {
		n, err := tx.Count(core.KindAction, term)
		if err != nil {
			return err
		}
		s.counts[term] = n
	}
	return nil
}

func terms(list []core.StatusType) (out []string) {
	for _, st := range list {
		out = append(out, core.StatusTerm(st))
	}
	return out
}
