package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/orrery-go/orrery/store"
)

// lives are the partitions of which a process gives signs of life, all together and with its own.
type lives struct {
	mu  sync.Mutex
	all []*life // by the number of the partition
}

// life is one of them, as long as this process owns the partition.
type life struct {
	m       *Member
	st      store.Owned
	held    *held
	ctx     context.Context //nolint:containedctx // of what is asked for it alone, which begins and ends with it
	end     context.CancelFunc
	beside  goroutines
	mu      sync.Mutex
	asked   bool   // it is asked for it alone at the moment
	unheard bool   // its last sign of life was not taken
	before  moment // when the last one together with others was sent; zero: there was none
}

// keepAlive has the process give signs of life of a partition, until who calls what it returns, which waits for what is asked of the store.
func (p *process) keepAlive(m *Member, st store.Owned) (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	l := &life{m: m, st: st, held: m.holds(), ctx: ctx, end: end, beside: goroutines{to: p.o.Scheduler}}
	p.lives.mu.Lock()
	defer p.lives.mu.Unlock()
	at, _ := slices.BinarySearchFunc(p.lives.all, m.partition, func(l *life, n int) int { return l.m.partition - n })
	p.lives.all = slices.Insert(p.lives.all, at, l)
	return func() {
		p.lives.mu.Lock()
		p.lives.all = slices.DeleteFunc(p.lives.all, func(o *life) bool { return o == l })
		p.lives.mu.Unlock()
		end()
		l.mu.Lock()
		l.asked = true // nothing is begun any more
		l.mu.Unlock()
		l.beside.wait()
	}
}

// list gives those whose stores have not failed.
func (l *lives) list() []*life {
	l.mu.Lock()
	all := slices.Clone(l.all)
	l.mu.Unlock()
	return slices.DeleteFunc(all, func(l *life) bool { return l.st.Failure() != nil })
}

// renew gives a sign of life of this process and of all partitions that it owns. One that could not be renewed with the others is
// asked for alone, and holds up none of them.
func (p *process) renew(ctx context.Context, registered *bool) (err error) {
	limit, cancel := p.limited(ctx, p.o.Lease/2)
	defer cancel()
	answered := p.signs.ask(p.o.Clock)
	defer func() { answered(ctx, err) }()
	all := p.lives.list()
	if *registered || len(all) > 0 {
		owned := make([]store.Owned, len(all))
		for i, l := range all {
			owned[i] = l.st
		}
		sent := momentOf(p.o.Clock)
		rest, err := p.o.Cluster.Renew(limit, p.self, owned...)
		for _, l := range all {
			since := l.together(sent)
			if slices.Contains(rest, l.st) {
				l.renewAlone()
			} else {
				l.heard(since, nil)
			}
		}
		switch {
		case err == nil:
			*registered = true // though the answer may have been lost
			p.rival.isAway(p.o.Clock.Steady(), p.o.Lease)
			return nil
		case !errors.Is(err, store.ErrFenced):
			return err
		case *registered && p.rival.isThere(p.o.Clock.Steady()):
			p.tell(EventNameTaken, nil)
		}
	}
	err = p.o.Cluster.Register(limit, p.self)
	*registered = err == nil
	return err
}

// rival is another process of the name of this one, as who renews knows of it.
type rival struct {
	is   bool
	last time.Time // when it was found to have registered, on the steady clock
}

// isThere notes that it has registered, and reports whether that is news: two of a name find each other at each renewal.
func (r *rival) isThere(now time.Time) (news bool) {
	news = !r.is
	r.is, r.last = true, now
	return news
}

// isAway notes that it has not registered since the last renewal. After a lease of that it has gone; before, it may only have been slower.
func (r *rival) isAway(now time.Time, lease time.Duration) {
	r.is = r.is && now.Sub(r.last) < lease
}

// together notes when a sign of life was sent together with others, and gives when the one before that was: if it counts as given, a commit since then may have been it.
func (l *life) together(sent moment) (before moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.before = l.before, sent
	return before
}

// renewAlone gives a sign of life of one partition, unless it is about to.
func (l *life) renewAlone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked {
		return
	}
	l.asked = true
	l.beside.start(func() {
		limit, cancel := l.m.limited(l.ctx, l.m.o.Lease/2)
		defer cancel()
		sent := momentOf(l.m.o.Clock)
		err := l.st.Renew(limit)
		if l.ctx.Err() != nil {
			return
		}
		l.heard(sent, err)
		l.mu.Lock()
		l.asked = l.ctx.Err() != nil // after its end nothing is begun any more
		l.mu.Unlock()
	})
}

// heard notes whether the database has taken a sign of life, which was sent at that moment or later, and tells once if it has not.
func (l *life) heard(sent moment, err error) {
	if err == nil {
		l.m.renewed()
		if !sent.steady.IsZero() {
			l.held.lives(sent)
		}
	} else if l.ctx.Err() != nil || l.st.Failure() != nil {
		return
	}
	l.mu.Lock()
	news := err != nil && !l.unheard
	l.unheard = err != nil
	l.mu.Unlock()
	if news {
		l.m.tell(EventUnrenewed, err)
	}
}
