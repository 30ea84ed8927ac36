package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell/internal/coreversion"
	"github.com/orrery-go/orrery/store"
)

// placing is what a group goes by when it claims partitions and gives them back: what it has seen itself, on its own steady clock.
type placing struct {
	away       bool      // the database did not answer last time
	draining   bool      // this process is to own nothing
	refuses    bool      // its core is not the one that counts
	rebalances bool      // it was told so, and has not yet done so
	able       []string  // who can have partitions
	sessions   string    // and as what they were registered
	since      time.Time // when that has changed last
	told       *uint64   // how often the instances were told to rebalance, as it was seen last; nil: it was not seen yet
	moving     *seat     // was given back last, and no other process has it yet; nil: none
}

// kept is for how many leases a partition is kept that was taken because who should have it did not.
const kept = 6

// look looks at all partitions at once, has those held that this process should have, and gives one back that another one should.
func (g *Group) look(ctx context.Context, hold func(*seat, store.Partition)) {
	if !g.watch(ctx) {
		return
	}
	open := slices.ContainsFunc(g.seats, (*seat).open)
	list := g.lastListed()
	if open { // whoever has it next should be alive now
		limit, cancel := g.limited(ctx, g.o.Lease/2)
		defer cancel()
		var err error
		if list, err = g.instances(limit); err != nil {
			return
		}
	}
	g.place(list, g.o.Clock.Steady(), hold)
}

// watch looks at all partitions at once, and reports whether the database has answered.
func (g *Group) watch(ctx context.Context) bool {
	for _, s := range g.seats {
		s.held = s.isHeld() // later it may have been given back since it was looked at
	}
	began := g.o.Clock.Steady()
	rows, err := g.rows(ctx)
	ended := g.o.Clock.Steady()
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		g.missed(err)
		return false
	}
	if g.away {
		g.away = false
		g.tell(EventBack, nil)
	}
	for n, s := range g.seats {
		row, there := rows[n]
		if !there {
			row.Number = n
		}
		s.see(row, began, ended)
	}
	return true
}

// rows gives the partitions by number. One that answers later than half a lease is as good as one that does not.
func (g *Group) rows(ctx context.Context) (map[int]store.Partition, error) {
	limit, cancel := g.limited(ctx, g.o.Lease/2)
	defer cancel()
	answered := g.looks.ask(g.o.Clock)
	list, err := g.o.Cluster.Partitions(limit)
	answered(ctx, err)
	all := make(map[int]store.Partition, len(list))
	for _, row := range list {
		all[row.Number] = row
	}
	return all, err
}

// missed notes a look that the database did not answer.
func (g *Group) missed(err error) {
	for _, s := range g.seats {
		s.quiet.missed()
		if !s.isHeld() {
			s.missed(err)
		}
	}
	if !g.away {
		g.away = true
		g.tell(EventAway, err)
	}
}

// see notes what a look has found.
func (s *seat) see(row store.Partition, began, ended time.Time) {
	s.row, s.silent = row, s.quiet.see(row, began, ended)
	if s.held {
		return
	}
	if s.bad != nil && (s.bad.Token != row.Token || s.bad.Halted != row.Halted) {
		s.bad = nil
		s.unusable(nil)
	}
	if row.Lost && s.bad == nil && !s.accepts() { // also who claims nothing, or later than others, can tell
		s.bad = &row
		s.unusable(fmt.Errorf("%w: partition %d: %w: %s", store.ErrUnusable, row.Number, store.ErrLost, row.Halted))
	}
	s.saw(row, s.mine, s.quiet.since)
}

// open reports whether somebody may claim it.
func (s *seat) open() bool {
	return !s.held && s.bad == nil && (!s.row.Owned() || s.left() || s.silent >= s.o.Lease)
}

// left reports that it is this process's still, since its store could not give it back.
func (s *seat) left() bool { return s.row.Owned() && s.row.Session == s.mine && !s.moves() }

// overdue is for how long it could have been claimed.
func (s *seat) overdue() time.Duration {
	if s.row.Owned() {
		return s.silent - s.o.Lease
	}
	return s.silent
}

// place decides, and has it done.
func (g *Group) place(list []Instance, now time.Time, hold func(*seat, store.Partition)) {
	if !g.sees(list, now) {
		return
	}
	for n, s := range g.seats {
		if !s.open() {
			continue
		}
		rank := slices.Index(ranked(n, g.able), g.o.Name)
		if rank >= 0 && s.isUnfit(now) {
			rank = len(g.able)
		}
		if rank < 0 || !s.left() && s.overdue() < time.Duration(rank)*g.o.Lease {
			continue
		}
		s.keep = time.Time{}
		if rank > 0 {
			s.keep = now.Add(kept * g.o.Lease)
		}
		hold(s, s.row)
	}
	g.giveOneBack(now)
}

// sees notes who can have partitions: who is alive, does not drain, and has the core that counts. It reports whether this process is registered.
func (g *Group) sees(list []Instance, now time.Time) (registered bool) {
	draining := g.draining
	live := slices.DeleteFunc(g.living(list), func(i Instance) bool { return i.Draining })
	for _, i := range list {
		if i.Session == g.self.Session {
			registered, draining = true, i.Draining
			g.hear(i.Rebalanced)
		}
	}
	counts := coreThatCounts(live)
	var sessions strings.Builder
	able := g.able[:0:0]
	for _, i := range ableOf(live) {
		able = append(able, i.Name)
		sessions.WriteString(i.Session + "\n")
	}
	if is := sessions.String(); is != g.sessions || g.since.IsZero() {
		g.sessions, g.since = is, now
	}
	if g.rebalances {
		g.rebalances, g.since = false, now.Add(-g.o.Lease)
		for _, s := range g.seats {
			s.keep = time.Time{}
		}
		g.tell(EventRebalances, nil)
	}
	g.able = able
	g.tellOfSelf(draining, registered && coreversion.Number(g.o.Core) != counts && len(live) > 0, counts)
	return registered
}

// living leaves out who is gone. One that owns a partition without a sign of life, and has itself given none for half a lease, is, although its
// time in the list is not over.
func (g *Group) living(list []Instance) (live []Instance) {
	silent := map[string]bool{}
	for _, s := range g.seats {
		if !s.held && s.row.Owned() && s.silent >= g.o.Lease {
			silent[s.row.Owner] = true
		}
	}
	for _, i := range list {
		if i.Session == g.self.Session || i.Alive && (!silent[i.Name] || i.Silent < g.o.Lease/2) {
			live = append(live, i)
		}
	}
	return live
}

// hear notes how often the instances were told to rebalance.
func (g *Group) hear(told uint64) {
	g.rebalances = g.rebalances || g.told != nil && *g.told != told
	g.told = &told
}

// ableOf gives those of the instances that are alive, and do not drain, that can have partitions.
func ableOf(live []Instance) []Instance {
	counts := coreThatCounts(live)
	return slices.DeleteFunc(slices.Clone(live), func(i Instance) bool { return coreversion.Number(i.Core) != counts })
}

// coreThatCounts gives the version of the core that the instances go by: see [coreversion.Counts].
func coreThatCounts(live []Instance) int {
	versions := make([]string, len(live))
	for n, i := range live {
		versions[n] = i.Core
	}
	return coreversion.Counts(versions)
}

// tellOfSelf tells of what has changed for this process.
func (g *Group) tellOfSelf(draining, refuses bool, counts int) {
	if draining != g.draining {
		g.draining = draining
		kind := EventUndrained
		if draining {
			kind = EventDrains
		}
		g.tell(kind, nil)
	}
	if refuses = refuses && !draining; refuses != g.refuses {
		g.refuses = refuses
		if !refuses {
			g.tell(EventAgrees, nil)
			return
		}
		g.tell(EventRefuses, fmt.Errorf("its core is %s, and half of the instances or more have %d: want that in all", g.o.Core, counts))
	}
}

// giveOneBack ends the work on one partition that another instance should have, once the one before has found its owner. While somebody has come or
// gone within a lease nothing moves, but from an instance that drains.
func (g *Group) giveOneBack(now time.Time) {
	if m := g.moving; m != nil {
		again := m.works() // nobody else has taken it
		if !again && (m.held || m.isHeld() || (!m.row.Owned() || m.row.Session == m.mine) && m.silent < g.o.Lease) {
			return
		}
		g.moving = nil
	}
	if len(g.able) == 0 || !g.draining && now.Sub(g.since) < g.o.Lease {
		return
	}
	for n, s := range g.seats {
		to := Place(n, g.able)
		if to == g.o.Name || !s.works() || !g.draining && now.Before(s.keep) || g.o.Bound != nil && g.o.Bound(n) {
			continue
		}
		s.giveBack(to)
		g.moving = s
		return
	}
}
