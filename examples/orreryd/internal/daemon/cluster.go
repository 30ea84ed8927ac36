package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// roster is what a daemon tells of its cluster.
type roster struct {
	name, database string
	cluster        *postgres.Cluster
	member         *fleet.Member
}

// tell gives what GET /v1/cluster answers.
func (r roster) tell(ctx context.Context) (wire.Cluster, error) {
	out := wire.Cluster{Instance: r.name, Database: r.database, Instances: []wire.ClusterInstance{}, Partitions: []wire.ClusterPartition{}}
	all, err := r.member.Instances(ctx)
	if err != nil {
		return out, err
	}
	for _, i := range all {
		out.Instances = append(out.Instances, wire.ClusterInstance{
			Name: i.Name, Address: i.Address, Version: i.Version, SilentSeconds: i.Silent.Round(time.Millisecond).Seconds(), Alive: i.Alive,
		})
	}
	rows, err := r.cluster.Partitions(ctx)
	for _, p := range rows {
		out.Partitions = append(out.Partitions, wire.ClusterPartition{
			Number: p.Number, Owner: p.Owner, Address: p.Address, Token: p.Token, Commit: p.Last, Behind: p.Lag, Stopped: p.Halted,
		})
	}
	return out, err
}

// logEvent says what has become of a daemon in its cluster.
func logEvent(log *slog.Logger, database, name string, e fleet.Event) {
	log = log.With("database", database)
	s := e.State
	switch e.Kind {
	case fleet.EventStandsBy:
		log.Info("standing by: another daemon works on the database", "works", s.Owner, "at", s.Address)
	case fleet.EventOwns:
		log.Info("the database is this daemon's", "name", name, "token", s.Token)
	case fleet.EventLost:
		if errors.Is(e.Err, store.ErrFenced) {
			log.Warn("standing by, since another daemon has the database; what ran here was told to end, and nothing of it is stored", "error", e.Err)
		} else {
			log.Warn("standing by, since the database takes nothing of this daemon any more; what ran here was told to end, and was stored or not", "error", e.Err)
		}
	case fleet.EventAway:
		log.Warn("the database does not answer; standing by until it does", "error", e.Err)
	case fleet.EventBack:
		log.Info("the database answers again")
	case fleet.EventUnclaimed:
		log.Warn("the database cannot be taken over; trying again", "error", e.Err)
	case fleet.EventUnrenewed:
		log.Warn("the database does not take a sign of life; trying again", "error", e.Err)
	case fleet.EventUnlisted:
		log.Warn("the database does not take this daemon into its roster; trying again", "error", e.Err)
	case fleet.EventNameTaken:
		log.Warn("another daemon has the same name: give each its own in cluster.name", "name", name)
	case fleet.EventRemains:
		log.Warn("this daemon stays in the roster, though it ends", "error", e.Err)
	case fleet.EventClock:
		log.Warn("this machine's clock and the database's differ; the database's counts", "database_ahead", e.Ahead.Round(time.Millisecond))
	case fleet.EventUntimed:
		log.Warn("the database does not tell the time; what was last known of it counts until it does", "error", e.Err)
	}
}
