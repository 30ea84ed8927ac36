package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// compared runs one recurring action, with the actions, the ledger, the dedup keys and the calendars
// that belong to it, beside a model of it.
type compared struct {
	t       *rapid.T
	m       *naive
	period  time.Duration
	states  loader
	seq     uint64
	journal []core.Entry
}

var recurringRef = effects.Ref{Kind: core.KindRecurring, ID: id(1)}

var comparedCalendars = []core.CalendarDays{
	{},
	{Weekly: []core.CalendarWindow{{Days: []string{"sat", "sun"}}}},
	{Weekly: []core.CalendarWindow{{Days: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}, From: "00:10", To: "00:20"}}},
	{Weekly: []core.CalendarWindow{{Days: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}, From: "02:00", To: "12:00"}}},
}

// comparedTimes are schedules, and about how long it is from one time to the next.
var comparedTimes = []struct {
	expr   string
	period time.Duration
}{
	{"*/10 * * * * *", 10 * time.Second}, {"* * * * *", time.Minute}, {"@every 90s", 90 * time.Second},
	{"*/30 * * * *", 30 * time.Minute}, {"0 */2 * * *", 2 * time.Hour}, {"30 2 * * *", 24 * time.Hour}, {"0 9 * * MON-FRI", 24 * time.Hour},
}

// This is the sentence of the issue: over random schedules, edits, pauses, outages, clock jumps and
// policies, all at once, each due instant has one verdict, in order, with the reason that an
// independent model gives.
func TestEachTimeHasTheVerdictAndTheReasonThatAModelGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCompared(t)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			c.move()
			c.tick()
			c.event()
			c.tick()
			c.check()
			if rapid.IntRange(0, 7).Draw(t, "preview") == 0 {
				c.preview()
			}
		}
		c.checkLedger()
		c.replay()
	})
}

func newCompared(t *rapid.T) *compared {
	pick := rapid.SampledFrom(comparedTimes).Draw(t, "times")
	year := rapid.IntRange(2000, 2035).Draw(t, "year")
	day := rapid.SampledFrom([]string{"-03-06", "-03-25", "-10-24", "-11-01", "-04-02", "-07-14"}).Draw(t, "day") // near changes of clocks
	at, err := time.Parse("2006-01-02", time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Format("2006")+day)
	require.NoError(t, err)
	now := core.Time(at.UnixMilli() + rapid.Int64Range(0, 86_400_000).Draw(t, "start"))
	c := &compared{t: t, period: pick.period, states: loader{}, m: &naive{t: t, calendars: core.Calendars{}, keys: map[string]*naiveTime{}, now: now}}
	c.m.limit = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "limit of the tenant")
	for _, name := range []string{"a", "b"} {
		c.apply(core.CalendarRef("", "", name), core.CalendarCreate{Spec: core.CalendarSpec{Name: name, Exclude: rapid.SampledFrom(comparedCalendars).Draw(t, "calendar")}})
		c.m.calendars[name] = c.states[core.CalendarRef("", "", name)].(core.Calendar)
	}
	spec := core.RecurringSpec{ID: id(1), CronExpr: pick.expr, Enabled: rapid.IntRange(0, 9).Draw(t, "enabled") > 0}
	spec.Timezone = rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}).Draw(t, "zone")
	spec.ActionTemplate = core.RecurringActionTemplate{Provider: "http", ActionType: "get"}
	spec.ActionTemplate.DedupKey = rapid.SampledFrom([]string{"", "", "k", "at {{execution_time}}"}).Draw(t, "dedup_key")
	spec.StartDeadlineSeconds = rapid.SampledFrom([]int64{0, 1, 60, 3600}).Draw(t, "start_deadline")
	spec.DST = rapid.SampledFrom([]schedule.DST{"", schedule.DSTSkip, schedule.DSTTwice}).Draw(t, "dst")
	spec.JitterSeconds = rapid.SampledFrom([]int64{0, 0, 5, 600}).Draw(t, "jitter")
	spec.MaxExecutions = rapid.SampledFrom([]uint64{0, 0, 0, 2, 5}).Draw(t, "max_executions")
	spec.Calendars = drawCalendars(t)
	spec.Overlap = drawOverlap(t)
	spec.Missed = drawMissed(t)
	spec.CatchUpSeconds = c.seconds("window", 0, 0, 2, 7)
	spec.CatchUpLimit = rapid.SampledFrom([]uint32{1, 3, 3}).Draw(t, "catch_up_limit") // so that no more than 100 run
	spec.CatchUpSpacingSeconds = min(c.seconds("spacing", 0, 0, 1), core.MaxSpacingSeconds)
	spec.BufferLimit = rapid.SampledFrom([]uint32{0, 1, 3}).Draw(t, "buffer_limit")
	spec.MaxWaitSeconds = c.seconds("max_wait", 0, 1, 2)
	if rapid.IntRange(0, 5).Draw(t, "starts") == 0 {
		spec.StartsAt = now.Add(3 * c.period)
	}
	if rapid.IntRange(0, 5).Draw(t, "ends") == 0 {
		spec.EndsAt = now.Add(time.Duration(rapid.IntRange(4, 60).Draw(t, "end"))*c.period + time.Millisecond)
	}
	res := c.apply(recurringRef, core.RecurringCreate{Spec: spec})
	require.True(t, res.Changed, "%v", res.Refused)
	c.m.spec, c.m.created, c.m.mark, c.m.enabled = c.recurring().RecurringSpec, now, now, spec.Enabled
	if !spec.Enabled {
		c.m.why, c.m.pausedAt = "created disabled", now
	}
	return c
}

// seconds draws some of the schedule's periods.
func (c *compared) seconds(label string, periods ...int64) int64 {
	return rapid.SampledFrom(periods).Draw(c.t, label) * int64(c.period/time.Second)
}

func drawCalendars(t *rapid.T) []string {
	return rapid.SampledFrom([][]string{nil, nil, {"a"}, {"b"}, {"a", "b"}}).Draw(t, "calendars")
}

func drawOverlap(t *rapid.T) core.OverlapPolicy {
	return rapid.SampledFrom([]core.OverlapPolicy{
		"", core.OverlapSkip, core.OverlapForbid, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapBufferAll, core.OverlapCancelOther, core.OverlapReplace, core.OverlapTerminateOther,
	}).Draw(t, "overlap")
}

func drawMissed(t *rapid.T) core.MissedPolicy {
	return rapid.SampledFrom([]core.MissedPolicy{"", core.MissedLatest, core.MissedAll, core.MissedAll}).Draw(t, "missed")
}

func (c *compared) recurring() core.RecurringAction {
	return c.states[recurringRef].(core.RecurringAction)
}

// apply hands one input to the machines, as a batch of its own.
func (c *compared) apply(to effects.Ref, e core.Event) core.Result {
	c.seq++
	batch := core.NewBatch(c.states, core.Clock{Now: c.m.now}, c.seq)
	live := int64(0)
	for _, s := range c.states {
		if a, ok := s.(core.Action); ok && !a.Status.Type.Terminal() {
			live++
		}
	}
	batch.Bound(func(_ core.Scope, kind effects.Kind) core.Allowance {
		if kind != core.KindAction || c.m.limit == 0 {
			return core.Allowance{}
		}
		return core.Allowance{Left: int64(c.m.limit) - live, Most: int64(c.m.limit), What: "actions"}
	})
	in := core.Input{To: to, Actor: "test", Event: e}
	res, err := batch.Apply(in)
	require.NoError(c.t, err)
	if res.Changed {
		in.Full = res.Full
		entry := core.NewEntry(c.seq, c.m.now, "test")
		entry.Inputs = []core.Input{in}
		c.journal = append(c.journal, entry)
	}
	for _, change := range batch.Changes() {
		if c.states[change.Ref] = change.After; change.After == nil {
			delete(c.states, change.Ref)
		}
	}
	return res
}

// move moves the clock: a little, over an outage, or back.
func (c *compared) move() {
	was, to := c.m.now, c.m.now
	switch rapid.SampledFrom([]string{"due", "due", "due", "soon", "soon", "outage", "outage", "long", "back"}).Draw(c.t, "move") {
	case "due":
		if at := c.recurring().Deadline(); at > to && at < to.Add(20*c.period) {
			to = at.Add(rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 700 * time.Millisecond, 3 * time.Second}).Draw(c.t, "late"))
		}
	case "soon":
		to = to.Add(time.Duration(rapid.Int64Range(0, int64(c.period/time.Millisecond)*2).Draw(c.t, "by")) * time.Millisecond)
	case "outage":
		to = to.Add(time.Duration(rapid.Int64Range(1, int64(c.period/time.Millisecond)*12).Draw(c.t, "by")) * time.Millisecond)
	case "long":
		to = to.Add(time.Duration(rapid.Int64Range(20, 150).Draw(c.t, "periods")) * c.period)
	case "back":
		to = max(to.Add(-c.period*time.Duration(rapid.IntRange(0, 2).Draw(c.t, "by"))-time.Second), c.m.created)
		if to.Add(40 * time.Hour).Before(c.m.mark) { // what was ahead by more than that is another matter
			to = was
		}
	}
	if to.After(was) && rapid.Bool().Draw(c.t, "absent") {
		cause := rapid.SampledFrom([]core.AbsenceCause{core.AbsentStopped, core.AbsentKilled, core.AbsentSuspended, core.AbsentClockSet}).Draw(c.t, "cause")
		c.m.absences = append(c.m.absences, core.Absence{From: was, To: to, Cause: cause})
	}
	c.m.now = to
}

// tick decides all that is due.
func (c *compared) tick() {
	for range 1000 {
		if at := c.recurring().Deadline(); c.m.mustAct() || !at.IsZero() && at <= c.m.now {
			require.True(c.t, c.m.mustAct(), "the machine is due at %s, and the model is not", at)
			require.True(c.t, !at.IsZero() && at <= c.m.now, "the model is due, and the machine only at %s", at)
			c.toRecurring(core.RecurringDue{}, c.m.decide)
			continue
		}
		i := slices.IndexFunc(c.m.running, func(n *naiveTime) bool { return n.lives == pending && c.action(n).Deadline() <= c.m.now })
		if i < 0 {
			return
		}
		c.m.running[i].lives = running
		c.apply(c.action(c.m.running[i]).Ref(), core.ActionDue{})
	}
	c.t.Fatal("it never comes to rest")
}

// toRecurring hands an event to the machine and, if that takes it, to the model.
func (c *compared) toRecurring(e core.Event, do func()) core.Result {
	c.t.Helper()
	before := c.liveTimes()
	slices.SortFunc(c.m.absences, func(a, b core.Absence) int { return int(a.To - b.To) })
	res := c.apply(recurringRef, core.Informed(c.recurring(), e, c.m.absences, c.m.now))
	if res.Changed {
		c.m.input(do)
	}
	c.sameRunning()
	if after := c.liveTimes(); c.m.overlap() != core.OverlapAllow {
		require.LessOrEqual(c.t, after, max(before, 1), "times that are live at once")
	}
	return res
}

// liveTimes counts the actions of the schedule's times that have not ended.
func (c *compared) liveTimes() (n int) {
	for _, r := range c.recurring().Running {
		if a, ok := c.states[effects.Ref{Kind: core.KindAction, ID: r.Action}].(core.Action); ok && !r.Manual && !a.Status.Type.Terminal() {
			n++
		}
	}
	return n
}

// sameRunning holds that the machine and the model have the same running, and waiting.
func (c *compared) sameRunning() {
	c.t.Helper()
	r := c.recurring()
	var have, want []core.Time
	for _, n := range r.Running {
		have = append(have, n.DueAt)
	}
	for _, w := range r.Waiting {
		have = append(have, w.DueAt)
	}
	for _, n := range slices.Concat(c.m.running, c.m.waiting) {
		want = append(want, n.at)
	}
	require.Equal(c.t, want, have, "what runs, and what waits")
	require.Len(c.t, c.m.running, len(r.Running))
	require.Equal(c.t, c.m.enabled, r.Enabled, r.DisabledReason)
}

// action gives the action of a time that runs.
func (c *compared) action(n *naiveTime) core.Action {
	i := slices.Index(c.m.running, n)
	return c.states[effects.Ref{Kind: core.KindAction, ID: c.recurring().Running[i].Action}].(core.Action)
}

// event lets something happen.
func (c *compared) event() {
	m := c.m
	switch rapid.SampledFrom([]string{"", "", "end", "end", "end", "pause", "resume", "edit", "edit", "trigger", "skip", "cancel", "calendar"}).Draw(c.t, "event") {
	case "end":
		c.endOne()
	case "pause":
		c.pause()
	case "resume":
		c.toRecurring(core.RecurringResume{}, func() {
			if m.enabled {
				return
			}
			m.endPause(m.now)
			m.enabled, m.until, m.mark = true, 0, max(m.mark, m.now)
			m.goOn()
		})
	case "edit":
		c.edit()
	case "trigger":
		full := m.limit > 0 && m.alive() >= m.limit
		key := strings.ReplaceAll(m.spec.ActionTemplate.DedupKey, "{{execution_time}}", m.now.String())
		res := c.toRecurring(core.RecurringTrigger{Payload: []byte(`{"n":1}`)}, func() { m.start(&naiveTime{at: m.now, manual: true}) })
		require.Equal(c.t, !full || m.keys[key] != nil, res.Changed, "%v", res.Refused)
	case "skip":
		c.toRecurring(core.RecurringSkipNext{}, func() { m.skip++ })
	case "cancel":
		if len(m.waiting) == 0 {
			return
		}
		w := rapid.SampledFrom(m.waiting).Draw(c.t, "waits")
		entry := c.recurring().Waiting[slices.Index(m.waiting, w)]
		of := core.ChildID(id(1), "occurrence", c.recurring().Ledger.Epoch, entry.N)
		c.toRecurring(core.RecurringCancelWaiting{Occurrence: of}, func() { m.drop(w, core.VerdictCancelled, "cancelled by hand") })
	case "calendar":
		name := rapid.SampledFrom([]string{"a", "b"}).Draw(c.t, "of")
		days := rapid.SampledFrom(comparedCalendars).Draw(c.t, "calendar")
		c.apply(core.CalendarRef("", "", name), core.CalendarUpdate{Patch: core.CalendarPatch{Exclude: &days}})
		m.calendars[name] = c.states[core.CalendarRef("", "", name)].(core.Calendar)
	}
}

// endOne ends an action that runs.
func (c *compared) endOne() {
	runs := slices.DeleteFunc(slices.Clone(c.m.running), func(n *naiveTime) bool { return n.lives != running })
	if len(runs) == 0 {
		return
	}
	n := rapid.SampledFrom(runs).Draw(c.t, "ends")
	a := c.action(n)
	var e core.Event = core.ActionComplete{Run: a.Run}
	if rapid.Bool().Draw(c.t, "fails") {
		e = core.ActionFail{Run: a.Run, Reason: "exit status 1"}
	}
	require.True(c.t, c.apply(a.Ref(), e).Changed)
	c.m.input(func() { c.m.end(n) })
	c.sameRunning()
}

func (c *compared) pause() {
	m := c.m
	e := core.RecurringPause{By: "ann", Reason: rapid.SampledFrom([]string{"", "holidays"}).Draw(c.t, "reason")}
	if rapid.Bool().Draw(c.t, "until") {
		e.Until = m.now.Add(time.Duration(rapid.Int64Range(1, int64(c.period/time.Millisecond)*6).Draw(c.t, "for")) * time.Millisecond)
		if next := c.recurring().Upcoming(m.now, 3, m.calendars); len(next) == 3 && rapid.Bool().Draw(c.t, "until a time") {
			e.Until = next[2]
		}
	}
	c.toRecurring(e, func() {
		if !m.enabled && e.Reason == "" && e.Until.IsZero() {
			return
		}
		if m.enabled {
			m.pass(m.now, "paused before it was dispatched")
		} else {
			m.endPause(m.now)
		}
		m.cancelWaiting("it waited, and the schedule was paused")
		m.enabled, m.pausedAt, m.until, m.why = false, m.now, e.Until, "paused by ann"
		if e.Reason != "" {
			m.why += ": " + e.Reason
		}
	})
}

// edit changes the schedule.
func (c *compared) edit() {
	m := c.m
	var p core.RecurringPatch
	times, policies := false, false
	switch rapid.SampledFrom([]string{"times", "enabled", "overlap", "missed", "executions", "calendars", "description"}).Draw(c.t, "edit") {
	case "times":
		pick := rapid.SampledFrom(comparedTimes).Draw(c.t, "times")
		p.CronExpr = &pick.expr
		c.period = pick.period
		times = pick.expr != m.spec.CronExpr
	case "enabled":
		is := rapid.Bool().Draw(c.t, "enabled")
		p.Enabled, times = &is, is != m.enabled
	case "overlap":
		is := drawOverlap(c.t)
		p.Overlap, policies = &is, is.Plain() != m.overlap()
	case "missed":
		is, window := drawMissed(c.t), c.seconds("window", 0, 2, 7)
		p.Missed, p.CatchUpSeconds = &is, &window
		skips := func(p core.MissedPolicy) bool { return p == "" || p == core.MissedSkip }
		policies = is != m.spec.Missed && (!skips(is) || !skips(m.spec.Missed)) || window != m.spec.CatchUpSeconds
	case "executions":
		is := rapid.SampledFrom([]uint64{0, 3, 9}).Draw(c.t, "max_executions")
		p.MaxExecutions, policies = &is, is != m.spec.MaxExecutions
	case "calendars":
		is := drawCalendars(c.t)
		p.Calendars = &is
	case "description":
		is := rapid.SampledFrom([]string{"a", "b"}).Draw(c.t, "description")
		p.Description = &is
	}
	c.toRecurring(core.RecurringUpdate{Patch: p}, func() {
		was := m.enabled
		if times && was {
			m.pass(m.now, "the schedule was changed before it was dispatched")
		} else if times {
			m.endPause(m.now)
		}
		if times || policies {
			m.cancelWaiting("it waited, and the schedule was changed")
		}
		m.spec, m.enabled = c.recurring().RecurringSpec, c.recurring().Enabled
		if m.spec.MaxExecutions == 0 {
			m.used = 0
		}
		if times {
			m.mark = max(m.mark, m.now)
			if m.enabled {
				m.pausedAt, m.until = 0, 0
			} else {
				m.pausedAt = m.now
			}
		}
		if was && !m.enabled {
			m.why = "disabled by an update"
		}
		m.goOn()
	})
}
