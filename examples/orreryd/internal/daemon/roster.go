package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// roster has the daemons of a cluster, and keeps this one in it. Who is alive each finds out for itself: by its own steady clock, and
// only from what it has seen.
type roster struct {
	cluster  *postgres.Cluster
	self     postgres.Instance
	database string
	lease    time.Duration
	log      *slog.Logger
	clock    *sharedClock

	mu   sync.Mutex
	seen map[string]sighting // by the session of the registration
}

// sighting is the last sign of life of a daemon.
type sighting struct {
	beat uint64
	at   time.Time
}

func newRoster(cluster *postgres.Cluster, name, address, database string, lease time.Duration, log *slog.Logger) *roster {
	return &roster{
		cluster: cluster, self: postgres.Instance{Name: name, Session: rand.Text(), Address: address, Version: version.String()},
		database: database, lease: lease, log: log, clock: &sharedClock{log: log}, seen: make(map[string]sighting),
	}
}

// run keeps this daemon in the roster, and looks at the others, until ctx ends; then it takes this one out.
func (r *roster) run(ctx context.Context) {
	registered, complained := false, false
	for {
		err := r.renew(ctx, &registered)
		if err == nil {
			_, err = r.look(ctx)
		}
		if err == nil {
			err = r.clock.follow(ctx, r.cluster.Ahead)
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			complained = false
		case !complained:
			complained = true
			r.log.Warn("the database does not take this daemon into its roster; trying again", "error", err)
		}
		if sleep(ctx, r.lease/5) != nil {
			break
		}
	}
	if registered {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := r.cluster.Leave(limit, r.self); err != nil {
			r.log.Warn("this daemon stays in the roster, though it ends", "error", err)
		}
	}
}

// renew gives a sign of life. One whose name another one has taken stays out until that is gone.
func (r *roster) renew(ctx context.Context, registered *bool) (err error) {
	if *registered {
		err = r.cluster.Renew(ctx, r.self)
		if !errors.Is(err, store.ErrFenced) {
			return err
		}
		r.log.Warn("another daemon has the same name: give each its own in cluster.name", "name", r.self.Name)
		*registered = false
	}
	if err = r.cluster.Register(ctx, r.self); err == nil {
		*registered = true
	}
	return err
}

// look reads who is registered, and notes the signs of life.
func (r *roster) look(ctx context.Context) ([]wire.ClusterInstance, error) {
	all, err := r.cluster.Instances(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, out, there := time.Now(), []wire.ClusterInstance{}, make(map[string]bool, len(all))
	for _, i := range all {
		there[i.Session] = true
		was, ok := r.seen[i.Session]
		if !ok || was.beat != i.Beat {
			was = sighting{i.Beat, now}
			r.seen[i.Session] = was
		}
		silent := now.Sub(was.at)
		out = append(out, wire.ClusterInstance{
			Name: i.Name, Address: i.Address, Version: i.Version, SilentSeconds: silent.Round(time.Millisecond).Seconds(), Alive: silent < r.lease,
		})
	}
	for session := range r.seen {
		if !there[session] {
			delete(r.seen, session)
		}
	}
	slices.SortFunc(out, func(a, b wire.ClusterInstance) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// tell gives what GET /v1/cluster answers.
func (r *roster) tell(ctx context.Context) (out wire.Cluster, err error) {
	out = wire.Cluster{Instance: r.self.Name, Database: r.database, Partitions: []wire.ClusterPartition{}}
	if out.Instances, err = r.look(ctx); err != nil {
		return out, err
	}
	rows, err := r.cluster.Partitions(ctx)
	for _, p := range rows {
		out.Partitions = append(out.Partitions, wire.ClusterPartition{
			Number: p.Number, Owner: p.Owner, Address: p.Address, Token: p.Token, Commit: p.Last, Behind: p.Lag, Stopped: p.Halted,
		})
	}
	return out, err
}
