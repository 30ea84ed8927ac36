package core

// TimeSource says whose a time of a pod is.
type TimeSource string

// Sources of times.
const (
	TimeCluster  TimeSource = "cluster"  // the cluster told it; Kubernetes tells whole seconds
	TimeShifted  TimeSource = "shifted"  // the node's clock is off: the length is the cluster's, the place Orrery's
	TimeObserved TimeSource = "observed" // Orrery heard of it then: it was so at the latest then
)

// PodTimes says when the pod of an attempt ran. What the cluster tells is taken where it lies
// between the pod's creation and the moment at which it was told, so that a node's clock that
// is off makes no nonsense of it: 0 <= StartedAt <= EndedAt <= that moment.
type PodTimes struct {
	StartedAt Time       `json:"started_at"` // zero: no pod of the attempt ran
	StartedBy TimeSource `json:"started_by"`
	EndedAt   Time       `json:"ended_at"` // zero: it has not ended
	EndedBy   TimeSource `json:"ended_by"`
}

// PodTimes says when the pod of the present attempt ran. Of an attempt that began under a
// version before 5 it has what that knew: no bounds were set to it.
func (o Orchestrator) PodTimes() PodTimes {
	switch p := o.Pod; {
	case !o.Ran.StartedAt.IsZero():
		return o.Ran
	case o.ExecutionStartedAt.IsZero():
		return PodTimes{}
	case !p.StartedAt.IsZero() && !p.FinishedAt.Before(p.StartedAt):
		return PodTimes{p.StartedAt, TimeCluster, p.FinishedAt, TimeCluster}
	}
	t := PodTimes{StartedAt: o.ExecutionStartedAt, StartedBy: TimeObserved}
	if !o.ExecutionEndedAt.IsZero() {
		t.EndedAt, t.EndedBy = o.ExecutionEndedAt, TimeObserved
	}
	return t
}

// clockPrecisionMS is that of a cluster's times, and so how far they may lie outside of
// where they belong.
const clockPrecisionMS = 1000

// within reports whether a time was told, and lies between two others, and gives it exactly
// there.
func within(at, from, to Time) (Time, bool) {
	near := !at.IsZero() && from-clockPrecisionMS <= at && at <= to+clockPrecisionMS
	return max(min(at, to), from), near
}

// podSpan is where the times of the attempt's pod lie: from its creation until now.
func (t *orchestratorTransition) podSpan() (from, to Time) {
	to = max(t.clock.Now, 1)
	return min(max(t.CreationAskedAt, 1), to), to
}

// toldLength is how long the cluster says that the pod ran, if that fits in its span.
func (t *orchestratorTransition) toldLength() (ms int64, ok bool) {
	from, to := t.podSpan()
	p := t.Pod
	if p.StartedAt.IsZero() || p.FinishedAt.Before(p.StartedAt) {
		return 0, false
	}
	ms = betweenMS(p.StartedAt, p.FinishedAt)
	return ms, ms <= betweenMS(from, to)+clockPrecisionMS
}

// noteBegan notes when the pod began, as it is heard that it runs, or has ended.
func (t *orchestratorTransition) noteBegan() {
	if t.clock.Rules.before(5) {
		return
	}
	from, now := t.podSpan()
	began, told := within(t.Pod.StartedAt, from, now)
	_, fits := within(t.Pod.FinishedAt, began, now)
	length, known := t.toldLength()
	switch {
	case told && (fits || !known):
		t.Ran = PodTimes{StartedAt: began, StartedBy: TimeCluster}
	case known: // it has ended: this late at the latest
		t.Ran = PodTimes{StartedAt: max(now-Time(length), from), StartedBy: TimeShifted}
	default:
		t.Ran = PodTimes{StartedAt: now, StartedBy: TimeObserved}
	}
}

// noteEnded notes when the pod ended, as it is heard of, or as nobody will ever hear of it.
// Nothing is noted of one that never ran, nor of an attempt of a version before.
func (t *orchestratorTransition) noteEnded() {
	began := t.Ran.StartedAt
	if began.IsZero() {
		return
	}
	_, now := t.podSpan()
	now = max(now, began)
	ended, told := within(t.Pod.FinishedAt, began, now)
	length, known := t.toldLength()
	// Where the beginning is not the cluster's although it told one, its clock is off.
	trusted := t.Ran.StartedBy == TimeCluster || t.Pod.StartedAt.IsZero()
	switch {
	case told && trusted:
		t.Ran.EndedAt, t.Ran.EndedBy = ended, TimeCluster
	case known && !trusted && began+Time(length) <= now+clockPrecisionMS:
		t.Ran.EndedAt, t.Ran.EndedBy = min(began+Time(length), now), TimeShifted
	default:
		t.Ran.EndedAt, t.Ran.EndedBy = now, TimeObserved
	}
}

// startedAt is when the pod began to run; of an attempt of a version before, when that was heard.
func (o Orchestrator) startedAt() Time {
	if !o.Ran.StartedAt.IsZero() {
		return o.Ran.StartedAt
	}
	return o.ExecutionStartedAt
}

// podEndedAt is when the pod ended, likewise.
func (o Orchestrator) podEndedAt() Time {
	if !o.Ran.StartedAt.IsZero() {
		return o.Ran.EndedAt
	}
	return o.ExecutionEndedAt
}
