//go:build unix

package clustertest

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

// then gives operations one after the other.
func then(pairs ...any) (ops []porcupine.Operation) {
	for n := 0; n < len(pairs); n += 2 {
		at := int64(10 * n)
		ops = append(ops, porcupine.Operation{ClientId: n, Input: pairs[n], Output: pairs[n+1], Call: at, Return: at + 5})
	}
	return ops
}

// late has an operation on its way until the end, from when its call was on.
func late(ops []porcupine.Operation, in, out any, call int64) []porcupine.Operation {
	return append(ops, porcupine.Operation{ClientId: len(ops), Input: in, Output: out, Call: call, Return: math.MaxInt64})
}

func TestTheCheckerKnowsWhatAQueueMayNotDo(t *testing.T) {
	var (
		ok       = queueSaid{code: saidOK}
		push     = func(item int) queueAsk { return queueAsk{op: opPush, item: item} }
		take     = func(holder int) queueAsk { return queueAsk{op: opTake, max: 1, holder: holder} }
		got      = func(item, attempt int) queueSaid { return queueSaid{code: saidOK, taken: []takenItem{{item, attempt}}} }
		count    = func(n int) queueSaid { return queueSaid{code: saidOK, count: n} }
		complete = queueAsk{op: opComplete, item: 1, holder: 1, attempt: 1}
		release  = queueAsk{op: opRelease, item: 1, holder: 1, attempt: 1}
		fail     = queueAsk{op: opFail, item: 1, holder: 1, attempt: 1}
		asked    = queueAsk{op: opCount}
	)
	for name, test := range map[string]struct {
		ops []porcupine.Operation
		may bool
	}{
		"each its own":                          {then(push(1), ok, push(2), ok, take(1), got(1, 1), take(2), got(2, 1), complete, ok, asked, count(1)), true},
		"an item is completed twice":            {then(push(1), ok, take(1), got(1, 1), complete, ok, complete, ok), false},
		"the second completion is refused":      {then(push(1), ok, take(1), got(1, 1), complete, ok, complete, queueSaid{code: saidNotFound}), true},
		"two hold an item":                      {then(push(1), ok, take(1), got(1, 1), take(2), got(1, 2)), false},
		"two hold an item, one after a release": {then(push(1), ok, take(1), got(1, 1), release, ok, take(2), got(1, 1)), true},
		"a failed attempt counts":               {then(push(1), ok, take(1), got(1, 1), fail, ok, take(2), got(1, 2)), true},
		"a failed attempt does not count":       {then(push(1), ok, take(1), got(1, 1), fail, ok, take(2), got(1, 1)), false},
		"a push is lost":                        {then(push(1), ok, take(1), ok), false},
		"a push is carried out twice":           {then(push(1), ok, asked, count(2)), false},
		"an item that nobody has pushed":        {then(take(1), got(1, 1)), false},
		"items out of their order":              {then(push(1), ok, push(2), ok, take(1), got(2, 1)), false},
		"an old count":                          {then(push(1), ok, push(2), ok, asked, count(1)), false},
		"a completion that nobody asked for":    {then(push(1), ok, take(1), got(1, 1), asked, count(0)), false},
		"a take that was on its way":            {late(then(push(1), ok, asked, count(1), take(1), ok), take(9), queueSaid{unknown: true}, 0), true},
		"a take that was asked for later":       {late(then(push(1), ok, asked, count(1), take(1), ok), take(9), queueSaid{unknown: true}, 46), false},
	} {
		f := &findings{}
		checkOrder(f, "queue", queueModel(), test.ops)
		assert.Equal(t, test.may, len(f.list) == 0, "%s: %v", name, f.list)
	}
}

func TestTheCheckerKnowsWhatALockMayNotDo(t *testing.T) {
	var (
		ok      = lockSaid{code: saidOK}
		refused = lockSaid{code: saidConflict}
		acquire = func(holder string) lockAsk { return lockAsk{op: opAcquire, holder: holder} }
		granted = func(token uint64) lockSaid { return lockSaid{code: saidOK, token: token} }
		release = func(holder string, token uint64) lockAsk { return lockAsk{op: opRelease, holder: holder, token: token} }
		renew   = func(holder string, token uint64) lockAsk { return lockAsk{op: opRenew, holder: holder, token: token} }
		look    = lockAsk{op: opLook}
		by      = func(holder string) lockSaid { return lockSaid{code: saidOK, holder: holder} }
	)
	for name, test := range map[string]struct {
		ops []porcupine.Operation
		may bool
	}{
		"one after the other":      {then(acquire("a"), granted(5), acquire("b"), refused, look, by("a"), release("a", 5), ok, look, by(""), acquire("b"), granted(7)), true},
		"two have it":              {then(acquire("a"), granted(5), acquire("b"), granted(7)), false},
		"the same token":           {then(acquire("a"), granted(5), release("a", 5), ok, acquire("b"), granted(5)), false},
		"a smaller token":          {then(acquire("a"), granted(5), release("a", 5), ok, acquire("b"), granted(4)), false},
		"an old look":              {then(acquire("a"), granted(5), release("a", 5), ok, look, by("a")), false},
		"a grant is lost":          {then(acquire("a"), granted(5), look, by("")), false},
		"refused while it is free": {then(acquire("a"), refused), false},
		"renewed by an old token":  {then(acquire("a"), granted(5), release("a", 5), ok, acquire("a"), granted(7), renew("a", 5), ok), false},
		"released twice":           {then(acquire("a"), granted(5), release("a", 5), ok, release("a", 5), ok), false},
		"a grant on its way":       {late(then(look, by("b"), acquire("a"), refused), acquire("b"), lockSaid{unknown: true}, 0), true},
	} {
		f := &findings{}
		checkOrder(f, "lock", lockModel(), test.ops)
		assert.Equal(t, test.may, len(f.list) == 0, "%s: %v", name, f.list)
	}
	f := &findings{}
	checkTokens(f, "lock", then(acquire("a"), granted(5), acquire("b"), granted(7), acquire("c"), granted(6), acquire("d"), granted(7)))
	assert.Equal(t, []string{
		"lock: token 7 was given to b and to d", "lock: token 6 was given out after token 7", "lock: token 7 was given out after token 7",
	}, f.list)
}

func TestTheCheckerKnowsWhatIsLostOrCarriedOutTwice(t *testing.T) {
	one, two, three := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	action := func(id uuid.UUID, label string, is core.StatusType) core.Action {
		return core.Action{ActionSpec: core.ActionSpec{ID: id, Label: label}, Status: core.Status{Type: is}}
	}
	asked := func() *history {
		h := newHistory()
		h.actions["a"] = &askedAction{id: one}
		h.actions["b"] = &askedAction{id: two, cancelled: true}
		h.pipelines["p"] = &askedPipeline{id: one, signals: 2}
		return h
	}
	did := func(id uuid.UUID, attempt, policy string) line {
		return line{id.String(), policy == "retry", id.String() + "/1", attempt}
	}
	is := func(all ...core.Action) map[uuid.UUID]core.Action {
		m := make(map[uuid.UUID]core.Action)
		for _, a := range all {
			m[a.ID] = a
		}
		return m
	}
	a, b := action(one, "a", core.StatusCompleted), action(two, "b", core.StatusCancelled)
	for name, test := range map[string]struct {
		actions map[uuid.UUID]core.Action
		lines   []line
		want    []string
	}{
		"all is well":            {is(a, b), []line{did(one, "1", "fail")}, nil},
		"lost":                   {is(b), nil, []string{"action a was acknowledged as " + one.String() + ", and is lost"}},
		"twice":                  {is(a, b, action(three, "a", core.StatusFailed)), []line{did(one, "1", "fail")}, []string{"action a was asked for once, and is there 2 times"}},
		"another":                {is(a, b, action(three, "c", core.StatusFailed)), []line{did(one, "1", "fail")}, []string{"action c is there, and nobody has asked for it"}},
		"runs again":             {is(a, action(two, "b", core.StatusFailed)), []line{did(one, "1", "fail")}, []string{"action b was cancelled, which was acknowledged, and is failed"}},
		"does not end":           {is(action(one, "a", core.StatusRunning), b), nil, []string{"action " + one.String() + ", a, has not ended: running"}},
		"did nothing":            {is(a, b), nil, []string{"action " + one.String() + ", a, has completed without its side effect"}},
		"two effects":            {is(a, b), []line{did(one, "1", "fail"), did(one, "2", "fail")}, []string{one.String() + ": a run with on_interrupt fail has happened 2 times"}},
		"two attempts":           {is(a, b), []line{did(one, "1", "retry"), did(one, "2", "retry")}, nil},
		"two effects of attempt": {is(a, b), []line{did(one, "2", "retry"), did(one, "2", "retry")}, []string{one.String() + ": attempt 2 has happened 2 times"}},
	} {
		f := &findings{}
		checkActions(f, asked(), test.actions)
		checkEffects(f, test.lines, test.actions)
		assert.Equal(t, test.want, f.list, name)
	}
	for name, test := range map[string]struct {
		taken []int
		want  []string
	}{
		"each signal once":     {[]int{0, 1}, nil},
		"a signal is lost":     {[]int{0}, []string{"pipeline p was sent 2 signals, and has taken [0]"}},
		"a signal comes twice": {[]int{0, 0}, []string{"pipeline p was sent the signals 0 to 1, and has taken [0 0]"}},
	} {
		f := &findings{}
		checkPipelines(f, asked(), []waiting{{ID: one, Label: "p", taken: test.taken}})
		assert.Equal(t, test.want, f.list, name)
	}
	f := &findings{}
	checkPipelines(f, asked(), nil)
	assert.Equal(t, []string{"pipeline p was acknowledged, and is there 0 times"}, f.list)
}

func TestTheCheckerKnowsThatEachTimeHasOneVerdict(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	at := func(first, last, count int) verdict {
		return verdict{DueAt: begin.Add(time.Duration(first) * time.Second), LastDueAt: begin.Add(time.Duration(last) * time.Second), Verdict: "dispatched", Count: count}
	}
	for name, test := range map[string]struct {
		all  []verdict
		want int
	}{
		"each":               {[]verdict{at(4, 4, 1), at(2, 3, 2), at(-15, 1, 17)}, 0},
		"none":               {nil, 1},
		"one is left out":    {[]verdict{at(4, 4, 1), at(2, 2, 1), at(-15, 1, 17)}, 1},
		"one has two":        {[]verdict{at(4, 4, 1), at(2, 3, 2), at(3, 3, 1), at(-15, 1, 17)}, 1},
		"fewer than it says": {[]verdict{at(-15, 4, 3)}, 1},
		"it ends too early":  {[]verdict{at(-15, -5, 11)}, 1},
		"it runs ahead":      {[]verdict{at(-15, 15, 31)}, 1},
		"it begins too late": {[]verdict{at(-5, 4, 10)}, 1},
	} {
		f := &findings{}
		at := func(seconds int) span {
			t := begin.Add(time.Duration(seconds) * time.Second)
			return span{t, t.Add(time.Second)}
		}
		checkVerdicts(f, "the recurring action", test.all, at(-16), at(5))
		assert.Len(t, f.list, test.want, "%s: %v", name, f.list)
	}
}

func TestAScheduleHasEachKindOfFault(t *testing.T) {
	for divided, most := range map[bool]int{false: int(drained), true: int(frozenInCall)} {
		has := make(map[kind]bool)
		for _, s := range plan(newRand(7), most, divided) {
			has[s.first.kind] = true
		}
		assert.Len(t, has, most)
	}
	const first = "kill daemon-1, 3.075s"
	assert.Equal(t, first, plan(newRand(7), int(drained), false)[0].String(), "a seed is a schedule")
	for seed := range uint64(20) {
		has := func(s step) bool { return s.first.kind == frozenInTransaction && s.second == nil }
		assert.Len(t, slices.DeleteFunc(plan(newRand(seed), 3, false), func(s step) bool { return !has(s) }), 1, "a short schedule has it, too")
	}
}

func TestTheCheckerKnowsThatAnEpochHasOneCore(t *testing.T) {
	next := nextVersion()
	for name, test := range map[string]struct {
		all  []decided
		want []string
	}{
		"one after the other": {[]decided{{1, core.Version}, {2, core.Version}, {3, next}, {4, core.Version}, {5, next}}, nil},
		"in one epoch":        {[]decided{{1, core.Version}, {1, next}}, []string{"partition 2: epoch 1 is decided by core " + core.Version + " and by core " + next}},
		"never upgraded":      {[]decided{{1, core.Version}}, []string{"partition 2: core " + next + " has decided nothing", "partition 2: core " + core.Version + " has the last word, and all daemons have " + next}},
	} {
		f := &findings{}
		checkEpochs(f, 2, test.all)
		assert.Equal(t, test.want, f.list, name)
	}
	assert.Len(t, upgrades(int(frozenInCall)), daemons)
	assert.Len(t, upgrades(daemons), daemons)
}
