package fleet

import (
	"time"

	"github.com/orrery-go/orrery/store"
)

// State is what a process knows of its partition, for metrics and for those who ask how it is.
type State struct {
	Partition int
	// Works: this process owns the partition, as far as it knows.
	Works bool
	// Token is that of whoever owns it, and Owner and Address who that is; Owner empty: nobody does, or none was seen yet.
	Token          uint64
	Owner, Address string
	// Since is when this process saw that owner first.
	Since time.Time
	// Silent is how long ago the owner gave its last sign of life that is known here.
	Silent time.Duration
	// Takeovers counts the terms of this process, and Fenced those that ended because it had lost the partition.
	Takeovers, Fenced uint64
	// Err is why the database does not answer; nil: it answered last time.
	Err error
	// Unusable is why nobody can open the partition, of a [Group]; nil: as far as is known it can be opened.
	Unusable error
}

// State gives what is known now.
func (m *Member) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	if s.Owner != "" {
		s.Silent = max(0, m.o.Clock.Steady().Sub(m.sign))
	}
	return s
}

// Changed is closed once another one owns the partition, or the database has stopped or begun to answer. Ask for it before [Member.State].
func (m *Member) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// announce makes a change known; the lock is held.
func (m *Member) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// own notes who owns the partition, and reports whether that was news; the lock is held.
func (m *Member) own(token uint64, owner, address string, works bool) bool {
	s := &m.state
	if s.Token == token && s.Owner == owner && s.Address == address && s.Works == works {
		return false
	}
	s.Token, s.Owner, s.Address, s.Works, s.Since = token, owner, address, works, m.o.Clock.Now()
	m.announce()
	return true
}

// note changes what is known, and tells of it once the lock is given back.
func (m *Member) note(change func() []EventKind, before string, err error) {
	m.mu.Lock()
	kinds := change()
	m.mu.Unlock()
	for _, kind := range kinds {
		if m.in != nil && (kind == EventAway || kind == EventBack) {
			continue // the group tells it once
		}
		m.pass(Event{Kind: kind, State: m.State(), Before: before, Err: err})
	}
}

// answers notes that the database answers; the lock is held.
func (m *Member) answers() (news []EventKind) {
	if m.state.Err == nil {
		return nil
	}
	m.state.Err = nil
	m.announce()
	return []EventKind{EventBack}
}

// saw notes what a look has found; mine is the session of this process's last term.
func (m *Member) saw(row store.Partition, mine string, sign time.Time) {
	m.note(func() []EventKind {
		news := m.answers()
		m.sign = sign
		if m.own(row.Token, row.Owner, row.Address, false) && row.Owned() && row.Session != mine {
			news = append(news, EventStandsBy)
		}
		return news
	}, "", nil)
}

// missed notes that the database does not answer.
func (m *Member) missed(err error) {
	m.note(func() (news []EventKind) {
		if m.state.Err == nil {
			m.announce()
			news = append(news, EventAway)
		}
		m.state.Err = err
		return news
	}, "", err)
}

// took notes that the partition is this process's.
func (m *Member) took(st store.Owned, seen store.Partition) {
	m.note(func() []EventKind {
		news := m.answers()
		m.sign = m.o.Clock.Steady()
		m.state.Takeovers++
		m.state.Unusable = nil
		m.own(st.Token(), m.o.Name, m.o.Address, true)
		return append(news, EventOwns)
	}, seen.Owner, nil)
}

// unusable notes that nobody can open the partition, or (nil) that it has changed since.
func (m *Member) unusable(why error) {
	m.mu.Lock()
	m.state.Unusable = why
	m.mu.Unlock()
	if why != nil {
		m.tell(EventUnusable, why)
	}
}

// accepts reports whether a loss of commits is accepted: once.
func (m *Member) accepts() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.o.AcceptLoss && m.state.Takeovers == 0
}

// renewed notes a sign of life of this process.
func (m *Member) renewed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sign = m.o.Clock.Steady()
}

// ended notes the end of a term.
func (m *Member) ended(st store.Owned, lost error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lost != nil {
		m.state.Fenced++
	}
	m.own(st.Token(), "", "", false)
}
