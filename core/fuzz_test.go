package core_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
)

// pick chooses one of the kinds by a byte.
func pick(n byte) effects.Kind { return kinds[int(n)%len(kinds)] }

func FuzzDecodeEvent(f *testing.F) {
	for i, kind := range kinds {
		for _, e := range goldenEvents()[kind] {
			f.Add(byte(i), core.AppendEvent(nil, e))
		}
	}
	f.Fuzz(func(t *testing.T, n byte, b []byte) {
		defer boundtest.Within(t, len(b))()
		kind := pick(n)
		e, err := core.DecodeEvent(kind, b)
		if err != nil {
			require.Nil(t, e)
			return
		}
		// An event that no machine takes need not be written again; one that is
		// taken is journaled, so it must.
		for _, s := range []core.State{absent(kind), made(kind)} {
			if _, effs := checkedApply(t, s, e, core.Clock{Now: start}); refusal(effs) == nil {
				checkEventJSON(t, kind, e)
			}
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	for _, s := range goldenStates() {
		for i, kind := range kinds {
			if kind == s.Ref().Kind {
				f.Add(byte(i), s.AppendJSON(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, n byte, b []byte) {
		defer boundtest.Within(t, len(b))()
		kind := pick(n)
		s, err := core.DecodeState(kind, b)
		if err != nil {
			require.Nil(t, s)
			return
		}
		require.Equal(t, kind, s.Ref().Kind)
		_, _ = s.Deadline(), s.Terms()
		// What encodes must decode to the same; a stranger's record need not encode.
		once := s.AppendJSON(nil)
		if again, err := core.DecodeState(kind, once); err == nil {
			require.Equal(t, string(once), encoded(again))
		}
		for _, e := range goldenEvents()[kind] {
			checkedApply(t, s, e, core.Clock{Now: start})
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(goldenEntry().AppendJSON(nil))
	f.Add(core.Entry{Seq: 1, At: start}.AppendJSON(nil))
	f.Add([]byte(`{"seq":1,"inputs":[{"kind":"planet"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer boundtest.Within(t, len(b))()
		entry, err := core.DecodeEntry(b)
		if err != nil {
			return
		}
		batch := core.NewBatch(loader{}, core.Clock{Now: entry.At}, entry.Seq)
		for _, in := range entry.Inputs {
			_, _ = batch.Apply(in) // whatever stands in a journal, it must not panic
		}
		once := entry.AppendJSON(nil)
		if again, err := core.DecodeEntry(once); err == nil {
			require.Equal(t, string(once), encoded(again))
		}
	})
}

// FuzzActionApply reads a program of events: four bytes each, for the event, the
// run, and a jump of the clock in seconds.
func FuzzActionApply(f *testing.F) {
	f.Add(byte(0), []byte("\x00\x00\x00\x00\x03\x01\x00\x05\x00\x00\x00\x00\x07\x01\xff\xff"))
	f.Add(byte(7), []byte("\x00\x00\x00\x00\x05\x01\x00\x00\x00\x00\x00\x3c\x05\x02\x00\x00\x08\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, shape byte, program []byte) {
		defer boundtest.Within(t, len(program))()
		spec := core.ActionSpec{ID: id(1), ToolName: "http", Trigger: core.Scheduled(start), Policy: core.RunPolicy{MaxAttempts: uint32(shape >> 6)}}
		if shape&1 != 0 {
			spec.Policy.OnInterrupt = core.InterruptRetry
		}
		if shape&2 != 0 {
			spec.Recurrence = core.Every(60e9)
		}
		if shape&4 != 0 {
			spec.DedupKey, spec.Occurrence = "k", id(2)
		}
		if shape&8 != 0 {
			spec.Recurrence = core.CronRecurrence("30 2 * * *", "Europe/Zurich")
		}
		clock := core.Clock{Now: start}
		state := core.State(core.Action{})
		next := func(e core.Event) {
			after, effs := checkedApply(t, state, e, clock)
			s := step{before: state, after: after, event: e, clock: clock, effs: effs}
			for _, inv := range invariants[core.KindAction] {
				require.Empty(t, inv.check(s), inv.sentence)
			}
			if state = after; exists(state) {
				checkStateJSON(t, state)
			}
		}
		next(core.ActionCreate{Spec: spec})
		for len(program) >= 4 && exists(state) {
			run := uint32(program[1])
			clock.Now = clock.Now.Add(time.Duration(int16(binary.BigEndian.Uint16(program[2:4]))) * time.Second)
			switch program[0] % 9 {
			case 0:
				next(core.ActionDue{})
			case 1:
				next(core.ActionTrigger{})
			case 2:
				mode := []core.CancelMode{core.CancelNow, core.CancelAwait, core.CancelKill}[program[1]%3]
				next(core.ActionCancel{Reason: string(program[1:4]), Mode: mode})
			case 3:
				next(core.ActionComplete{Run: run, Result: program[2:4]})
			case 4:
				next(core.ActionFail{Run: run, Reason: string(program[2:4])})
			case 5:
				next(core.ActionInterrupt{Run: run})
			case 6:
				next(core.ActionHandBack{Run: run})
			case 7:
				next(core.ActionExpire{})
			case 8:
				next(core.ActionCreate{Spec: spec})
			}
			program = program[4:]
		}
	})
}
