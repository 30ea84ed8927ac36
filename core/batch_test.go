package core_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// world holds the stored forms of all machines, as a store would.
type world map[effects.Ref]string

func (w world) Load(ref effects.Ref) (core.State, error) {
	b, ok := w[ref]
	if !ok {
		return nil, nil
	}
	return core.DecodeState(ref.Kind, []byte(b))
}

// store takes over what a batch has changed.
func (w world) store(t *core.Batch) {
	for _, c := range t.Changes() {
		if c.After == nil {
			delete(w, c.Ref)
		} else {
			w[c.Ref] = encoded(c.After)
		}
	}
}

// refs lists the machines in a fixed order.
func (w world) refs() []effects.Ref {
	return slices.SortedFunc(maps.Keys(w), func(a, b effects.Ref) int { return strings.Compare(a.String(), b.String()) })
}

// The traces in testdata/turn/*.txt show batches over many machines:
//
//	turn [at=…]    one batch; inputs, one a line: KIND/ID EVENT, as in the traces of
//	               the machines; "ack=N" before the event where it answers effect N;
//	               full=KIND: no tenant may have more machines of that kind
//	fire [at=…]    batches of due events until nothing is due any more
//	list           all machines that exist
//	show REF       one machine, whole
//
// What comes out: the answer to each input, what changed, what is to leave the
// process, what is withdrawn, what the bus hears, and what is due at once.
func TestBatchTraces(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "turn", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			w, clock, seq := world{}, core.Clock{Now: start}, uint64(0)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				var out strings.Builder
				clock.Now = parseClock(t, d, clock.Now)
				var inputs []core.Input
				full := ""
				d.MaybeScanArgs(t, "full", &full)
				switch d.Cmd {
				case "list":
					for _, ref := range w.refs() {
						s, _ := w.Load(ref)
						fmt.Fprintf(&out, "%s %s\n", shortRef(ref), phase(s))
					}
					return strings.ReplaceAll(out.String(), ".000Z", "Z")
				case "show":
					kind, name, _ := strings.Cut(expand(d.CmdArgs[0].Key), "/")
					return brief([]byte(w[effects.Ref{Kind: effects.Kind(kind), ID: uuid.MustParse(name)}])) + "\n"
				case "turn":
					for line := range strings.Lines(d.Input) {
						inputs = append(inputs, parseInput(t, strings.TrimSpace(line)))
					}
				case "fire":
					inputs = w.due(clock)
				default:
					d.Fatalf(t, "unknown command %s", d.Cmd)
				}
				for len(inputs) > 0 {
					seq++
					writeBatch(t, &out, w, clock, seq, inputs, effects.Kind(full))
					inputs = nil
					if d.Cmd == "fire" {
						inputs = w.due(clock)
					}
				}
				return strings.ReplaceAll(out.String(), ".000Z", "Z")
			})
		})
	}
}

// due gives a due event for each machine whose deadline has come.
func (w world) due(c core.Clock) []core.Input {
	var out []core.Input
	for _, ref := range w.refs() {
		if s, _ := w.Load(ref); !s.Deadline().IsZero() && s.Deadline() <= c.Now {
			out = append(out, core.Input{To: ref, Actor: "clock", Event: core.DueEvent(ref.Kind)})
		}
	}
	return out
}

func parseInput(t *testing.T, line string) core.Input {
	t.Helper()
	ref, event, _ := strings.Cut(expand(line), " ")
	kind, name, _ := strings.Cut(ref, "/")
	in := core.Input{To: effects.Ref{Kind: effects.Kind(kind), ID: uuid.MustParse(name)}, Actor: "test"}
	if ack, rest, _ := strings.Cut(event, " "); strings.HasPrefix(ack, "ack=") {
		_, err := fmt.Sscanf(ack, "ack=%d", &in.Ack)
		require.NoError(t, err)
		event = rest
	}
	in.Event = parseEvent(t, in.To.Kind, event)
	return in
}

func writeBatch(t *testing.T, out *strings.Builder, w world, clock core.Clock, seq uint64, inputs []core.Input, full effects.Kind) {
	batch := core.NewBatch(w, clock, seq)
	batch.Bound(func(_ core.Scope, kind effects.Kind) core.Allowance {
		if kind != full {
			return core.Allowance{}
		}
		return core.Allowance{Most: 1, What: string(kind) + "s that have not ended"}
	})
	for _, in := range inputs {
		fmt.Fprintf(out, "%s %s: ", shortRef(in.To), in.Event.EventType())
		res, err := batch.Apply(in)
		switch {
		case err != nil:
			fmt.Fprintf(out, "failed: %s\n", longIDs.Replace(err.Error()))
		case res.Refused != nil:
			fmt.Fprintf(out, "refused by %s, %s: %s (changed: %t)\n", shortRef(res.Refused.To), res.Refused.Code, longIDs.Replace(res.Refused.Reason), res.Changed)
		default:
			fmt.Fprintf(out, "taken\n")
		}
	}
	for _, c := range batch.Changes() {
		if strings.HasPrefix(string(c.Ref.Kind), "pipeline_") {
			continue // parts of a pipeline, which is shown
		}
		before, after := absent(c.Ref.Kind), absent(c.Ref.Kind)
		if c.Before != nil {
			before = c.Before
		}
		if c.After != nil {
			after = c.After
		}
		fmt.Fprintf(out, "  %s: %s → %s\n", shortRef(c.Ref), phase(before), phase(after))
	}
	for _, o := range batch.Outer() {
		fmt.Fprintf(out, "  outbox %s %s\n", shortRef(o.From), o.Effect.AppendJSON(nil))
	}
	for _, o := range batch.Withdrawn() {
		fmt.Fprintf(out, "  withdraw %s run %d\n", shortRef(o.From), o.N)
	}
	for _, e := range batch.Events() {
		fmt.Fprintf(out, "  bus %s of %s, %s\n", e.Kind, longIDs.Replace(e.Source.ID.String()), e.ID)
		require.Equal(t, clock.Now, e.Timestamp)
	}
	for _, ref := range batch.Due() {
		fmt.Fprintf(out, "  due at once: %s\n", shortRef(ref))
	}
	w.store(batch)
}

// observed is all that a batch says.
type observed struct {
	Changes, Outer, Withdrawn, Events, Due string
}

func observe(t *core.Batch) observed {
	var changes strings.Builder
	for _, c := range t.Changes() {
		fmt.Fprintf(&changes, "%s", c.Ref)
		for _, s := range []core.State{c.Before, c.After} {
			if s == nil {
				changes.WriteString(" none")
			} else {
				changes.WriteString(" " + encoded(s))
			}
		}
	}
	return observed{changes.String(), fmt.Sprint(t.Outer()), fmt.Sprint(t.Withdrawn()), fmt.Sprint(t.Events()), fmt.Sprint(t.Due())}
}

// drawInputs gives inputs to machines that exist, or not, with known ids.
func drawInputs(t *rapid.T, w world, c core.Clock) []core.Input {
	inputs := w.due(c)
	for range rapid.IntRange(1, 6).Draw(t, "inputs") {
		in := core.Input{Actor: drawText(t, "actor")}
		refs := w.machines().refs()
		if len(refs) == 0 || rapid.IntRange(0, 2).Draw(t, "new") == 0 {
			in.To.Kind = rapid.SampledFrom([]effects.Kind{core.KindAction, core.KindAction, core.KindRecurring, core.KindDedup}).Draw(t, "kind")
			in.To.ID = drawID(t, "to")
		} else {
			in.To = rapid.SampledFrom(refs).Draw(t, "to")
		}
		state, _ := w.Load(in.To)
		if state == nil {
			state = absent(in.To.Kind)
		}
		in.Event = drawEvent(t, state, c)
		switch e := in.Event.(type) { // most creations go where they belong
		case core.ActionCreate:
			in.To.ID = e.Spec.ID
		case core.RecurringCreate:
			in.To.ID = e.Spec.ID
		case core.DedupClaim:
			in.To = core.DedupRef(e.Create.Namespace, e.Create.Tenant, e.Create.DedupKey)
		case core.ActionComplete:
			in.Ack = e.Run
		}
		inputs = append(inputs, in)
	}
	return inputs
}

// This is F3 in small: what is journaled is enough to make everything again.
func TestAReplayFromTheJournalGivesTheSameBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		stored, cached, replayed := world{}, loader{}, world{}
		for seq := uint64(1); seq <= uint64(rapid.IntRange(1, 8).Draw(t, "turns")); seq++ {
			clock = drawClock(t, clock)
			inputs := drawInputs(t, stored, clock)
			live := core.NewBatch(stored, clock, seq)
			warm := core.NewBatch(cached, clock, seq) // over states that never were JSON
			batch := core.NewEntry(seq, clock.Now, "test")
			for _, in := range inputs {
				res, err := live.Apply(in)
				warmRes, warmErr := warm.Apply(in)
				require.Equal(t, res, warmRes)
				require.Equal(t, err == nil, warmErr == nil)
				if err == nil && res.Changed {
					batch.Inputs = append(batch.Inputs, in)
				}
			}
			want := observe(live)
			require.Equal(t, want, observe(warm), "over states in memory")

			decoded, err := core.DecodeEntry(batch.AppendJSON(nil))
			require.NoError(t, err)
			require.Equal(t, encoded(batch), encoded(decoded))
			again := core.NewBatch(replayed, core.Clock{Now: decoded.At}, decoded.Seq)
			for _, in := range decoded.Inputs {
				res, err := again.Apply(in)
				require.NoError(t, err)
				require.True(t, res.Changed, "the replay refuses %s to %s: %v", in.Event.EventType(), in.To, res.Refused)
			}
			require.Equal(t, want, observe(again), "replayed")

			for _, c := range live.Changes() {
				if c.After != nil {
					require.Equal(t, c.Ref, c.After.Ref())
				}
			}
			stored.store(live)
			replayed.store(again)
			for _, c := range warm.Changes() {
				cached[c.Ref] = c.After
				if c.After == nil {
					delete(cached, c.Ref)
				}
			}
		}
		require.Equal(t, stored, replayed)
	})
}

// broken fails for one machine.
type broken struct {
	world
	ref effects.Ref
}

var errDisk = errors.New("broken disk")

func (b broken) Load(ref effects.Ref) (core.State, error) {
	if ref == b.ref {
		return nil, errDisk
	}
	return b.world.Load(ref)
}

func TestAnInputThatCannotBeDecidedLeavesNoTraceAndTheBatchGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		w := world{}
		for seq := uint64(1); seq <= 3; seq++ {
			clock = drawClock(t, clock)
			inputs := drawInputs(t, w, clock)
			// A batch with a hole, and one that is given only what the first decided.
			hole := effects.Ref{Kind: core.KindOccurrence, ID: core.ChildID(id(1), "occurrence", stepOf(int(seq), 0), 1)}
			if refs := w.refs(); len(refs) > 0 && rapid.Bool().Draw(t, "other hole") {
				hole = rapid.SampledFrom(refs).Draw(t, "hole")
			}
			holed, whole := core.NewBatch(broken{w, hole}, clock, seq), core.NewBatch(w, clock, seq)
			for _, in := range inputs {
				before := observe(holed)
				res, err := holed.Apply(in)
				if err != nil {
					require.Zero(t, res)
					require.Equal(t, before, observe(holed), "%s to %s failed and left a trace", in.Event.EventType(), in.To)
					continue
				}
				wholeRes, err := whole.Apply(in)
				require.NoError(t, err)
				require.Equal(t, wholeRes, res)
			}
			require.Equal(t, observe(whole), observe(holed))
			w.store(whole)
		}
	})
}

func TestALoaderThatFailsInTheMiddleOfAnInputUndoesItsBeginning(t *testing.T) {
	r := made(core.KindRecurring)
	occurrence := effects.Ref{Kind: core.KindOccurrence, ID: core.ChildID(id(1), "occurrence", stepOf(1, 0), 1)}
	w := world{r.Ref(): encoded(r)}
	batch := core.NewBatch(broken{w, occurrence}, core.Clock{Now: start.Add(60e9)}, 1)
	_, err := batch.Apply(core.Input{To: r.Ref(), Event: core.RecurringDue{}})
	require.ErrorIs(t, err, errDisk)
	assert.ErrorContains(t, err, occurrence.String(), "the error names what could not be read")
	assert.Equal(t, observed{Outer: "[]", Withdrawn: "[]", Events: "[]", Due: "[]"}, observe(batch))
	now, err := batch.State(r.Ref())
	require.NoError(t, err)
	assert.Equal(t, encoded(r), encoded(now))

	text := "an edit that touches no other machine"
	_, err = batch.Apply(core.Input{To: r.Ref(), Event: core.RecurringUpdate{Patch: core.RecurringPatch{Description: &text}}})
	require.NoError(t, err, "the batch goes on")
	require.Len(t, batch.Changes(), 1)
	assert.Equal(t, encoded(r), encoded(batch.Changes()[0].Before))
}

func TestAnEffectOfThisBatchGoesWithItsActionAloneAndComesBackWhereThatFails(t *testing.T) {
	w := world{}
	for n := 1; n <= 3; n++ {
		a := made(core.KindAction).(core.Action)
		a.ID, a.DedupKey = id(n), ""
		if n == 1 {
			a.Occurrence = id(9)
		}
		w[a.Ref()] = encoded(a)
	}
	ref := func(n int) effects.Ref { return effects.Ref{Kind: core.KindAction, ID: id(n)} }
	batch := core.NewBatch(broken{w, effects.Ref{Kind: core.KindOccurrence, ID: id(9)}}, core.Clock{Now: start}, 1)
	for n := 1; n <= 3; n++ {
		_, err := batch.Apply(core.Input{To: ref(n), Event: core.ActionDue{}})
		require.NoError(t, err)
	}
	run := func(n int) core.OuterEffect {
		return core.OuterEffect{From: ref(n), Effect: effects.RunTool{Run: 1, Tool: "http"}}
	}
	require.Equal(t, []core.OuterEffect{run(1), run(2), run(3)}, batch.Outer())

	_, err := batch.Apply(core.Input{To: ref(1), Event: core.ActionCancel{}})
	require.ErrorIs(t, err, errDisk, "its occurrence cannot be told")
	assert.Equal(t, []core.OuterEffect{run(1), run(2), run(3)}, batch.Outer(), "so it still runs")

	_, err = batch.Apply(core.Input{To: ref(2), Event: core.ActionCancel{}})
	require.NoError(t, err)
	assert.Equal(t, []core.OuterEffect{run(1), run(3)}, batch.Outer())
	assert.Empty(t, batch.Withdrawn(), "it never left")
}

func TestTheIdsOfAnnouncementsNeverRepeatWithinABatchOrAcrossBatches(t *testing.T) {
	seen := map[uuid.UUID]bool{}
	for seq := uint64(1); seq <= 3; seq++ {
		batch := core.NewBatch(loader{}, core.Clock{Now: start}, seq)
		for n := range 300 {
			spec := goldenActionSpec()
			spec.ID, spec.Occurrence, spec.DedupKey = id(n+1), uuid.Nil, ""
			ref := effects.Ref{Kind: core.KindAction, ID: spec.ID}
			for _, e := range []core.Event{core.ActionCreate{Spec: spec}, core.ActionCancel{}} {
				_, err := batch.Apply(core.Input{To: ref, Event: e})
				require.NoError(t, err)
			}
		}
		require.Len(t, batch.Events(), 300)
		for _, e := range batch.Events() {
			assert.False(t, seen[e.ID], "%s", e.ID)
			assert.Equal(t, uuid.Version(8), e.ID.Version())
			assert.Equal(t, uuid.RFC4122, e.ID.Variant())
			seen[e.ID] = true
		}
	}
}

func TestDerivedIdsDifferByParentRoleStepAndCounter(t *testing.T) {
	seen := map[uuid.UUID]string{}
	for parent := range 3 {
		for _, role := range []string{"action", "occurrence", ""} {
			for _, step := range []uint64{0, 1, 255, 256, 1 << 63} {
				for _, n := range []uint64{0, 1, 255, 256, 1 << 63} {
					child := core.ChildID(id(parent), role, step, n)
					assert.Equal(t, child, core.ChildID(id(parent), role, step, n))
					assert.Empty(t, seen[child])
					seen[child] = fmt.Sprint(parent, role, step, n)
				}
			}
		}
	}
	assert.NotEqual(t, core.DedupRef("a", "b", "c"), core.DedupRef("a", "", "bc"))
	assert.NotEqual(t, core.DedupRef("ab", "", "c"), core.DedupRef("a", "b", "c"))
}

func TestTheKernelsOwnEventsExistForTheKindsThatNeedThem(t *testing.T) {
	for _, kind := range kinds {
		s := made(kind)
		assert.Equal(t, !s.Deadline().IsZero(), core.DueEvent(kind) != nil, "%s waits for its time and has no due event, or the reverse", kind)
	}
	assert.Equal(t, core.ActionInterrupt{Run: 7, Reason: "gone"}, core.InterruptEvent(core.KindAction, 7, "gone"))
	assert.Equal(t, core.ActionHandBack{Run: 7}, core.HandBackEvent(core.KindAction, 7))
	assert.Equal(t, core.ActionExpire{}, core.ExpireEvent(core.KindAction))
	assert.Equal(t, core.OccurrenceExpire{}, core.ExpireEvent(core.KindOccurrence))
	for _, kind := range []effects.Kind{core.KindRecurring, core.KindDedup, "planet"} {
		assert.Nil(t, core.ExpireEvent(kind))
		assert.Nil(t, core.InterruptEvent(kind, 1, ""))
		assert.Nil(t, core.HandBackEvent(kind, 1))
	}
}
