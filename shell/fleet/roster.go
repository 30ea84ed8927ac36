package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/orrery-go/orrery/store"
)

// Instance is a process of the cluster, as this one sees it.
type Instance struct {
	store.Instance
	// Silent is how long ago its last sign of life was seen here; one that was just seen for the first time has 0.
	Silent time.Duration
	// Alive: that is less than the lease.
	Alive bool
}

// roster has when this process has seen the signs of life of the others.
type roster struct {
	mu   sync.Mutex
	seen map[string]sighting // by the session of the registration
}

type sighting struct {
	beat uint64
	at   time.Time // on the steady clock
}

// Instances lists the processes that are registered, by name. Who is alive follows from what this one has seen since [Member.Run] began.
func (m *Member) Instances(ctx context.Context) (all []Instance, err error) {
	list, err := m.o.Cluster.Instances(ctx)
	if err != nil {
		return nil, err
	}
	m.roster.mu.Lock()
	defer m.roster.mu.Unlock()
	now, there := m.o.Clock.Steady(), make(map[string]sighting, len(list))
	for _, i := range list {
		last, ok := m.roster.seen[i.Session]
		if !ok || last.beat != i.Beat {
			last = sighting{i.Beat, now}
		}
		there[i.Session] = last
		silent := now.Sub(last.at)
		all = append(all, Instance{Instance: i, Silent: silent, Alive: silent < m.o.Lease})
	}
	m.roster.seen = there
	return all, nil
}

// enrol keeps this process in the list of instances until ctx ends, and takes it out then.
func (m *Member) enrol(ctx context.Context) {
	registered, complained := false, false
	for {
		err := m.register(ctx, &registered)
		if err == nil {
			_, err = m.Instances(ctx)
		}
		if err == nil {
			err = m.followClock(ctx)
		}
		switch {
		case err == nil:
			complained = false
		case ctx.Err() == nil && !complained:
			complained = true
			m.tell(EventUnlisted, err)
		}
		if m.sleep(ctx, m.o.Lease/5) != nil {
			break
		}
	}
	if registered {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := m.o.Cluster.Leave(limit, m.self); err != nil {
			m.tell(EventRemains, err)
		}
	}
}

// register gives a sign of life, the first one or a further one.
func (m *Member) register(ctx context.Context, registered *bool) error {
	if *registered {
		err := m.o.Cluster.Renew(ctx, m.self)
		if !errors.Is(err, store.ErrFenced) {
			return err
		}
		m.tell(EventNameTaken, nil)
	}
	err := m.o.Cluster.Register(ctx, m.self)
	*registered = err == nil
	return err
}
