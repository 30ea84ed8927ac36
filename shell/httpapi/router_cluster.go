package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// mergeRebalance has partitions be where they should be, and asks the owner of each that is not what keeps it there: what stands on a machine only that knows.
func mergeRebalance(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error {
	s := rt.front
	if s.o.Cluster == nil || s.o.Rebalance == nil || s.o.Placings == nil {
		return s.rebalanceCluster(w, r, c)
	}
	places, err := s.o.Rebalance(r.Context())
	if err != nil {
		return err
	}
	of := make(map[string][]int) // by its owner: the places of what should be elsewhere
	for i, p := range places {
		if p.Keeps != "" && p.Owner != "" && p.Owner != rt.o.Name && p.Number >= 0 && p.Number < rt.o.Partitions {
			of[p.Owner] = append(of[p.Owner], i)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), auditWait)
	defer cancel()
	var all sync.WaitGroup
	for owner, at := range of { // order-free: each fills in its own
		all.Go(func() {
			told, err := rt.askPlacings(ctx, r, places[at[0]].Number)
			for _, i := range at {
				p := &places[i]
				switch is, found := told[p.Number]; {
				case err != nil:
					p.Keeps = fmt.Sprintf("%s, which knows, does not tell: %s", owner, err)
				case found && is.Owner == owner:
					*p = is
				}
			}
		})
	}
	all.Wait()
	return writeJSON(w, http.StatusOK, wire.ClusterPlacing{Partitions: places})
}

// askPlacings asks the owner of a partition where the partitions are, by number.
func (rt *Router) askPlacings(ctx context.Context, r *http.Request, partition int) (map[int]wire.ClusterPlace, error) {
	var group sync.WaitGroup
	defer group.Wait()
	got := rt.ask(&group, rt.part(ctx, r, http.MethodPost, partition, nil), partition)
	defer func() { _ = got.body.Close() }()
	var answer struct {
		wire.ClusterPlacing
		wire.Error
	}
	err := json.NewDecoder(io.LimitReader(got.body, maxGathered)).Decode(&answer)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it has not answered within %s", auditWait)
	case err != nil:
		return nil, fmt.Errorf("its answer has broken off")
	case got.status != http.StatusOK:
		return nil, fmt.Errorf("%s", answer.Error.Error)
	}
	out := make(map[int]wire.ClusterPlace)
	for _, p := range answer.Partitions {
		out[p.Number] = p
	}
	return out, nil
}
