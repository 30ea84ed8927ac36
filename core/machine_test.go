package core_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// encoded gives the stored form of a state or a journal entry, or the journal form
// of an event.
func encoded(v any) string {
	if e, ok := v.(core.Event); ok {
		return string(core.AppendEvent(nil, e))
	}
	return string(v.(interface{ AppendJSON(b []byte) []byte }).AppendJSON(nil))
}

// compacted gives JSON as encoding/json prints what a Marshaler returned.
func compacted(b []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return "not JSON: " + string(b)
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, out.Bytes())
	return escaped.String()
}

// tb is what rapid.T, testing.T and testing.F share with testify.
type tb interface {
	require.TestingT
	Helper()
}

// checkedApply applies an event and checks what holds for every transition of
// every machine, from whatever state.
func checkedApply(t tb, before core.State, e core.Event, c core.Clock) (core.State, []effects.Effect) {
	t.Helper()
	stateBytes, eventBytes := encoded(before), encoded(e)
	after, effs := apply(before, e, c)
	require.Equal(t, stateBytes, encoded(before), "Apply changed its input state")
	require.Equal(t, eventBytes, encoded(e), "Apply changed its input event")

	again, effsAgain := apply(before, e, c)
	require.Equal(t, encoded(after), encoded(again), "Apply is not deterministic")
	require.Equal(t, effs, effsAgain, "the effects of Apply are not deterministic")

	if r := refusal(effs); r != nil {
		require.Len(t, effs, 1, "a refusal stands beside other effects")
		require.Equal(t, stateBytes, encoded(after), "a refused event changed the state")
		require.Equal(t, e.EventType(), r.Event)
		require.NotEmpty(t, r.Code)
		require.NotEmpty(t, r.Reason)
	}
	return after, effs
}

// checkStateJSON checks that a stored state reads back to the same bytes, and
// that encoding/json sees the same in it as in the hand-written form.
func checkStateJSON(t tb, s core.State) {
	t.Helper()
	b := s.AppendJSON(nil)
	decoded, err := core.DecodeState(s.Ref().Kind, b)
	require.NoError(t, err)
	require.Equal(t, string(b), encoded(decoded), "decode and encode again")
	require.Equal(t, s.Ref(), decoded.Ref())
	require.Equal(t, s.Deadline(), decoded.Deadline())
	require.Equal(t, s.Terms(), decoded.Terms())
	byFields, err := json.Marshal(plain(s))
	require.NoError(t, err)
	require.Equal(t, string(byFields), compacted(b), "encoding/json's view of the fields")
	viaMarshaler, err := json.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, string(viaMarshaler), compacted(b))
}

// plain hides a state's own MarshalJSON, so that encoding/json goes by the
// fields and their tags.
func plain(s core.State) any {
	if a, ok := s.(core.Action); ok {
		type fields core.Action
		return fields(a)
	}
	return s
}

// checkEventJSON checks that a journaled event reads back to the same bytes.
func checkEventJSON(t tb, kind effects.Kind, e core.Event) {
	t.Helper()
	b := core.AppendEvent(nil, e)
	decoded, err := core.DecodeEvent(kind, b)
	require.NoError(t, err, "%s", b)
	require.IsType(t, e, decoded)
	require.Equal(t, string(b), encoded(decoded), "decode and encode again")
}

func TestNoSequenceOfEventsBreaksAnInvariant(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				clock := core.Clock{Now: start}
				state := absent(kind)
				replayed := absent(kind) // the same, by way of the JSON forms
				for range rapid.IntRange(1, 25).Draw(t, "events") {
					clock = drawClock(t, clock)
					if at := state.Deadline(); !at.IsZero() && rapid.Bool().Draw(t, "until due") {
						clock.Now = max(clock.Now, at)
					}
					e := drawEvent(t, state, clock)
					next, effs := checkedApply(t, state, e, clock)
					s := step{before: state, after: next, event: e, clock: clock, effs: effs}
					for _, inv := range invariants[kind] {
						if problem := inv.check(s); problem != "" {
							t.Fatalf("%s\n  does not hold: %s\n  before %s\n  event  %s\n  after  %s", inv.sentence, problem, encoded(state), encoded(e), encoded(next))
						}
					}
					if refusal(effs) == nil { // it would be journaled
						checkEventJSON(t, kind, e)
						replayed = reapply(t, kind, replayed, e, clock)
						require.Equal(t, encoded(next), encoded(replayed), "replayed from JSON")
					}
					if state = next; exists(state) {
						checkStateJSON(t, state)
						checkTerms(t, state)
					}
				}
			})
		})
	}
}

// reapply applies an event that has gone through its journal form to a state
// that has gone through its stored form.
func reapply(t tb, kind effects.Kind, s core.State, e core.Event, c core.Clock) core.State {
	t.Helper()
	event, err := core.DecodeEvent(kind, core.AppendEvent(nil, e))
	require.NoError(t, err)
	if exists(s) {
		s, err = core.DecodeState(kind, s.AppendJSON(nil))
		require.NoError(t, err)
	}
	next, effs := apply(s, event, c)
	require.Nil(t, refusal(effs), "the replay refuses what was taken")
	return next
}

func TestTheGeneratorsDrawEveryEvent(t *testing.T) {
	for kind, types := range sealedEvents(t) {
		missing := map[string]bool{}
		for _, typ := range types {
			missing[typ] = true
		}
		for seed := 0; seed < 3000 && len(missing) > 0; seed++ {
			e := rapid.Custom(func(t *rapid.T) core.Event {
				s := absent(kind)
				if rapid.Bool().Draw(t, "exists") {
					s = made(kind)
				}
				return drawEvent(t, s, core.Clock{Now: start})
			}).Example(seed)
			delete(missing, typeName(e))
		}
		assert.Empty(t, missing, "of %s", kind)
	}
}

// made gives a machine that exists.
func made(kind effects.Kind) core.State {
	clock := core.Clock{Now: start}
	spec := core.ActionSpec{ID: id(1), ToolName: "http", DedupKey: "k", Trigger: core.Scheduled(start)}
	var s core.State
	switch kind {
	case core.KindAction:
		s, _ = core.Action{}.Apply(core.ActionCreate{Spec: spec}, clock)
	case core.KindRecurring:
		s, _ = core.RecurringAction{}.Apply(core.RecurringCreate{Spec: core.RecurringSpec{
			ID: id(1), CronExpr: "* * * * *", Enabled: true,
			ActionTemplate: core.RecurringActionTemplate{Provider: "http", ActionType: "get"},
		}}, clock)
	case core.KindOccurrence:
		s, _ = core.Occurrence{}.Apply(core.OccurrenceRecord{Occurrence: core.Occurrence{ID: id(1), RecurringID: id(2), DueAt: start, Verdict: core.VerdictDispatched, Count: 1}}, clock)
	case core.KindDedup:
		s, _ = core.Dedup{}.Apply(core.DedupClaim{Create: spec}, clock)
	default:
		return kitOf(kind).made()
	}
	return s
}

// hostile gives a state that no sequence of events leads to.
func hostile(t *rapid.T, kind effects.Kind) core.State {
	c := core.Clock{Now: start}
	count := func(label string) uint64 {
		return rapid.SampledFrom([]uint64{0, 1, math.MaxUint32, math.MaxUint32 + 1, math.MaxUint64}).Draw(t, label)
	}
	switch kind {
	case core.KindAction:
		return core.Action{
			ActionSpec: drawActionSpec(t, c),
			Status: core.Status{
				Type:   rapid.SampledFrom([]core.StatusType{"", "odd", core.StatusPending, core.StatusRunning, core.StatusCompleted, core.StatusFailed, core.StatusCancelled}).Draw(t, "status"),
				Reason: drawText(t, "reason"),
			},
			CreatedAt: drawTime(t, c), UpdatedAt: drawTime(t, c), StartedAt: drawTime(t, c), FinishedAt: drawTime(t, c),
			Run: uint32(count("run")), Cycle: uint32(count("cycle")), Attempt: uint32(count("attempt")),
			LastRun: maybe(t, "last_run", func() core.LastRun { return core.LastRun{DueAt: drawTime(t, c)} }),
		}
	case core.KindRecurring:
		return core.RecurringAction{
			RecurringSpec: drawRecurringSpec(t, c),
			CreatedAt:     drawTime(t, c), UpdatedAt: drawTime(t, c), LastExecutedAt: drawTime(t, c), NextExecutionAt: drawTime(t, c), LastDueAt: drawTime(t, c),
			ExecutionCount: count("executions"), MissedCount: count("missed"), DeduplicatedCount: count("deduplicated"), Sequence: count("sequence"),
			DisabledReason: drawText(t, "reason"), Executions: count("bounded executions"), SkipNext: uint32(count("skip_next")),
			PausedAt: drawTime(t, c), PausedUntil: drawTime(t, c),
			Waiting: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) core.WaitingTime {
				return core.WaitingTime{N: count("n"), DueAt: drawTime(t, c), Since: drawTime(t, c), NotBefore: drawTime(t, c)}
			}), 0, 3).Draw(t, "waiting"),
			Running: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) core.RunningTime {
				return core.RunningTime{N: count("n"), Action: drawID(t, "action"), DueAt: drawTime(t, c), StartedAt: drawTime(t, c), Manual: rapid.Bool().Draw(t, "manual")}
			}), 0, 3).Draw(t, "running"),
			Ledger: maybe(t, "ledger", func() core.Ledger { return core.Ledger{Epoch: count("epoch"), First: count("first")} }),
		}
	case core.KindOccurrence:
		return drawOccurrence(t, c)
	}
	if k, ok := kits[kind]; ok {
		return k.hostile(t)
	}
	return core.Dedup{ID: drawID(t, "id"), Key: drawText(t, "key"), Holder: drawID(t, "holder"), Since: drawTime(t, c)}
}

func TestNoEventPanicsOrLeaksIntoTheOldStateWhateverTheStateAndTheClock(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				clock := core.Clock{Now: start}
				clock.Now = drawTime(t, clock)
				state := hostile(t, kind)
				_, _ = state.Deadline(), state.Terms()
				checkedApply(t, state, drawEvent(t, state, clock), clock)
			})
		})
	}
}

func TestTheEventsOfOneMachineAreRefusedByEveryOther(t *testing.T) {
	for _, to := range kinds {
		for _, from := range kinds {
			if to == from {
				continue
			}
			state := made(to)
			e := core.Event(core.ActionCancel{})
			switch from {
			case core.KindRecurring:
				e = core.RecurringPause{}
			case core.KindOccurrence:
				e = core.OccurrenceSettle{}
			case core.KindDedup:
				e = core.DedupRelease{}
			case core.KindAction:
			default:
				e = kitOf(from).own
			}
			batch := core.NewBatch(loader{state.Ref(): state}, core.Clock{Now: start}, 1)
			res, err := batch.Apply(core.Input{To: state.Ref(), Event: e})
			require.NoError(t, err)
			require.NotNil(t, res.Refused, "%s to %s", from, to)
			assert.Equal(t, effects.CodeInvalid, res.Refused.Code)
			assert.False(t, res.Changed)
			assert.Empty(t, batch.Changes())
		}
	}
}

func TestACounterAtItsEndStaysThereInsteadOfStartingAgain(t *testing.T) {
	r := made(core.KindRecurring).(core.RecurringAction)
	r.ExecutionCount, r.MissedCount = math.MaxUint64, math.MaxUint64-1
	after, _ := r.Apply(core.RecurringDue{}, core.Clock{Now: start.Add(24 * 60 * 60 * 1e9)})
	assert.Equal(t, uint64(math.MaxUint64), after.MissedCount)
	after, _ = after.Apply(core.RecurringTrigger{}, core.Clock{Now: start})
	assert.Equal(t, uint64(math.MaxUint64), after.ExecutionCount)
}

// docInvariants reads the list of invariants out of a type's doc comment.
func docInvariants(t *testing.T, typ string) []string {
	t.Helper()
	var lines []string
	for _, f := range parseCore(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.TYPE && d.Doc != nil && len(d.Specs) == 1 {
				if s := d.Specs[0].(*ast.TypeSpec); s.Name.Name == typ {
					lines = strings.Split(d.Doc.Text(), "\n")
				}
			}
			return true
		})
	}
	var out []string
	listed := false
	for _, line := range lines {
		switch item, begins := strings.CutPrefix(strings.TrimSpace(line), "- "); {
		case strings.HasPrefix(line, "Invariants"):
			listed = true
		case !listed || item == "":
		case begins:
			out = append(out, item)
		case strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "  "):
			out[len(out)-1] += " " + item
		default:
			listed = false
		}
	}
	return out
}

func parseCore(t *testing.T) []*ast.File {
	t.Helper()
	files, err := parsedCore()
	require.NoError(t, err)
	return files
}

// parsedCore parses once for all tests: they read only.
var parsedCore = sync.OnceValues(func() (files []*ast.File, err error) {
	names, err := filesOfCore()
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
})

func TestTheInvariantsAreThoseOfTheDocComments(t *testing.T) {
	types := map[effects.Kind]string{
		core.KindAction: "Action", core.KindRecurring: "RecurringAction", core.KindOccurrence: "Occurrence", core.KindDedup: "Dedup",
	}
	for kind, k := range kits {
		types[kind] = k.typ
	}
	for kind, typ := range types {
		var tested []string
		for _, inv := range invariants[kind] {
			tested = append(tested, inv.sentence)
		}
		assert.Equal(t, docInvariants(t, typ), tested, typ)
	}
}

// loader is a Loader over states in memory.
type loader map[effects.Ref]core.State

func (l loader) Load(ref effects.Ref) (core.State, error) { return l[ref], nil }
