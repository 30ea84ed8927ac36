package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

// maxSetAside bounds what is told of what was set aside.
const maxSetAside = 100

// showSystem tells how the daemon and its database are.
func (s *Server) showSystem(w http.ResponseWriter, r *http.Request, c *call) error {
	stats, err := s.engine.Stats(r.Context())
	if err != nil {
		return err
	}
	out := wire.System{
		Instance: s.engine.Instance(), Instances: []wire.Instance{}, Quarantine: []wire.SetAside{}, Store: s.keptIn(),
		PausedSince: s.pausedSince(), Running: stats.Running, Batches: stats.Batches, CommitErrors: stats.CommitErrors, Refused: stats.Refused,
		LateSeconds: lateWithin(stats.Lateness, 0.99), JournalSeq: stats.JournalSeq,
		LoopLagSeconds: max(stats.Recent.Lag, s.answersWithin(r.Context())).Round(time.Millisecond).Seconds(), LoopLagLimitSeconds: s.engine.LagLimit().Seconds(),
		CommitsPerSecond: perSecond(stats.Recent.Batches, stats.Recent.Span), InputsPerSecond: perSecond(stats.Recent.Inputs, stats.Recent.Span),
	}
	if c.token.Admin && s.o.Settings != nil {
		out.Settings = s.o.Settings()
	}
	err = s.engine.Store().View(r.Context(), func(tx store.ReadTx) error {
		claims, err := tx.Claims(shell.InstanceClaims)
		if err != nil {
			return err
		}
		for _, c := range claims {
			out.Instances = append(out.Instances, wire.Instance{Claim: c.Name, Holder: c.Holder, Token: c.Token, Renewed: c.Renewed, Until: c.Until})
		}
		epochs, err := tx.Epochs()
		if err != nil {
			return err
		}
		if len(epochs) > 0 {
			out.JournalFrom = epochs[0].First
		}
		aside, err := tx.Quarantine(maxSetAside)
		for _, q := range aside {
			out.Quarantine = append(out.Quarantine, wire.SetAside{Kind: q.Kind, ID: q.ID, N: q.N, At: q.At, Reason: q.Reason, Bytes: len(q.Raw)})
		}
		return err
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}

// maxLoopWait bounds how long an answer waits for the loop to say that it is there.
const maxLoopWait = 500 * time.Millisecond

// answersWithin gives how long the loop takes to answer: what nothing due tells of, a loop that is stuck, shows so.
func (s *Server) answersWithin(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, maxLoopWait)
	defer cancel()
	begun := s.o.Clock.Steady()
	_ = s.engine.Health(ctx) // why it is ill is told by /readyz
	return s.o.Clock.Steady().Sub(begun)
}

// perSecond gives a rate to the hundredth.
func perSecond(n uint64, span time.Duration) float64 {
	return math.Round(float64(n)/max(span.Seconds(), 1)*100) / 100
}

// lateWithin gives the least bound of the lateness histogram that holds a part of all that it counts; above the last bound it is
// that one.
func lateWithin(h shell.Histogram, part float64) float64 {
	var all, below uint64
	for _, n := range h.Counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	for i, bound := range shell.LatenessBuckets {
		if below += h.Counts[i]; float64(below) >= part*float64(all) {
			return bound
		}
	}
	return shell.LatenessBuckets[len(shell.LatenessBuckets)-1]
}
