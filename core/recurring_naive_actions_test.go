package core_test

import (
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
)

// start dispatches a time.
func (m *naive) start(n *naiveTime) {
	if n.verdict == "" {
		m.record(n, "", "", "")
		if !n.manual {
			m.count(1)
		}
	}
	n.verdict, n.reason, n.policy, n.started = core.VerdictDispatched, "", "", m.now
	n.key = strings.ReplaceAll(m.spec.ActionTemplate.DedupKey, "{{execution_time}}", n.at.String())
	m.running, m.starts = append(m.running, n), append(m.starts, n)
	if n.key == "" {
		m.queue = append(m.queue, func() { m.create(n) })
		return
	}
	m.queue = append(m.queue, func() {
		if m.keys[n.key] != nil {
			m.takeBack(n, core.VerdictDeduplicated, "action ")
			return
		}
		m.keys[n.key] = n
		m.queue = append(m.queue, func() { m.create(n) })
	})
}

func (m *naive) create(n *naiveTime) {
	if m.limit > 0 && m.room <= 0 {
		m.queue = append(m.queue, func() {
			m.queue = append(m.queue, func() { m.release(n) })
			m.takeBack(n, core.VerdictSkipped, "limit: the tenant has as many as its limit allows")
		})
		return
	}
	m.room--
	n.lives = pending
}

func (m *naive) release(n *naiveTime) {
	if m.keys[n.key] == n {
		delete(m.keys, n.key)
	}
}

// takeBack is for a dispatch that was none.
func (m *naive) takeBack(n *naiveTime, v core.Verdict, reason string) {
	m.running = slices.DeleteFunc(m.running, func(o *naiveTime) bool { return n == o })
	m.starts = slices.DeleteFunc(m.starts, func(o *naiveTime) bool { return n == o })
	n.verdict, n.reason = v, reason
	if !n.manual {
		m.count(-1)
	}
	m.goOn()
}

// cancel is what an action does that is told to end.
func (m *naive) cancel(n *naiveTime, kill bool) {
	if n.lives == pending || kill && n.lives == running {
		m.end(n)
	}
}

// end is what follows when an action has ended.
func (m *naive) end(n *naiveTime) {
	n.lives = ended
	m.release(n)
	m.queue = append(m.queue, func() {
		m.running = slices.DeleteFunc(m.running, func(o *naiveTime) bool { return n == o })
		m.goOn()
	})
}

// input carries out one input, and all that it sends.
func (m *naive) input(do func()) {
	m.room = m.limit - m.alive()
	do()
	for len(m.queue) > 0 {
		next := m.queue[0]
		m.queue = m.queue[1:]
		next()
	}
}

// alive counts the actions that have not ended.
func (m *naive) alive() int {
	n := 0
	for _, r := range m.running {
		if r.lives == pending || r.lives == running {
			n++
		}
	}
	return n
}
