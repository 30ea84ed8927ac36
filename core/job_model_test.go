package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// outcome is the verdict about a time, and a part of its reason.
type outcome struct {
	verdict core.Verdict
	why     string
}

// jobModel says what becomes of the times of a job that is due each minute, from the rules of its
// policies alone.
type jobModel struct {
	spec   core.JobSpec
	now    core.Time
	next   core.Time               // the first time that nobody has looked at
	made   map[core.Time]core.Time // runs that wait, and when they ask
	paused bool
	until  core.Time
	skips  int
	told   map[core.Time]outcome
}

const minute = time.Minute

func (m *jobModel) deadline() time.Duration {
	return time.Duration(m.spec.StartDeadlineSeconds) * time.Second
}

func (m *jobModel) window() time.Duration {
	if m.spec.CatchUpSeconds == 0 {
		return 1 << 62
	}
	return time.Duration(m.spec.CatchUpSeconds) * time.Second
}

func (m *jobModel) isPaused(at core.Time) bool {
	return m.paused && (m.until == 0 || at < m.until)
}

// look lets the daemon look at the job at an instant: after an outage, or in time.
func (m *jobModel) look(now core.Time) {
	m.now = now
	unpaused := m.paused && m.until != 0 && m.until <= now
	for at, asks := range m.made { // order-free: each by itself
		if m.paused && asks <= now && m.isPaused(asks) {
			m.told[at] = outcome{core.VerdictSkipped, "paused by ann: why"}
			delete(m.made, at)
		}
	}
	var came []core.Time
	for ; m.next <= now; m.next = m.next.Add(minute) {
		if m.isPaused(m.next) {
			m.told[m.next] = outcome{core.VerdictSkipped, "paused by ann: why"}
			continue
		}
		came = append(came, m.next)
	}
	if unpaused {
		m.paused, m.until = false, 0
	}
	m.skip(&came)
	m.choose(came)
	m.ask()
	if ahead := m.next; !m.paused && ahead.Add(-30*time.Second) <= now {
		m.made[ahead] = ahead
		m.next = ahead.Add(minute)
	}
}

// skip lets the first times that came be skipped by hand, those of runs that were made included.
func (m *jobModel) skip(came *[]core.Time) {
	for at := core.Time(0); m.skips > 0; m.skips-- {
		first := at
		for made, asks := range m.made { // order-free: the first is looked for
			if asks <= m.now && (first == 0 || made < first) {
				first = made
			}
		}
		switch {
		case first != 0:
			delete(m.made, first)
		case len(*came) > 0:
			first, *came = (*came)[0], (*came)[1:]
		default:
			return
		}
		m.told[first] = outcome{core.VerdictSkipped, "the next time was to be skipped, by hand or by an action of a constraint"}
	}
}

// choose decides about the times that came and have no run.
func (m *jobModel) choose(came []core.Time) {
	most := 1
	if m.spec.Missed == core.MissedAll {
		if most = int(m.spec.CatchUpLimit); most == 0 {
			most = core.DefaultCatchUpLimit
		}
	}
	catchesUp := m.spec.Missed == core.MissedLatest || m.spec.Missed == core.MissedAll
	chosen := 0
	for i, at := range came {
		late := m.now.Std().Sub(at.Std())
		inTime := late <= m.deadline() || catchesUp && late <= m.window()
		if i >= len(came)-most && inTime {
			m.made[at] = at
			if late > m.deadline() {
				m.made[at] = m.now
			}
			if catchesUp && m.spec.CatchUpSpacingSeconds > 0 {
				m.made[at] = max(m.made[at], m.now.Add(time.Duration(int64(chosen)*m.spec.CatchUpSpacingSeconds)*time.Second))
			}
			chosen++
			continue
		}
		m.told[at] = outcome{core.VerdictMissed, m.policy(late, came[len(came)-1])}
	}
}

// policy is why a time is missed that has no run.
func (m *jobModel) policy(late time.Duration, last core.Time) string {
	switch m.spec.Missed {
	case core.MissedLatest:
		if m.now.Std().Sub(last.Std()) <= max(m.window(), m.deadline()) {
			return fmt.Sprintf("%s took its place", last)
		}
		return "only within the catch-up window"
	case core.MissedAll:
		if late > m.window() {
			return "it is longer ago than the catch-up window of"
		}
		return "of the times that passed at most the last"
	case core.MissedSkip:
	}
	return "of the times that passed only the latest gets a run, and only within the start deadline of"
}

// ask lets the runs ask whose time has come.
func (m *jobModel) ask() {
	for at, asks := range m.made { // order-free: each by itself
		if asks > m.now {
			continue
		}
		delete(m.made, at)
		if why := m.late(at, asks); why != "" {
			m.told[at] = outcome{core.VerdictMissed, why}
			continue
		}
		m.told[at] = outcome{verdict: core.VerdictDispatched}
	}
}

// late is why a run does not go on that asks too late.
func (m *jobModel) late(at, asks core.Time) string {
	late := m.now.Std().Sub(asks.Std())
	most := int(m.spec.CatchUpLimit)
	if most == 0 {
		most = core.DefaultCatchUpLimit
	}
	later := int(m.now.Std().Sub(at.Std()) / minute)
	switch {
	case late < m.deadline():
		return ""
	case m.spec.Missed != core.MissedLatest && m.spec.Missed != core.MissedAll:
		return "a run begins within its start deadline of"
	case late > m.window():
		return "it is longer ago than the catch-up window of"
	case asks > at: // it was chosen
		return ""
	case m.spec.Missed == core.MissedLatest && later >= 1:
		return "took its place"
	case m.spec.Missed == core.MissedAll && later >= most:
		return "of the times that passed at most the last"
	}
	return ""
}

// Whatever outages there are, and however often the job is paused, resumed and told to skip
// its next time: each due instant has the one verdict that the policies say, with its reason.
func TestEachDueInstantOfAJobHasTheVerdictThatItsPoliciesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := byHand()
		spec.Schedule = "* * * * *"
		spec.StartDeadlineSeconds = rapid.SampledFrom([]int64{20, 100, 150}).Draw(t, "deadline")
		spec.Missed = rapid.SampledFrom([]core.MissedPolicy{"", core.MissedSkip, core.MissedLatest, core.MissedAll}).Draw(t, "missed")
		spec.CatchUpSeconds = rapid.SampledFrom([]int64{0, 250, 700}).Draw(t, "window")
		spec.CatchUpLimit = rapid.SampledFrom([]uint32{0, 1, 3}).Draw(t, "limit")
		spec.CatchUpSpacingSeconds = rapid.SampledFrom([]int64{0, 0, 20, 90}).Draw(t, "spacing")
		m := &jobModel{spec: spec, now: start, next: start.Add(minute), made: map[core.Time]core.Time{}, told: map[core.Time]outcome{}}
		key, clock, w, seq := core.JobRef("", "", spec.ID), core.Clock{Now: start}, world{}, uint64(1)
		w.apply(t, seq, core.Input{To: key, Event: core.JobApply{Spec: spec}}, clock)
		send := func(e core.JobEvent) {
			seq++
			require.Nil(t, w.apply(t, seq, core.Input{To: key, Event: e}, clock).Refused)
		}
		look := func(after time.Duration) {
			clock.Now = clock.Now.Add(after)
			w.pass(t, clock, &seq)
			m.look(clock.Now)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				look(time.Duration(rapid.IntRange(1, 200).Draw(t, "outage")) * 10 * time.Second)
			case 2:
				if !m.paused {
					e := core.JobPause{By: "ann", Reason: "why"}
					if rapid.Bool().Draw(t, "bounded") {
						e.Until = clock.Now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "until")) * 10 * time.Second)
					}
					send(e)
					m.paused, m.until = true, e.Until
				}
			case 3:
				if m.paused {
					send(core.JobResume{})
					m.paused, m.until = false, 0
				}
			case 4:
				if spec.CatchUpSpacingSeconds == 0 {
					send(core.JobSkipNext{})
					m.skips++
				}
			default:
				for range rapid.IntRange(1, 30).Draw(t, "present") {
					look(10 * time.Second)
				}
			}
		}
		if m.paused { // what passes then is recorded with its end
			send(core.JobResume{})
		}
		requireTold(t, w, key, m.told, m.made)
	})
}

// requireTold checks that the entries of the ledger have the verdicts that a model says, and that
// the job counts them so.
func requireTold(t *rapid.T, w world, key effects.Ref, want map[core.Time]outcome, open map[core.Time]core.Time) {
	got := map[core.Time]core.Verdict{}
	sums := map[core.Verdict]uint64{}
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: each by itself
		if o.Manual {
			continue
		}
		sums[o.Verdict] += o.Count
		require.Equal(t, uint64((o.LastDueAt-o.DueAt)/core.Time(minute.Milliseconds()))+1, o.Count, "%s to %s", o.DueAt, o.LastDueAt)
		for at := o.DueAt; at <= o.LastDueAt; at = at.Add(minute) {
			require.NotContains(t, got, at, "two verdicts")
			got[at] = o.Verdict
			require.Equal(t, want[at].verdict, o.Verdict, "%s: %q, and not %q", at, o.Reason, want[at].why)
			require.Contains(t, o.Reason, want[at].why, "%s", at)
		}
	}
	for at, verdict := range want { // order-free: each by itself
		require.Equal(t, verdict.verdict, got[at], "%s", at)
	}
	for at := range open { // order-free: each by itself
		require.NotContains(t, got, at)
	}
	delete(sums, core.VerdictWaiting)
	counts := countsOf(load[core.Job](w, core.KindJob)[key])
	for v, n := range sums { // order-free: each by itself
		require.Equal(t, n, counts[v], "%s", v)
	}
}
