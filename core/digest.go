package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Digest gathers what alerts have to tell, so that what has one cause is told as one: an outage of ten
// thousand schedules is not ten thousand messages. It announces that on the bus. There is one for each
// channel of notifications that rules name ([AlertRules].Channel), which also asks for a message to that
// channel, and one for all rules that name none, which is idle again when it has announced.
//
//	           tell            due: it is announced, and a message is asked for
//	(absent) ────────▶ gathering ─────────────────────────────────────────────▶ sending
//	                     ▲ │                                                     │ ▲ │
//	                tell │ └──── tell ◀── idle ◀────── done, or given up ────────┘ │ │ failed
//	                     └────────────────┘                      due: once more    │ ▼
//	                                                                              waiting
//
// It waits [DigestWaitMS] for more before it tells, and [DigestEveryMS] after it told last. A
// message that could not be sent is tried again, at growing intervals, for [DigestTriesMS]; what is told
// meanwhile is gathered for the next one. tell is taken in each state.
//
// Invariants, held by property tests:
//   - Something is to be told if and only if Since says since when.
//   - Only the first ones have names, and of each tenant that is told apart one; all are counted.
//   - Only a due event announces what has gathered, not sooner than DigestWaitMS after the first of it,
//     and with it asks for one message if it has a channel.
//   - At most one message is under way or waits to be sent again, and nothing is asked for meanwhile.
type Digest struct {
	ID      uuid.UUID `json:"id"`
	Channel string    `json:"channel"` // empty: none, what gathers is announced alone
	// Since is when the first change of an alert came that is not told yet, by the [Clock]'s step Step; zero: all
	// are told.
	Since   Time       `json:"since,omitzero"`
	Step    uint64     `json:"step,omitempty"`
	Raised  DigestList `json:"raised,omitzero"`
	Cleared DigestList `json:"cleared,omitzero"` // without those of Raised that are over
	Over    uint64     `json:"over,omitempty"`   // of Raised those that have been cleared meanwhile
	ToldAt  Time       `json:"told_at,omitzero"` // when it announced something last
	// Message is the one that is under way or waits to be sent again; nil: none is.
	Message   *DigestMessage `json:"message,omitempty"`
	Pending   PendingEffects `json:"pending"`
	Sent      uint64         `json:"sent"` // messages that were delivered
	Lost      uint64         `json:"lost"` // messages that were given up
	LastError string         `json:"last_error,omitempty"`
	CreatedAt Time           `json:"created_at"`
	UpdatedAt Time           `json:"updated_at"`
}

// DigestList is a list of alerts of which only the first ones have names.
type DigestList struct {
	Counts AlertCounts `json:"counts,omitzero"`
	// First are the first [MaxDigestNames], and behind them of each further one of Tenants the first: of
	// each tenant that is counted there is a name.
	First []DigestEntry `json:"first,omitempty"`
	// Tenants count them by their tenants, in the order in which these came; at most [MaxDigestTenants].
	Tenants []DigestTenant `json:"tenants,omitempty"`
}

// DigestTenant counts the alerts of one tenant.
type DigestTenant struct {
	Namespace string      `json:"namespace,omitempty"`
	Tenant    string      `json:"tenant,omitempty"`
	Counts    AlertCounts `json:"counts"`
	Over      uint64      `json:"over,omitempty"` // have been cleared since they were raised
}

// tenant gives the index of a tenant in the list; -1: it is not there.
func (l DigestList) tenant(e DigestEntry) int {
	return slices.IndexFunc(l.Tenants, func(t DigestTenant) bool { return t.Namespace == e.Namespace && t.Tenant == e.Tenant })
}

// others is how many are of tenants that are not in the list.
func (l DigestList) others() uint64 {
	total := l.Counts.Total()
	for _, t := range l.Tenants {
		total -= min(total, t.Counts.Total())
	}
	return total
}

// named are those that a message names.
func (l DigestList) named() []DigestEntry { return l.First[:min(len(l.First), MaxDigestNames)] }

// AlertCounts count alerts by their kinds.
type AlertCounts struct {
	Late    uint64 `json:"late,omitempty"`
	Missed  uint64 `json:"missed,omitempty"`
	Stale   uint64 `json:"stale,omitempty"`
	Failing uint64 `json:"failing,omitempty"`
	Slow    uint64 `json:"slow,omitempty"`
}

// of gives the count of one kind; nil if the kind is unknown.
func (n *AlertCounts) of(kind AlertKind) *uint64 {
	switch kind {
	case AlertLate:
		return &n.Late
	case AlertMissed:
		return &n.Missed
	case AlertStale:
		return &n.Stale
	case AlertFailing:
		return &n.Failing
	case AlertSlow:
		return &n.Slow
	}
	return nil
}

// Of gives the count of one kind.
func (n AlertCounts) Of(kind AlertKind) uint64 {
	if count := n.of(kind); count != nil {
		return *count
	}
	return 0
}

// Add counts so many more of one kind.
func (n *AlertCounts) Add(kind AlertKind, more uint64) {
	if count := n.of(kind); count != nil {
		*count = saturatingAdd(*count, more)
	}
}

// Total is how many alerts there are of all kinds.
func (n AlertCounts) Total() (sum uint64) {
	for _, kind := range AlertKinds() {
		sum = saturatingAdd(sum, n.Of(kind))
	}
	return sum
}

// only gives the kind of all of them; empty: there are several.
func (n AlertCounts) only() AlertKind {
	for _, kind := range AlertKinds() {
		if total := n.Total(); total > 0 && n.Of(kind) == total {
			return kind
		}
	}
	return ""
}

// String lists the kinds that there are: "10 late, 2 failing".
func (n AlertCounts) String() string {
	var parts []string
	for _, kind := range AlertKinds() {
		if count := n.Of(kind); count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, kind))
		}
	}
	return strings.Join(parts, ", ")
}

// DigestEntry is an alert that was raised or cleared.
type DigestEntry struct {
	Kind      AlertKind   `json:"kind"`
	Schedule  effects.Ref `json:"schedule"`
	Namespace string      `json:"namespace,omitempty"`
	Tenant    string      `json:"tenant,omitempty"`
	Name      string      `json:"name"`
	Since     Time        `json:"since"` // when it was raised
	Reason    string      `json:"reason"`
	Over      bool        `json:"over,omitempty"` // it has been cleared since
}

// DigestMessage is a message that was not delivered yet.
type DigestMessage struct {
	Title   string `json:"title"`
	Text    string `json:"text"`
	BegunAt Time   `json:"begun_at"`
	Tries   uint32 `json:"tries"`
	// Said is what Title and Text say.
	Said DigestSaid `json:"said,omitzero"`
	// RetryAt is when it is tried again; zero: it is under way.
	RetryAt Time `json:"retry_at,omitzero"`
}

// alertCategory is the category of what a digest announces, and alertRules are those since which nobody
// else may announce events of it.
const (
	alertCategory = "alert"
	alertRules    = 13
)

// How a [Digest] gathers and sends.
const (
	MaxDigestNames = 20
	// MaxDigestTenants is how many tenants one message tells apart.
	MaxDigestTenants = 100
	DigestWaitMS     = 30_000         // from the first alert to the message
	DigestEveryMS    = 5 * 60_000     // between two messages
	DigestTriesMS    = 48 * 3_600_000 // how long one that cannot be sent is tried again

	digestFirstMS int64 = 30_000      // until a message is tried again; doubled with each try
	digestLastMS  int64 = 15 * 60_000 // and at most

	maxDigestText = 16 << 10 // of a message
)

// DigestRef names the digest of a channel.
func DigestRef(channel string) effects.Ref {
	return effects.Ref{Kind: KindDigest, ID: namedID("digest", channel)}
}

// digestTransition is the application of one event to a digest.
type digestTransition struct {
	transition
	Digest
}

// Apply carries out one transition.
func (d Digest) Apply(e DigestEvent, c Clock) (Digest, []effects.Effect) {
	t := &digestTransition{transition{clock: c, event: e}, d}
	tell, tells := e.(DigestTell)
	switch {
	case tells:
		t.gather(tell)
	case d.ID == uuid.Nil:
		t.refuse(effects.CodeNotFound, "no alert has told anything to this channel")
	default:
		t.apply(e)
	}
	return concluded(d, t.Digest, t.transition)
}

func (t *digestTransition) apply(e DigestEvent) {
	t.UpdatedAt = t.clock.Now
	switch e := e.(type) {
	case DigestDue:
		t.due()
	case EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack:
		t.takePending(t, &t.Pending, e, "the digest of alerts")
	case DigestTell: // taken before
	}
}

// gather takes a change of an alert, to tell it with others.
func (t *digestTransition) gather(e DigestTell) {
	if (&AlertCounts{}).of(e.Kind) == nil {
		t.refuse(effects.CodeInvalid, "kind: %q is no alert", clip(string(e.Kind)))
		return
	}
	now, ref := t.clock.Now, DigestRef(e.Channel)
	switch {
	case t.ID == uuid.Nil:
		t.Digest = Digest{ID: ref.ID, Channel: e.Channel, CreatedAt: now}
	case t.ID != ref.ID:
		t.refuse(effects.CodeInvalid, "channel: %q is another one than %q", clip(e.Channel), clip(t.Channel))
		return
	}
	t.UpdatedAt = now
	entry := DigestEntry{Kind: e.Kind, Schedule: e.Schedule, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, Since: e.Since, Reason: e.Reason}
	switch {
	case !e.Cleared:
		t.Raised = t.Raised.with(entry)
	case t.isToTell(e):
		t.Over = saturatingAdd(t.Over, 1)
		t.Raised = t.Raised.over(entry)
		return
	default:
		t.Cleared = t.Cleared.with(entry)
	}
	if t.Since.IsZero() {
		t.Since, t.Step = max(now, effects.MinTime), t.clock.Step
	}
}

// isToTell reports whether an alert that is cleared was raised since the last message.
func (t *digestTransition) isToTell(e DigestTell) bool {
	return !t.Since.IsZero() && e.Step >= t.Step && t.Over < t.Raised.Counts.Total()
}

func (l DigestList) with(e DigestEntry) DigestList {
	l.Counts.Add(e.Kind, 1)
	i := l.tenant(e)
	further := i < 0 && len(l.Tenants) < MaxDigestTenants
	if further {
		i = len(l.Tenants)
		l.Tenants = append(slices.Clip(l.Tenants), DigestTenant{Namespace: e.Namespace, Tenant: e.Tenant})
	} else if i >= 0 {
		l.Tenants = slices.Clone(l.Tenants)
	}
	if i >= 0 {
		l.Tenants[i].Counts.Add(e.Kind, 1)
	}
	if further || len(l.First) < MaxDigestNames {
		l.First = append(slices.Clip(l.First), e)
	}
	return l
}

// over marks an alert as over, if it has a name here, and counts it as over for its tenant.
func (l DigestList) over(e DigestEntry) DigestList {
	if i := l.tenant(e); i >= 0 && l.Tenants[i].Over < l.Tenants[i].Counts.Total() {
		l.Tenants = slices.Clone(l.Tenants)
		l.Tenants[i].Over++
	}
	i := slices.IndexFunc(l.First, func(o DigestEntry) bool { return o.Kind == e.Kind && o.Schedule == e.Schedule && !o.Over })
	if i >= 0 {
		l.First = slices.Clone(l.First)
		l.First[i].Over = true
	}
	return l
}

// due: gathering → sending, waiting → sending.
func (t *digestTransition) due() {
	if !t.isDue("the digest of alerts", t.Deadline()) {
		return
	}
	if t.Message == nil {
		t.announceAll()
		if t.ToldAt = t.clock.Now; t.Channel != "" {
			t.Message = &DigestMessage{Title: t.title(), Text: t.text(), BegunAt: t.clock.Now, Said: t.all()}
		}
		t.Since, t.Step, t.Raised, t.Cleared, t.Over = 0, 0, DigestList{}, DigestList{}, 0
	}
	if t.Message != nil {
		t.sendMessage()
	}
}

// DigestSaid is the data of what a digest announces.
type DigestSaid struct {
	Count     uint64      `json:"count"`
	Over      uint64      `json:"over,omitempty"` // have been cleared since they were raised
	Kind      AlertKind   `json:"kind,omitempty"` // of all of them
	Kinds     AlertCounts `json:"kinds"`
	Namespace string      `json:"namespace,omitempty"` // of all of them
	Tenant    string      `json:"tenant,omitempty"`
	// Of and Name are those of the schedule, if there is one alert.
	Of      effects.Kind  `json:"of,omitempty"`
	Name    string        `json:"name,omitempty"`
	Names   []string      `json:"names"` // the first ones
	Reason  string        `json:"reason"`
	Channel string        `json:"channel,omitempty"` // which also gets a message
	Alerts  []DigestEntry `json:"alerts"`            // the first ones, and of each of Tenants one at least
	// Tenants count them by tenants, if they are of several, and Others is how many are of none of these.
	Tenants []DigestTenant `json:"tenants,omitempty"`
	Others  uint64         `json:"others,omitempty"`
	// Cleared is, in what a message says, what was cleared besides what was raised; an event has one of them.
	Cleared *DigestSaid `json:"cleared,omitempty"`
}

// OfTenants gives what is said of those alerts alone whose tenants are allowed; ok is false if there is nothing
// to say of them. Those that one message does not tell apart any more, see [MaxDigestTenants], may be
// theirs: then ok is true, and Others is how many these are.
func (s DigestSaid) OfTenants(allowed func(namespace, tenant string) bool) (_ DigestSaid, ok bool) {
	var cleared *DigestSaid
	if s.Cleared != nil {
		if c, has := s.Cleared.OfTenants(allowed); has {
			cleared = &c
		}
	}
	if len(s.Tenants) == 0 {
		if ok = s.Count > 0 && allowed(s.Namespace, s.Tenant); ok {
			s.Cleared = cleared
			return s, true
		}
		return DigestSaid{Channel: s.Channel, Cleared: cleared}, cleared != nil
	}
	var l DigestList
	var over uint64
	for _, t := range s.Tenants {
		if allowed(t.Namespace, t.Tenant) {
			l.Tenants = append(l.Tenants, t)
			over = saturatingAdd(over, t.Over)
			for _, kind := range AlertKinds() {
				l.Counts.Add(kind, t.Counts.Of(kind))
			}
		}
	}
	for _, e := range s.Alerts {
		if allowed(e.Namespace, e.Tenant) {
			l.First = append(l.First, e)
		}
	}
	out := l.said(over)
	out.Channel, out.Others, out.Cleared = s.Channel, s.Others, cleared
	return out, out.Count > 0 || out.Others > 0 || cleared != nil
}

// said says what is in the list.
func (l DigestList) said(over uint64) DigestSaid {
	s := DigestSaid{
		Count: l.Counts.Total(), Over: over, Kind: l.Counts.only(), Kinds: l.Counts, Alerts: l.First, Others: l.others(), Reason: texts.Head(strings.Join(l.lines(""), "\n"), maxDigestText),
	}
	for _, e := range l.named() {
		s.Names = append(s.Names, e.Name)
	}
	switch {
	case len(l.Tenants) == 1 && s.Others == 0:
		s.Namespace, s.Tenant = l.Tenants[0].Namespace, l.Tenants[0].Tenant
	default:
		s.Tenants = l.Tenants
	}
	if s.Count == 1 && len(l.First) == 1 {
		e := l.First[0]
		s.Of, s.Name, s.Reason = e.Schedule.Kind, e.Name, e.Reason
	}
	return s
}

// Actions of what a digest announces.
const (
	alertRaised  = "raised"
	alertCleared = "cleared"
)

// announceAll announces what has gathered.
func (t *digestTransition) announceAll() {
	say := func(action string, said DigestSaid) {
		if said.Channel = t.Channel; said.Count > 0 {
			t.announce(alertCategory, "digest", action, t.ID, announcementData(said))
		}
	}
	say(alertRaised, t.Raised.said(t.Over))
	say(alertCleared, t.Cleared.said(0))
}

// all is what has gathered as one message says it.
func (t *digestTransition) all() DigestSaid {
	s, cleared := t.Raised.said(t.Over), t.Cleared.said(0)
	if cleared.Count > 0 {
		s.Cleared = &cleared
	}
	s.Channel = t.Channel
	return s
}

// MessageEvent is the message that is under way as an event of the bus: what was raised and what was
// cleared are one event here. It has the same id each time that the message is sent. ok is false if there
// is none.
func (d Digest) MessageEvent() (_ effects.Event, ok bool) {
	if d.Message == nil {
		return effects.Event{}, false
	}
	m := d.Message
	said, action := m.Said, alertRaised
	if said.Count == 0 && said.Cleared != nil {
		action, said.Cleared, said = alertCleared, nil, *said.Cleared
		said.Channel = d.Channel
	}
	return effects.Event{
		ID: namedID("message", d.ID.String(), m.BegunAt.String()), Kind: effects.Custom(alertCategory, action), Timestamp: m.BegunAt,
		Source: effects.EventSource{Component: string(KindDigest), ID: d.ID}, Data: announcementData(said),
	}, said.Count > 0
}

// title says in one line what has gathered.
func (t *digestTransition) title() string {
	raised, cleared := t.Raised.Counts.Total(), t.Cleared.Counts.Total()
	switch {
	case raised == 1 && cleared == 0 && len(t.Raised.First) == 1:
		e := t.Raised.First[0]
		return fmt.Sprintf("%s: %s", e.Kind, e.Name)
	case cleared == 1 && raised == 0 && len(t.Cleared.First) == 1:
		e := t.Cleared.First[0]
		return fmt.Sprintf("no longer %s: %s", e.Kind, e.Name)
	case raised == 0:
		return fmt.Sprintf("%d alerts cleared: %s", cleared, t.Cleared.Counts)
	}
	s := fmt.Sprintf("%d alerts: %s", raised, t.Raised.Counts)
	if raised == 1 {
		s = "1 alert: " + t.Raised.Counts.String()
	}
	if cleared > 0 {
		s += fmt.Sprintf("; %d cleared", cleared)
	}
	return s
}

// text says all of it, as far as it has names.
func (t *digestTransition) text() string {
	lines := t.Raised.lines("")
	if t.Over > 0 && t.Raised.Counts.Total() > uint64(len(t.Raised.named())) {
		lines = append(lines, fmt.Sprintf("%d of these are over already", t.Over))
	}
	lines = append(lines, t.Cleared.lines("no longer ")...)
	return texts.Head(strings.Join(lines, "\n"), maxDigestText)
}

// lines say each alert that has a name, and how many more there are.
func (l DigestList) lines(sign string) (lines []string) {
	for _, e := range l.named() {
		line := fmt.Sprintf("%s%s: %s%s: %s", sign, e.Kind, e.Name, ofScope(e), e.Reason)
		if e.Over {
			line += " (over already)"
		}
		lines = append(lines, line)
	}
	if more := l.Counts.Total() - min(uint64(len(l.named())), l.Counts.Total()); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return lines
}

// ofScope says in a message whose an alert is.
func ofScope(e DigestEntry) string {
	if e.Namespace == "" && e.Tenant == "" {
		return ""
	}
	return fmt.Sprintf(" (%s/%s)", e.Namespace, e.Tenant)
}

// sendMessage asks for the message.
func (t *digestTransition) sendMessage() {
	m := *t.Message
	m.Tries, m.RetryAt = uint32(min(uint64(m.Tries)+1, 1<<31)), 0
	t.Message = &m
	t.request(&t.Pending, effects.Notify{N: t.Pending.next(), Title: m.Title, Message: m.Text, Channel: t.Channel})
}

func (t *digestTransition) effectDone(effects.Outer, EffectDone) {
	t.Message, t.LastError, t.Sent = nil, "", saturatingAdd(t.Sent, 1)
}

func (t *digestTransition) effectFailed(_ effects.Outer, e EffectFailed) {
	t.retryOrGiveUp(e.Reason, e.Permanent)
}

func (t *digestTransition) effectInterrupted(_ effects.Outer, e EffectInterrupted) {
	t.retryOrGiveUp(reasonOr(e.Reason, ReasonRecovered), false)
}

func (t *digestTransition) effectHandedBack(of effects.Outer) { t.reissue(&t.Pending, of) }

// retryOrGiveUp: sending → waiting; or it gives the message up.
func (t *digestTransition) retryOrGiveUp(reason string, permanent bool) {
	t.LastError = clipReason(reason)
	if t.Message == nil {
		return
	}
	m := *t.Message
	if permanent || betweenMS(m.BegunAt, t.clock.Now) >= DigestTriesMS {
		t.Message, t.Lost = nil, saturatingAdd(t.Lost, 1)
		t.announce(alertCategory, "digest", "undelivered", t.ID, announcementTexts("channel", t.Channel, "title", m.Title, "error", t.LastError))
		return
	}
	m.RetryAt = laterMS(t.clock.Now, min(digestFirstMS<<min(max(m.Tries, 1)-1, 10), digestLastMS))
	t.Message = &m
}

// Ref names the digest.
func (d Digest) Ref() effects.Ref { return refOf(KindDigest, d.ID) }

// Deadline is when a message is tried again, or what has gathered is to be told; zero: there is nothing
// to send, or a message is under way.
func (d Digest) Deadline() Time {
	switch {
	case d.Message != nil:
		return d.Message.RetryAt
	case d.Since.IsZero():
		return 0
	case d.ToldAt.IsZero():
		return laterMS(d.Since, DigestWaitMS)
	}
	// If the clock was set back since the last message, that lies ahead: it puts nothing off for longer.
	return max(laterMS(d.Since, DigestWaitMS), min(laterMS(d.ToldAt, DigestEveryMS), laterMS(d.Since, DigestEveryMS)))
}

// outstanding: see [Outstanding].
func (d Digest) outstanding() []effects.Outer { return d.Pending.outstanding() }

// Terms lists the digest under all.
func (d Digest) Terms() []effects.Term {
	return []effects.Term{{Name: TermAll, At: d.CreatedAt, Counted: true}}
}

// AppendJSON appends the stored form.
func (d Digest) AppendJSON(b []byte) []byte { return appendMarshaled(b, d) }
