package httpapi

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

// healthz says that the process serves requests.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request, _ *call) error {
	return writeJSON(w, http.StatusOK, wire.Health{Status: "ok"})
}

// readyTimeout is how long the engine may take to answer.
const readyTimeout = 5 * time.Second

// readyz says whether the engine takes requests: its loop runs, its last commit succeeded,
// and the store can be read. That a cluster is away makes nothing here less ready: who
// applies, reads and cancels must go on, and a restart would not bring it back. So runners
// are told beside it, as is that the engine is paused, which takes requests like any other; and so is a file that the log cannot be brought into, as long as the log has room.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request, _ *call) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := s.whileReady(ctx, s.probe); err != nil {
		if why, ok := errors.AsType[*failure](err); ok {
			return why
		}
		return &failure{status: http.StatusServiceUnavailable, text: "not ready: " + s.whyNotReady(err), cause: err}
	}
	out := wire.Health{Status: "ready", Runners: s.ailing(), Database: s.whyNotInFile(), PausedSince: s.pausedSince(), Store: s.keptIn()}
	if !out.PausedSince.IsZero() {
		out.Status = "paused"
	}
	return writeJSON(w, http.StatusOK, out)
}

// readyEvery is how often [Options.Ready] is called while the engine is asked.
const readyEvery = 100 * time.Millisecond

// whileReady asks the engine, and gives that up as soon as [Options.Ready] knows why the server is not ready, which is the error then.
func (s *Server) whileReady(ctx context.Context, ask func(context.Context) error) error {
	if s.o.Ready == nil {
		return ask(ctx)
	}
	if err := s.o.Ready(); err != nil {
		return notReady(err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	said := make(chan error, 1)
	go func() {
		defer close(said)
		pulse := time.NewTicker(readyEvery)
		defer pulse.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pulse.C:
				if err := s.o.Ready(); err != nil {
					said <- notReady(err)
					end()
					return
				}
			}
		}
	}()
	err := ask(ctx)
	end()
	if why := <-said; why != nil && err != nil {
		return why
	}
	return err
}

// notReady is the answer of a server that [Options.Ready] says is not.
func notReady(err error) error {
	return &failure{status: http.StatusServiceUnavailable, text: "not ready: " + oneLine(err.Error()), cause: err}
}

// keptIn says what the engine's records are in. Of one partition of several the router tells it.
func (s *Server) keptIn() *wire.Store {
	if s.o.Store == "" || s.o.Partitions > 1 {
		return nil
	}
	return &wire.Store{Kind: s.o.Store, Partitions: 1, Owned: 1}
}

// keptIn says what the records of all partitions are in, and how many of these this process owns.
func (rt *Router) keptIn() *wire.Store {
	if rt.o.API.Store == "" {
		return nil
	}
	return &wire.Store{Kind: rt.o.API.Store, Partitions: rt.o.Partitions, Owned: len(rt.locals())}
}

// salvageIt is what to do with a database file of which a part is damaged.
const salvageIt = "stop the daemon and make a new file with orreryd salvage"

// whyNotInFile says what keeps the log from being brought into the database file, without what only the
// log of the daemon may hold; "": nothing does.
func (s *Server) whyNotInFile() string {
	err := s.logStats().Err
	if err == nil {
		return ""
	}
	why := cmp.Or(cannotWrite(err), "the daemon's log says why")
	if errors.Is(err, store.ErrCorrupt) {
		why = "a part of the file is damaged: " + salvageIt
	}
	return "the log cannot be brought into the database file, and grows until it is full: " + why
}

// logStats are those of a store that has a log.
func (s *Server) logStats() (l store.LogStats) {
	if logged, ok := s.engine.Store().(store.Logged); ok {
		l = logged.LogStats()
	}
	return l
}

// whyNotReady says what is wrong, without what only the log may hold.
func (s *Server) whyNotReady(err error) string {
	switch why := cannotWrite(err); {
	case why != "":
		return why + ": nothing can be stored"
	case errors.Is(err, shell.ErrStopped), errors.Is(err, store.ErrClosed):
		return "the engine is stopped"
	case errors.Is(err, shell.ErrReindexing):
		return "the lists of a database of an earlier version are being built"
	case errors.Is(err, store.ErrCorrupt) && errors.Is(s.logStats().Err, store.ErrCorrupt):
		if s.logStats().Fill < 1 { // what is damaged cannot be read either
			return "a part of the database file is damaged: " + salvageIt
		}
		return "a part of the database file is damaged, and the log is full: " + salvageIt
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the engine did not answer within %s", readyTimeout)
	}
	return "the database failed: the daemon's log says why"
}

// probe asks the loop, and reads from the store. It writes nothing: a probe that
// comes every second must not keep a full disk busy.
func (s *Server) probe(ctx context.Context) error {
	if err := s.engine.Health(ctx); err != nil {
		return err
	}
	return s.engine.Store().View(ctx, func(tx store.ReadTx) error {
		_, err := tx.Seq()
		return err
	})
}

// info shows a bound token its own tools, and no routes: those belong to
// tenants.
func (s *Server) info(w http.ResponseWriter, r *http.Request, c *call) error {
	out := wire.Info{
		Version: s.o.Version, Instance: s.engine.Instance(), Core: core.Version, TZDB: schedule.TZVersion,
		Tools: []string{}, Webhooks: []string{},
	}
	for _, t := range s.engine.Actions().Tools() {
		if in(c.token.Tools, t) {
			out.Tools = append(out.Tools, t)
		}
	}
	if c.token.unbound() {
		out.Webhooks = slices.AppendSeq(out.Webhooks, maps.Keys(s.hooks))
		slices.Sort(out.Webhooks)
	}
	return writeJSON(w, http.StatusOK, out)
}

// openapi.json is generated: its words stand in internal/openapi/api.yaml.
//
//go:generate go run ./internal/openapi/openapigen openapi.json

//go:embed openapi.json
var openAPIDocument []byte

// openAPI serves the description of this API (OpenAPI 3.1).
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request, _ *call) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(openAPIDocument)
	return nil
}
