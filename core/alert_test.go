package core_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestTheRulesOfAlertsAreReadAsPeopleWriteThem(t *testing.T) {
	var r core.AlertRules
	for word, value := range map[string]string{"late": "10m", "missed": "", "stale": "2d", "failing": "3", "slow": "90m", "channel": "ops"} {
		require.NoError(t, r.Set(word, value), word)
	}
	require.NoError(t, r.Set("slow", "2.5x"))
	assert.Equal(t, core.AlertRules{LateSeconds: 600, Missed: true, StaleSeconds: 172_800, Failing: 3, SlowSeconds: 5400, SlowFactor: 2_500_000, Channel: "ops"}, r)
	assert.Equal(t, []string{"late=10m", "missed=true", "stale=48h", "failing=3", "slow=1h30m,2.5x", "channel=ops"}, r.Words())

	var again core.AlertRules
	for _, rule := range r.Words() {
		word, value, _ := strings.Cut(rule, "=")
		require.NoError(t, again.Set(word, value), rule)
	}
	assert.Equal(t, r, again, "what is written is read as the same")
	for _, word := range []string{"late", "missed", "stale", "failing", "slow", "channel"} {
		require.NoError(t, r.Set(word, "off"))
	}
	assert.Equal(t, core.AlertRules{}, r)
	require.NoError(t, r.Set("missed", "false"))
	assert.True(t, r.None())
}

func TestARuleOfAlertsThatCannotBeSaysWhatWouldBeRight(t *testing.T) {
	length := ` is no length of time in whole seconds, from 1s to 366d: write it such as 10m, 26h or 2d`
	for rule, want := range map[string]string{
		"late=soon": `"soon"` + length, "late=0s": `"0s"` + length, "late=": `""` + length, "stale=367d": `"367d"` + length, "stale=1.5d": `"1.5d"` + length, "slow=1500ms": `"1500ms"` + length,
		"missed=maybe": `"maybe" is neither true nor false`, "failing=0": `"0" is no number from 1 to 1000: give how many have to fail in a row, such as 3`,
		"failing=-1": `"-1" is no number from 1 to 1000: give how many have to fail in a row, such as 3`,
		"slow=1x":    `"1x" does not say how many times as long as usual is too long: it must be more than 1x and at most 1000x, such as 3x`,
		"slow=fastx": `"fastx" does not say how many times as long as usual is too long: it must be more than 1x and at most 1000x, such as 3x`,
		"quick=1":    `there is no alert of that name: use late=10m, missed, stale=26h, failing=3, slow=2h, slow=3x or channel=NAME`,
	} {
		var r core.AlertRules
		word, value, _ := strings.Cut(rule, "=")
		assert.EqualError(t, r.Set(word, value), want, rule)
		assert.Zero(t, r, rule)
	}
}

func TestTheRulesOfAlertsMayBeAsLargeAndAsSmallAsTheirBounds(t *testing.T) {
	for _, rules := range [][]string{
		{"late=1s", "stale=1s", "failing=1", "slow=1s,1.000001x"}, {"late=366d", "stale=8784h", "failing=1000", "slow=366d,1000x"},
	} {
		var r core.AlertRules
		for _, rule := range rules {
			word, value, _ := strings.Cut(rule, "=")
			require.NoError(t, r.Set(word, value), rule)
		}
		_, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: alertingSpec(1, r)}, core.Clock{Now: start})
		require.Nil(t, refusal(effs), "%v", rules)
	}
	for _, rule := range []string{"late=8784h0m1s", "failing=1001", "slow=1001x"} {
		var r core.AlertRules
		word, value, _ := strings.Cut(rule, "=")
		require.Error(t, r.Set(word, value), rule)
	}
	r := core.AlertRules{SlowSeconds: 60, SlowFactor: 3_000_000}
	require.NoError(t, r.Set("slow", "off"))
	assert.True(t, r.None(), "both rules about what is slow")
	assert.Equal(t, []string{"late=1h0m5s", "stale=1h", "slow=1m"}, core.AlertRules{LateSeconds: 3605, StaleSeconds: 3600, SlowSeconds: 60}.Words())
}

func TestWhatIsUsualIsWhat95Of100TakeAtMost(t *testing.T) {
	usual := func(n int) int64 {
		var durations []int64
		for i := range n {
			durations = append(durations, int64(n-i)*1000)
		}
		rules := core.ScheduleOptions{Alerts: core.AlertRules{SlowFactor: 2_000_000}}
		of, has := core.Watched(core.RecurringAction{RecurringSpec: core.RecurringSpec{ScheduleOptions: rules}, Durations: durations})
		require.True(t, has)
		job, _ := core.Watched(core.Job{JobSpec: core.JobSpec{ScheduleOptions: rules}, Durations: durations})
		assert.Equal(t, of.View.UsualMS, job.View.UsualMS)
		return of.View.UsualMS
	}
	for n, want := range map[int]int64{0: 0, core.MinUsual - 1: 0, core.MinUsual: 5000, 19: 19_000, 20: 19_000, 21: 20_000, 40: 38_000, 100: 95_000} {
		assert.Equal(t, want, usual(n), "of %d", n)
	}
	bySeconds := core.ScheduleOptions{Alerts: core.AlertRules{SlowSeconds: 60}}
	for _, s := range []core.State{
		core.RecurringAction{RecurringSpec: core.RecurringSpec{ScheduleOptions: bySeconds}, Durations: []int64{1, 2, 3, 4, 5}},
		core.Job{JobSpec: core.JobSpec{ScheduleOptions: bySeconds}, Durations: []int64{1, 2, 3, 4, 5}},
	} {
		of, _ := core.Watched(s)
		assert.Zero(t, of.View.UsualMS, "nobody asks for it: it would be told with each run")
	}
}

func TestAScheduleIsRefusedWhoseRulesOfAlertsCannotBe(t *testing.T) {
	for want, r := range map[string]core.AlertRules{
		"alerts.late_seconds: -1 is not between 0 and 31622400":        {LateSeconds: -1},
		"alerts.stale_seconds: 31622401 is not between 0 and 31622400": {StaleSeconds: core.MaxAlertSeconds + 1},
		"alerts.slow_seconds: -5 is not between 0 and 31622400":        {SlowSeconds: -5},
		"alerts.failing: 1001 is not between 0 and 1000":               {Failing: 1001},
		"alerts.slow_factor: 1 is not more than 1 and at most 1000":    {SlowFactor: 1_000_000},
		"alerts.channel: no alert is asked for":                        {Channel: "ops"},
		`alerts.channel: "a\x00b" has the control character`:           {Missed: true, Channel: "a\x00b"},
	} {
		spec := alertingSpec(1, r)
		after, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
		requireInvalid(t, after, effs, want)
		job, effs := core.Job{}.Apply(core.JobApply{Spec: core.JobSpec{ID: "a", PodSpec: json.RawMessage(`{}`), ScheduleOptions: spec.ScheduleOptions}}, core.Clock{Now: start})
		requireInvalid(t, job, effs, want)
	}
}

// alertingSpec is a recurring action of every full hour.
func alertingSpec(n int, r core.AlertRules) core.RecurringSpec {
	return core.RecurringSpec{
		ID: id(n), Name: fmt.Sprintf("s-%05d", n), CronExpr: "0 * * * *", Enabled: true, ScheduleOptions: core.ScheduleOptions{Alerts: r},
		ActionTemplate: core.RecurringActionTemplate{Provider: "http", ActionType: "get"},
	}
}

// alertWorld lets machines live in virtual time, each due event in a batch with all others that are due,
// and answers what leaves it: runs of tools as answer says, notifications with success.
type alertWorld struct {
	t      *testing.T
	world  world
	clock  core.Clock
	seq    uint64
	answer func(a core.Action) core.Event // nil: nothing runs; nil event: it runs on
	notice []effects.Notify
	heard  []effects.Event
}

// do applies inputs as one batch.
func (w *alertWorld) do(inputs ...core.Input) {
	w.t.Helper()
	w.seq++
	b := core.NewBatch(w.world, w.clock, w.seq)
	for _, in := range inputs {
		res, err := b.Apply(in)
		require.NoError(w.t, err)
		require.Nil(w.t, res.Refused, "%s to %s", in.Event.EventType(), in.To)
	}
	w.world.store(b)
	w.heard = append(w.heard, b.Events()...)
	var answers []core.Input
	for _, o := range b.Outer() {
		switch e := o.Effect.(type) {
		case effects.Notify:
			w.notice = append(w.notice, e)
			answers = append(answers, core.Input{To: o.From, Event: core.EffectDone{N: e.N}, Ack: e.N})
		case effects.RunTool:
			s, err := w.world.Load(o.From)
			require.NoError(w.t, err)
			if w.answer != nil {
				if ev := w.answer(s.(core.Action)); ev != nil {
					answers = append(answers, core.Input{To: o.From, Event: ev, Ack: e.Run})
				}
			}
		}
	}
	if len(answers) > 0 {
		w.do(answers...)
	}
}

// until lets time pass, batch by batch.
func (w *alertWorld) until(end core.Time) {
	w.t.Helper()
	for {
		next := core.Time(0)
		for ref := range w.world { // order-free: the earliest
			s, err := w.world.Load(ref)
			require.NoError(w.t, err)
			if at := s.Deadline(); !at.IsZero() && (next.IsZero() || at < next) {
				next = at
			}
		}
		if next.IsZero() || next > end {
			w.clock.Now = end
			return
		}
		w.clock.Now = max(w.clock.Now, next)
		w.do(w.world.due(w.clock)...)
	}
}

// alert gives the alert of a recurring action.
func (w *alertWorld) alert(n int) core.Alert {
	w.t.Helper()
	s, err := w.world.Load(core.AlertRef(effects.Ref{Kind: core.KindRecurring, ID: id(n)}))
	require.NoError(w.t, err)
	a, _ := s.(core.Alert)
	return a
}

// told lists the titles of the notifications.
func (w *alertWorld) told() (titles []string) {
	for _, n := range w.notice {
		titles = append(titles, n.Title)
	}
	return titles
}

func newAlertWorld(t *testing.T, specs ...core.RecurringSpec) *alertWorld {
	w := &alertWorld{t: t, world: world{}, clock: core.Clock{Now: start}}
	var inputs []core.Input
	for _, spec := range specs {
		inputs = append(inputs, core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: spec.ID}, Event: core.RecurringCreate{Spec: spec}})
	}
	w.do(inputs...)
	return w
}

func succeeds(a core.Action) core.Event { return core.ActionComplete{Run: a.Run} }
func fails(a core.Action) core.Event    { return core.ActionFail{Run: a.Run, Reason: "exit status 1"} }

func TestAnOutageOfTenThousandSchedulesIsOneMessage(t *testing.T) {
	const n = 10_000
	var specs []core.RecurringSpec
	for i := range n {
		spec := alertingSpec(1, core.AlertRules{LateSeconds: 600, Channel: "ops"})
		spec.ID, spec.Name = uuid.NewSHA1(id(1), []byte(fmt.Sprint(i))), fmt.Sprintf("s-%05d", i)
		spec.Tenant, spec.Missed = fmt.Sprint("t", i%7), core.MissedLatest
		specs = append(specs, spec)
	}
	w := newAlertWorld(t, specs...)
	w.clock.Now = start.Add(150 * time.Minute) // nobody was there
	first := w.clock.Now
	due := w.world.due(w.clock)
	for len(due) > 0 { // as it is caught up: some at a time
		batch := due[:min(len(due), 500)]
		due = due[len(batch):]
		w.clock.Now = w.clock.Now.Add(time.Second)
		var inputs []core.Input
		for _, in := range batch {
			if s, _ := w.world.Load(in.To); s.Deadline() <= w.clock.Now {
				inputs = append(inputs, in)
			}
		}
		w.do(inputs...)
	}
	assert.Empty(t, w.notice, "they gather first")
	ref := core.DigestRef("ops")
	s, err := w.world.Load(ref)
	require.NoError(t, err)
	require.LessOrEqual(t, s.Deadline(), first.Add(32*time.Second))
	assert.Less(t, len(w.world[ref]), 20<<10, "the record does not grow with their number")
	w.clock.Now = s.Deadline()
	w.do(core.Input{To: ref, Event: core.DigestDue{}})

	require.Len(t, w.notice, 1)
	assert.Equal(t, "10000 alerts: 10000 late", w.notice[0].Title)
	assert.Contains(t, w.notice[0].Message, "… and 9980 more\n10000 of these are over already")
	raised := slices.DeleteFunc(slices.Clone(w.heard), func(e effects.Event) bool { return e.Kind.Category != "alert" })
	require.Len(t, raised, 1)
	assert.Equal(t, "alert:raised", raised[0].Kind.String())
	s, err = w.world.Load(ref)
	require.NoError(t, err)
	assert.Zero(t, s.Deadline(), "there is nothing more to tell")
}

func TestAnAlertIsRaisedAlthoughNothingRuns(t *testing.T) {
	w := newAlertWorld(t, alertingSpec(1, core.AlertRules{StaleSeconds: 2*3600 + 600, Channel: "ops"}))
	w.until(start.Add(4 * time.Hour)) // dispatched each hour, and nothing ends
	assert.Equal(t, []string{"stale: s-00001"}, w.told())
	w.do(core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: id(1)}, Event: core.RecurringPause{By: "ann"}})
	assert.Empty(t, w.alert(1).Open)
	w.until(start.Add(48 * time.Hour))
	assert.Equal(t, []string{"stale: s-00001", "no longer stale: s-00001"}, w.told(), "while it is paused it rests")
	assert.Contains(t, w.notice[1].Message, "paused by ann")
	w.do(core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: id(1)}, Event: core.RecurringResume{}})
	w.until(start.Add(50 * time.Hour))
	assert.Len(t, w.notice, 2, "two hours later it is not stale yet")
	w.until(start.Add(50*time.Hour + 15*time.Minute))
	assert.Equal(t, "stale: s-00001", w.told()[2])
	assert.Contains(t, w.notice[2].Message, "it was resumed at")
}

// TestAnAlertHearsOfAllTimesThatWereMissed lets five hours pass, of which two are caught up, or would be.
func TestAnAlertHearsOfAllTimesThatWereMissed(t *testing.T) {
	spec := alertingSpec(1, core.AlertRules{Missed: true})
	spec.ScheduleOptions.Missed, spec.CatchUpLimit = core.MissedAll, 2
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	news := func(e core.RecurringDue) core.AlertNews {
		_, effs := r.Apply(e, core.Clock{Now: start.Add(5*time.Hour + time.Minute)})
		told := sends[core.AlertWatch](step{effs: effs})
		require.Len(t, told, 1)
		return told[0].News
	}
	n := news(core.RecurringDue{})
	assert.EqualValues(t, 3, n.Missed)
	assert.Equal(t, [3]core.Time{start.Add(time.Hour), start.Add(3 * time.Hour), start.Add(time.Hour)}, [3]core.Time{n.MissedFrom, n.MissedUntil, n.DecidedAt})
	assert.True(t, n.Dispatched)
	n = news(core.RecurringDue{Refusal: "the tool is gone"})
	assert.EqualValues(t, 5, n.Missed)
	assert.Equal(t, [2]core.Time{start.Add(time.Hour), start.Add(5 * time.Hour)}, [2]core.Time{n.MissedFrom, n.MissedUntil})
	assert.Equal(t, "its action was refused: the tool is gone", n.MissedReason)
	assert.False(t, n.Dispatched)

	a := alertAfter(watch(spec.Alerts, 0))
	w := watch(spec.Alerts, 0)
	w.News = n
	a, _ = a.Apply(w, core.Clock{Now: start.Add(6 * time.Hour)})
	require.Len(t, a.Open, 1)
	assert.Equal(t, "5 times from "+n.MissedFrom.String()+" to "+n.MissedUntil.String()+" were missed: its action was refused: the tool is gone", a.Open[0].Reason)
}

func TestFailuresInARowAreToldOnceAndSoIsTheirEnd(t *testing.T) {
	w := newAlertWorld(t, alertingSpec(1, core.AlertRules{Failing: 3, Channel: "ops"}))
	w.answer = fails
	w.until(start.Add(150 * time.Minute))
	assert.Empty(t, w.notice, "two have failed")
	w.until(start.Add(20 * time.Hour))
	require.Equal(t, []string{"failing: s-00001"}, w.told())
	assert.Contains(t, w.notice[0].Message, "3 have failed in a row: action ")
	assert.Contains(t, w.notice[0].Message, "exit status 1")
	assert.Equal(t, "ops", w.notice[0].Channel)
	w.answer = succeeds
	w.until(start.Add(22 * time.Hour))
	assert.Equal(t, []string{"failing: s-00001", "no longer failing: s-00001"}, w.told())
}

func TestWhatRunsForLongerThanUsualIsSlow(t *testing.T) {
	w := newAlertWorld(t, alertingSpec(1, core.AlertRules{SlowFactor: 2_000_000, Channel: "ops"}))
	run := func(takes time.Duration) {
		w.answer = nil
		w.until(effects.TimeOf(w.clock.Now.Std().Truncate(time.Hour)).Add(time.Hour)) // the next time
		for _, ref := range w.world.refs() {
			s, _ := w.world.Load(ref)
			a, ok := s.(core.Action)
			if ok && a.Status.Type == core.StatusRunning {
				w.until(a.StartedAt.Add(takes))
				w.do(core.Input{To: ref, Event: succeeds(a)})
			}
		}
		w.until(effects.TimeOf(w.clock.Now.Std().Truncate(time.Hour)).Add(55 * time.Minute))
	}
	for range core.MinUsual {
		run(10 * time.Minute)
	}
	run(15 * time.Minute)
	assert.Empty(t, w.notice)
	run(40 * time.Minute) // the slowest of those before took 15 minutes
	assert.Equal(t, []string{"slow: s-00001", "no longer slow: s-00001"}, w.told())
	assert.Contains(t, w.notice[0].Message, "longer than 2 times its usual 15m")
}

func TestWhatTookAsLongAsTheRuleSaysIsSlow(t *testing.T) {
	raised := func(r core.AlertRules, usualMS, ranMS int64) uint64 {
		e := watch(r, start.Add(time.Hour))
		e.View.UsualMS = usualMS
		a, _ := core.Alert{}.Apply(e, core.Clock{Now: start})
		e.News.RanMS = ranMS
		a, _ = a.Apply(e, core.Clock{Now: start.Add(time.Second)})
		return a.Raised.Slow
	}
	limit, twice := core.AlertRules{SlowSeconds: 60}, core.AlertRules{SlowFactor: 2_000_000}
	assert.EqualValues(t, 0, raised(limit, 0, 59_999))
	assert.EqualValues(t, 1, raised(limit, 0, 60_000))
	assert.EqualValues(t, 0, raised(twice, 1000, 1999))
	assert.EqualValues(t, 1, raised(twice, 1000, 2000))
	assert.EqualValues(t, 0, raised(twice, 0, 1<<40), "nobody knows yet what is usual")
}

func TestATimeThatComesToItsTurnAsLateAsTheRuleSaysIsLate(t *testing.T) {
	raised := func(after time.Duration) uint64 {
		a := alertAfter(watch(core.AlertRules{LateSeconds: 600}, start.Add(time.Hour)))
		e := watch(core.AlertRules{LateSeconds: 600}, start.Add(2*time.Hour))
		e.News.DecidedAt, e.News.Dispatched = start.Add(time.Hour), true
		a, _ = a.Apply(e, core.Clock{Now: start.Add(time.Hour + after)})
		return a.Raised.Late
	}
	assert.EqualValues(t, 0, raised(10*time.Minute-time.Millisecond))
	assert.EqualValues(t, 1, raised(10*time.Minute))
}

func TestFailuresBeforeAPauseAreNoneInARowWithThoseAfterIt(t *testing.T) {
	rules := core.AlertRules{Failing: 2}
	failed, paused := watch(rules, 0), watch(rules, 0)
	failed.News, paused.View.Resting = failedNews(), "paused by ann"
	a := alertAfter(failed, paused)
	assert.Zero(t, a.Failures)
	assert.Zero(t, a.LastFailure)
	a = alertAfter(failed, paused, watch(rules, 0), failed)
	assert.EqualValues(t, 1, a.Failures)
	assert.Empty(t, a.Open)
	assert.Len(t, alertAfter(failed, paused, watch(rules, 0), failed, failed).Open, 1)
}

func TestAsManyFailuresInARowAreCountedAsARuleCanAskFor(t *testing.T) {
	failed := watch(core.AlertRules{Failing: core.MaxAlertFailing}, 0)
	failed.News = failedNews()
	a := core.Alert{}
	for i := range core.MaxAlertFailing + 2 {
		a, _ = a.Apply(failed, core.Clock{Now: start.Add(time.Duration(i) * time.Second)})
		require.Equal(t, i >= core.MaxAlertFailing-1, len(a.Open) > 0, "after %d", i+1)
	}
	assert.EqualValues(t, core.MaxAlertFailing, a.Failures)
}

// TestOfTwoRulesAboutWhatIsSlowTheShorterOneCounts says with the reason which one it was.
func TestOfTwoRulesAboutWhatIsSlowTheShorterOneCounts(t *testing.T) {
	const hour = int64(3_600_000)
	reason := func(seconds int64, usualMS, ranMS int64) string {
		rules := core.AlertRules{SlowSeconds: seconds, SlowFactor: 3_000_000}
		runs, ended := watch(rules, 0), watch(rules, 0)
		runs.View.RunsSince, runs.View.Runs, runs.View.UsualMS = start, id(8), usualMS
		ended.News.Child, ended.News.RanMS = id(8), ranMS
		a, _ := core.Alert{}.Apply(runs, core.Clock{Now: start})
		_, effs := a.Apply(ended, core.Clock{Now: start.Add(time.Second)})
		for _, e := range effs {
			if s, ok := e.(effects.Send); ok {
				if told, ok := s.Event.(core.DigestTell); ok && !told.Cleared {
					return told.Reason
				}
			}
		}
		return ""
	}
	assert.Equal(t, "action "+id(8).String()+" took 4h, longer than 3 times its usual 1h", reason(5*3600, hour, 4*hour))
	assert.Equal(t, "action "+id(8).String()+" took 4h, longer than 2h", reason(2*3600, hour, 4*hour))
	assert.Empty(t, reason(5*3600, hour, 3*hour-1))
}

func TestAnAlertWatchesItsScheduleForOneTenantAlone(t *testing.T) {
	a := alertAfter(watch(allAlerts, start.Add(time.Hour)))
	for _, change := range []func(e *core.AlertWatch){
		func(e *core.AlertWatch) { e.Namespace = "prod" }, func(e *core.AlertWatch) { e.Tenant = "tenant-2" }, func(e *core.AlertWatch) { e.Schedule.ID = id(2) },
	} {
		e := watch(allAlerts, start.Add(time.Hour))
		change(&e)
		after, effs := a.Apply(e, core.Clock{Now: start.Add(time.Minute)})
		require.NotNil(t, refusal(effs))
		assert.Equal(t, "schedule: the alert watches "+watchedSchedule.String(), refusal(effs).Reason)
		assert.Equal(t, a, after)
	}
}

func TestASilenceEndsAtATimeThatCanBeWritten(t *testing.T) {
	a := alertAfter(watch(allAlerts, start.Add(time.Hour)))
	for until, want := range map[core.Time]string{
		0: "until: missing: give a time in RFC 3339", effects.MaxTime + 1: "until: 253402300800000 ms is out of range", start: "until: " + start.String() + " is not in the future",
	} {
		after, effs := a.Apply(core.AlertSilence{Until: until}, core.Clock{Now: start})
		require.NotNil(t, refusal(effs), "%d", until)
		assert.Contains(t, refusal(effs).Reason, want)
		assert.Equal(t, a, after)
	}
	a, effs := a.Apply(core.AlertSilence{Until: effects.MaxTime}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.Equal(t, effects.MaxTime, a.Silenced.Until)
}

func TestTheNameOfAScheduleIsBoundedInItsAlert(t *testing.T) {
	e := watch(allAlerts, start.Add(time.Hour))
	e.Name = strings.Repeat("n", core.MaxNameBytes+1)
	assert.LessOrEqual(t, len(alertAfter(e).Name), core.MaxNameBytes)
	e.Name = strings.Repeat("n", core.MaxNameBytes)
	assert.Equal(t, e.Name, alertAfter(e).Name)
}

func TestASilenceLetsNobodyBeToldUntilItsEnd(t *testing.T) {
	w := newAlertWorld(t, alertingSpec(1, core.AlertRules{Failing: 1, Channel: "ops"}))
	w.answer = fails
	w.do(core.Input{To: w.alert(1).Ref(), Event: core.AlertSilence{Until: start.Add(5 * time.Hour), By: "ann"}})
	w.until(start.Add(5*time.Hour - time.Second))
	assert.Empty(t, w.notice)
	assert.Len(t, w.alert(1).Open, 1, "it goes on watching")
	w.until(start.Add(5*time.Hour + time.Minute))
	assert.Equal(t, []string{"failing: s-00001"}, w.told())
	assert.Zero(t, w.alert(1).Silenced)
}

// Whatever happens to a schedule, its alert knows of it: what it needs of the schedule's state it was
// told, and it is there if and only if the schedule has rules.
func TestAnAlertKnowsItsScheduleAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, clock := world{}, core.Clock{Now: start}
		job := core.JobRef("", "", "nightly")
		for seq := uint64(1); seq <= uint64(rapid.IntRange(1, 25).Draw(t, "batches")); seq++ {
			clock = drawClock(t, clock)
			if rapid.Bool().Draw(t, "until due") {
				if s, _ := w.Load(effects.Ref{Kind: core.KindRecurring, ID: id(1)}); s != nil {
					clock.Now = max(clock.Now, s.Deadline())
				}
			}
			b := core.NewBatch(w, clock, seq)
			inputs := w.due(clock)
			for _, ref := range []effects.Ref{{Kind: core.KindRecurring, ID: id(1)}, job} {
				s, _ := w.Load(ref)
				if s == nil {
					s = absent(ref.Kind)
				}
				e := drawEvent(t, s, clock)
				if create, ok := e.(core.RecurringCreate); ok {
					create.Spec.ID, create.Spec.Calendars = id(1), nil
					e = create
				}
				if apply, ok := e.(core.JobApply); ok {
					apply.Spec.ID, apply.Spec.Namespace, apply.Spec.Tenant, apply.Spec.Alerts = "nightly", "", "", drawAlertRules(t)
					e = apply
				}
				inputs = append(inputs, core.Input{To: ref, Event: e})
			}
			for _, in := range inputs {
				_, _ = b.Apply(in) // some name machines that cannot be
			}
			w.store(b)
			for _, ref := range []effects.Ref{{Kind: core.KindRecurring, ID: id(1)}, job} {
				s, _ := w.Load(ref)
				loaded, _ := w.Load(core.AlertRef(ref))
				a, exists := loaded.(core.Alert)
				want, has := core.Watched(s)
				require.Equal(t, has, exists, "the alert of %s", ref)
				if has {
					require.Equal(t, want.View, a.View, "%s", encoded(s))
					require.Equal(t, want.Rules, a.Rules)
				}
			}
		}
	})
}

func TestWithoutAChannelTheBusAloneIsTold(t *testing.T) {
	w := newAlertWorld(t, alertingSpec(1, core.AlertRules{Failing: 1}), alertingSpec(2, core.AlertRules{Failing: 1}))
	w.answer = fails
	w.until(start.Add(61 * time.Minute))
	w.answer = succeeds
	w.until(start.Add(125 * time.Minute))
	assert.Empty(t, w.notice)
	var said []string
	for _, e := range w.heard {
		if e.Kind.Category == "alert" {
			var data struct {
				Count             int
				Kind, Of, Name    string
				Names             []string
				Reason, Channel   string
				Namespace, Tenant string
			}
			require.NoError(t, json.Unmarshal(e.Data, &data))
			slices.Sort(data.Names)
			said = append(said, fmt.Sprintf("%s %d %s %v", e.Kind, data.Count, data.Kind, data.Names))
			assert.Empty(t, data.Name, "of two alerts none is named alone")
			assert.Contains(t, data.Reason, "failing: s-00001: ")
		}
	}
	assert.Equal(t, []string{"alert:raised 2 failing [s-00001 s-00002]", "alert:cleared 2 failing [s-00001 s-00002]"}, said)
}

// TestADigestNamesTheFirstAndMarksWhatIsOverAlready has more alerts than a message names, of which
// some are cleared before it leaves.
func TestADigestNamesTheFirstAndMarksWhatIsOverAlready(t *testing.T) {
	tell := func(d core.Digest, kind core.AlertKind, n int, step uint64, cleared bool) core.Digest {
		d, _ = d.Apply(core.DigestTell{
			Kind: kind, Cleared: cleared, Schedule: effects.Ref{Kind: core.KindRecurring, ID: id(n)}, Namespace: "dev", Tenant: "t", Name: fmt.Sprint(n), Since: start, Step: step,
		}, core.Clock{Now: start, Step: step})
		return d
	}
	d := core.Digest{}
	for n := range core.MaxDigestNames + 5 {
		d = tell(d, core.AlertLate, n/2, 7, false)
		d = tell(d, core.AlertSlow, n/2, 7, false)
	}
	assert.Len(t, d.Raised.First, core.MaxDigestNames)
	assert.EqualValues(t, 2*(core.MaxDigestNames+5), d.Raised.Counts.Total())
	assert.False(t, d.Raised.Mixed)
	d = tell(d, core.AlertSlow, 1, 7, true)
	over := slices.IndexFunc(d.Raised.First, func(e core.DigestEntry) bool { return e.Over })
	assert.Equal(t, core.DigestEntry{
		Kind: core.AlertSlow, Schedule: effects.Ref{Kind: core.KindRecurring, ID: id(1)}, Namespace: "dev", Tenant: "t", Name: "1", Since: start, Over: true,
	}, d.Raised.First[over])
	d = tell(d, core.AlertLate, 2, 3, true)
	assert.EqualValues(t, 1, d.Over, "what was told by an earlier message is cleared by this one")
	assert.EqualValues(t, 1, d.Cleared.Counts.Total())
}

// TestAMessageOfADigestSaysWhatIsOverAndWhose reads the messages of digests of a few alerts, and of more than have names.
func TestAMessageOfADigestSaysWhatIsOverAndWhose(t *testing.T) {
	digest := func(raised, cleared int, namespace, tenant string) (core.Digest, []effects.Effect) {
		d := core.Digest{}
		for n := range raised + cleared {
			e := core.DigestTell{Channel: "ops", Kind: core.AlertLate, Schedule: effects.Ref{Kind: core.KindRecurring, ID: id(n)}, Namespace: namespace, Tenant: tenant, Name: fmt.Sprint("s", n), Reason: "why", Step: 1}
			if n >= raised {
				e.Cleared, e.Schedule.ID, e.Name = true, id(n-raised), fmt.Sprint("s", n-raised)
			}
			d, _ = d.Apply(e, core.Clock{Now: start, Step: 1})
		}
		return d.Apply(core.DigestDue{}, core.Clock{Now: start.Add(time.Minute), Step: 2})
	}
	over := func(effs []effects.Effect) (n float64) {
		for _, e := range effs {
			if emit, ok := e.(effects.Emit); ok {
				var said map[string]any
				require.NoError(t, json.Unmarshal(emit.Event.Data, &said))
				n, _ = said["over"].(float64)
			}
		}
		return n
	}
	d, effs := digest(2, 1, "", "eu")
	assert.Equal(t, "late: s0 (/eu): why (over already)\nlate: s1 (/eu): why", d.Message.Text)
	assert.InDelta(t, 1, over(effs), 0)
	d, effs = digest(25, 1, "", "")
	assert.Contains(t, d.Message.Text, "late: s19: why\n… and 5 more\n1 of these are over already")
	assert.InDelta(t, 1, over(effs), 0)
	d, effs = digest(25, 0, "shop", "")
	assert.NotContains(t, d.Message.Text, "over already")
	assert.Contains(t, d.Message.Text, "late: s0 (shop/): why")
	assert.Zero(t, over(effs))
}

// TestAClockThatWasSetBackPutsNoMessageOffForLongerThanUsual has a digest that told something, as it seems, in a year.
func TestAClockThatWasSetBackPutsNoMessageOffForLongerThanUsual(t *testing.T) {
	tell := core.DigestTell{Kind: core.AlertLate, Schedule: watchedSchedule, Name: "nightly"}
	ahead := start.Add(365 * 24 * time.Hour)
	d, _ := core.Digest{}.Apply(tell, core.Clock{Now: ahead, Step: 1})
	d, _ = d.Apply(core.DigestDue{}, core.Clock{Now: ahead.Add(time.Minute), Step: 2})
	require.Equal(t, ahead.Add(time.Minute), d.ToldAt)
	d, _ = d.Apply(tell, core.Clock{Now: start, Step: 3})
	assert.Equal(t, start.Add(5*time.Minute), d.Deadline())

	d, _ = core.Digest{}.Apply(tell, core.Clock{Now: 0, Step: 1})
	assert.Equal(t, effects.MinTime, d.Since, "no clock is so wrong that nothing is told")
}
