package core_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
)

// naive is a recurring action as its documentation tells of it: plain lists of times, and the
// refusals in their order. It knows nothing of how the machine does it.
type naive struct {
	t         require.TestingT
	spec      core.RecurringSpec
	created   core.Time
	calendars core.Calendars
	limit     int // actions of the tenant that have not ended; 0: any number

	now      core.Time
	absences []core.Absence
	mark     core.Time // all times up to it are decided
	enabled  bool
	why      string // how the reason of a time begins that comes while it is disabled
	pausedAt core.Time
	until    core.Time
	skip     int
	used     uint64
	waiting  []*naiveTime
	running  []*naiveTime
	starts   []*naiveTime          // dispatches, in their order
	records  []*naiveTime          // in the order in which they were recorded
	keys     map[string]*naiveTime // that are held
	queue    []func()              // what has been sent
	room     int                   // for actions of the input under way

	schedules map[schedule.Spec]*schedule.Schedule // those compiled so far
}

// naiveTime is one time.
type naiveTime struct {
	at, since, notBefore, started core.Time
	manual, stopping              bool
	verdict                       core.Verdict
	reason, policy                string // what the reason begins with, and has
	lives                         naiveLife
	key                           string
}

// naiveLife is how far the action of a time is.
type naiveLife int

const (
	notMade naiveLife = iota
	pending
	running
	ended
)

func (m *naive) overlap() core.OverlapPolicy { return m.spec.Overlap.Plain() }

// due lists the times in (from, to] that get a verdict.
func (m *naive) due(from, to core.Time) []core.Time {
	if !m.spec.EndsAt.IsZero() {
		to = min(to, m.spec.EndsAt-1)
	}
	return slices.Collect(m.compiled(schedule.DSTOnceShifted).Due(from, to))
}

// compiled gives the schedule, with another rule for the change of clocks where the rule is to skip.
func (m *naive) compiled(insteadOfSkip schedule.DST) *schedule.Schedule {
	s := schedule.Spec{Expr: m.spec.CronExpr, Zone: m.spec.Timezone, Anchor: m.created, DST: m.spec.DST, StartsAt: m.spec.StartsAt}
	if !m.spec.StartsAt.IsZero() {
		s.Anchor = m.spec.StartsAt
	}
	if s.DST == schedule.DSTSkip {
		s.DST = insteadOfSkip
	}
	if m.schedules == nil {
		m.schedules = map[schedule.Spec]*schedule.Schedule{}
	}
	if m.schedules[s] == nil {
		compiled, err := s.Compile()
		require.NoError(m.t, err)
		m.schedules[s] = compiled
	}
	return m.schedules[s]
}

// leftOut says why a time is none, whatever happens.
func (m *naive) leftOut(at core.Time) string {
	for _, name := range m.spec.Calendars {
		c, ok := m.calendars[name]
		if !ok {
			return "calendar: calendar " + name + " does not exist any more"
		}
		if why := c.LeavesOut(at); why != "" {
			return "calendar: " + why
		}
	}
	if m.spec.DST == schedule.DSTSkip && len(slices.Collect(m.compiled(schedule.DSTSkip).Due(at-1, at))) == 0 {
		return "clock change: "
	}
	return ""
}

// fires is when a time is dispatched. How much jitter it has is what a preview of that time alone
// says; the bounds of that are held here.
func (m *naive) fires(at core.Time) core.Time {
	if m.spec.JitterSeconds == 0 {
		return at
	}
	r := core.RecurringAction{RecurringSpec: m.spec, CreatedAt: m.created, LastDueAt: at - 1}
	r.Enabled, r.Calendars, r.MaxExecutions = true, nil, 0
	if r.DST == schedule.DSTSkip {
		r.DST = schedule.DSTOnceShifted
	}
	times := r.Upcoming(at-1, 1, nil)
	require.Len(m.t, times, 1)
	is := times[0]
	require.True(m.t, is >= at && int64(is-at) <= m.spec.JitterSeconds*1000, "%s fires at %s", at, is)
	if next, ok := m.compiled(schedule.DSTOnceShifted).Next(at); ok {
		require.Less(m.t, is, next)
	}
	require.True(m.t, m.spec.EndsAt.IsZero() || is < m.spec.EndsAt)
	return is
}

func (m *naive) next() (core.Time, bool) {
	next, ok := m.compiled(schedule.DSTOnceShifted).Next(m.mark)
	return next, ok
}

// record notes a new verdict.
func (m *naive) record(n *naiveTime, v core.Verdict, reason, policy string) *naiveTime {
	n.verdict, n.reason, n.policy = v, reason, policy
	m.records = append(m.records, n)
	return n
}

// miss notes a time that nobody decided about in time.
func (m *naive) miss(at core.Time, policy string) {
	fires, behindUntil := m.fires(at), m.now
	reason := ""
	for _, a := range m.absences {
		if a.From > m.now {
			continue
		}
		if int64(a.From-fires) > 1000 {
			behindUntil = min(behindUntil, a.From)
		} else if fires < a.To {
			reason = a.String()
			break
		}
	}
	if reason == "" && int64(behindUntil-fires) >= 1000 {
		reason = "the daemon was behind by"
	}
	m.record(&naiveTime{at: at}, core.VerdictMissed, reason, policy)
}

// pass decides all times up to an instant that were not decided: no dispatch is made.
func (m *naive) pass(until core.Time, policy string) {
	for _, at := range m.due(m.mark, until) {
		m.passOne(at, policy)
	}
	m.mark = max(m.mark, until)
}

func (m *naive) passOne(at core.Time, policy string) {
	switch why := m.leftOut(at); {
	case why != "":
		m.record(&naiveTime{at: at}, core.VerdictSkipped, why, "")
	case m.skip > 0:
		m.skip--
		m.record(&naiveTime{at: at}, core.VerdictSkipped, "by hand", "")
	default:
		m.miss(at, policy)
	}
}

// endPause decides the times of a pause.
func (m *naive) endPause(until core.Time) {
	if m.pausedAt.IsZero() {
		return
	}
	from := max(m.mark, m.pausedAt)
	m.pausedAt = 0
	for _, at := range m.due(from, until) {
		why := m.leftOut(at)
		if why == "" {
			why = m.why
		}
		m.record(&naiveTime{at: at}, core.VerdictSkipped, why, "")
	}
	if from < until {
		m.mark = max(m.mark, until)
	}
}

func (m *naive) ended() bool { return !m.spec.EndsAt.IsZero() && m.spec.EndsAt <= m.now }

func (m *naive) spent() bool {
	return m.spec.MaxExecutions > 0 && m.used-uint64(len(m.waiting)) >= m.spec.MaxExecutions
}

// mustAct reports whether anything is due.
func (m *naive) mustAct() bool {
	if m.enabled && m.spent() {
		return m.mark <= m.now
	}
	for _, w := range m.waiting {
		if !w.notBefore.IsZero() && w.notBefore <= m.now || m.expired(w) {
			return true
		}
	}
	if !m.enabled {
		return !m.until.IsZero() && m.until <= m.now
	}
	next, ok := m.next()
	comes := ok && (m.spec.EndsAt.IsZero() || next < m.spec.EndsAt)
	return m.ended() || comes && m.fires(next) <= m.now
}

func (m *naive) expired(w *naiveTime) bool {
	return m.spec.MaxWaitSeconds > 0 && int64(m.now-max(w.since, w.notBefore)) >= m.spec.MaxWaitSeconds*1000
}

// decide is what is done when something is due.
func (m *naive) decide() {
	for _, w := range slices.Clone(m.waiting) {
		if m.expired(w) {
			m.drop(w, core.VerdictExpired, "its turn did not come within max_wait_seconds")
		}
	}
	if !m.enabled && !m.until.IsZero() && m.until <= m.now {
		m.endPause(m.until - 1)
		m.mark = max(m.mark, m.until-1)
		m.enabled, m.until = true, 0
	}
	switch {
	case !m.enabled:
	case m.ended():
		m.pass(m.spec.EndsAt-1, "ends_at was reached before it was dispatched")
		m.disable("disabled: ends_at")
	case m.spent():
		m.disable("disabled: the schedule has dispatched")
	default:
		m.occur()
	}
	m.goOn()
}

func (m *naive) disable(why string) { m.enabled, m.why, m.pausedAt, m.until = false, why, 0, 0 }

// occur decides all times that have come.
func (m *naive) occur() {
	list, until := m.due(m.mark, m.now), m.now
	if n := len(list); n > 0 && m.leftOut(list[n-1]) == "" && m.fires(list[n-1]) > m.now {
		until, list = list[n-1]-1, list[:n-1]
	}
	for len(list) > 0 && m.skip > 0 {
		m.passOne(list[0], "")
		list = list[1:]
	}
	m.mark = max(m.mark, until)
	chosen := m.chosen(list)
	number := map[core.Time]int{}
	for i, at := range chosen {
		number[at] = i
	}
	for _, at := range list {
		if i, is := number[at]; is {
			m.dispatch(at, i)
			continue
		}
		policy := "of the times that passed only the latest is dispatched"
		if m.spec.Missed == core.MissedAll {
			policy = "of the times that passed at most the last"
			if w := m.spec.CatchUpSeconds; w > 0 && int64(m.now-m.fires(at)) > w*1000 {
				policy = "it is longer ago than the catch-up window"
			}
		}
		m.passOne(at, policy)
	}
}

// chosen lists the times that are dispatched, late or not.
func (m *naive) chosen(list []core.Time) []core.Time {
	most := 1
	if m.spec.Missed == core.MissedAll {
		if most = int(m.spec.CatchUpLimit); most == 0 {
			most = 100
		}
	}
	deadline := m.spec.StartDeadlineSeconds
	if deadline == 0 {
		deadline = 120
	}
	var out []core.Time
	for _, at := range slices.Backward(list) {
		late := int64(m.now - m.fires(at))
		switch {
		case m.leftOut(at) != "":
			continue
		case len(out) == most:
			return out
		case late <= deadline*1000:
		case m.spec.Missed == core.MissedSkip || m.spec.Missed == "":
			return out
		case m.spec.CatchUpSeconds > 0 && late > m.spec.CatchUpSeconds*1000:
			return out
		}
		out = slices.Insert(out, 0, at)
	}
	return out
}

func (m *naive) dispatch(at core.Time, i int) {
	n := &naiveTime{at: at}
	switch spacing := m.spec.CatchUpSpacingSeconds; {
	case m.spec.MaxExecutions > 0 && m.used >= m.spec.MaxExecutions:
		m.record(n, core.VerdictSkipped, "limit: the schedule has dispatched", "as many as it may")
	case i > 0 && spacing > 0:
		m.wait(n, m.now+core.Time(int64(i)*spacing*1000))
	default:
		m.place(n)
	}
}

// place asks the overlap policy.
func (m *naive) place(n *naiveTime) {
	buffered := m.buffered()
	busy := len(m.running) > 0
	overlap := fmt.Sprintf("overlap is %q", m.spec.Overlap)
	switch policy := m.overlap(); policy {
	case core.OverlapSkip:
		if busy {
			m.refuse(n, overlap, "of "+m.running[0].at.String()+" has not ended")
			return
		}
		m.start(n)
	case core.OverlapBufferOne, core.OverlapBufferAll:
		most := 1
		if policy == core.OverlapBufferAll {
			if most = int(m.spec.BufferLimit); most == 0 {
				most = 100
			}
		}
		switch {
		case !busy:
			m.start(n)
		case len(buffered) >= most:
			m.refuse(n, "buffer full: "+overlap, "")
		default:
			m.wait(n, 0)
		}
	case core.OverlapCancelOther, core.OverlapTerminateOther:
		for _, w := range buffered {
			m.drop(w, core.VerdictCancelled, overlap)
		}
		for _, o := range m.running {
			if kill := policy == core.OverlapTerminateOther; kill || !o.stopping {
				o.stopping = true
				m.queue = append(m.queue, func() { m.cancel(o, kill) })
			}
		}
		m.wait(n, 0)
	default:
		m.start(n)
	}
}

// refuse notes what the overlap policy refuses.
func (m *naive) refuse(n *naiveTime, reason, policy string) {
	if n.verdict == "" {
		m.record(n, core.VerdictSkipped, reason, policy)
		return
	}
	m.drop(n, core.VerdictSkipped, reason)
}

func (m *naive) wait(n *naiveTime, notBefore core.Time) {
	if n.verdict == "" {
		m.record(n, core.VerdictWaiting, "", "")
		m.count(1)
	}
	n.since, n.notBefore = m.now, notBefore
	m.waiting = append(m.waiting, n)
}

func (m *naive) count(by int) {
	if m.spec.MaxExecutions > 0 && (by > 0 || m.used > 0) {
		m.used = uint64(int(m.used) + by)
	}
}

// drop ends the waiting of a time that is not dispatched.
func (m *naive) drop(n *naiveTime, v core.Verdict, reason string) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w *naiveTime) bool { return w == n })
	m.count(-1)
	n.verdict, n.reason = v, reason
}

func (m *naive) cancelWaiting(reason string) {
	for _, w := range slices.Clone(m.waiting) {
		m.drop(w, core.VerdictCancelled, reason)
	}
}

func (m *naive) buffered() []*naiveTime {
	return slices.DeleteFunc(slices.Clone(m.waiting), func(w *naiveTime) bool { return !w.notBefore.IsZero() })
}

// goOn lets what waits go on.
func (m *naive) goOn() {
	for _, w := range slices.Clone(m.waiting) {
		if !w.notBefore.IsZero() && w.notBefore <= m.now {
			m.waiting = slices.DeleteFunc(m.waiting, func(o *naiveTime) bool { return w == o })
			m.place(w)
		}
	}
	for len(m.running) == 0 {
		waits := m.buffered()
		if len(waits) == 0 {
			return
		}
		m.waiting = slices.DeleteFunc(m.waiting, func(o *naiveTime) bool { return waits[0] == o })
		m.start(waits[0])
	}
}
