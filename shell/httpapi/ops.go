package httpapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

type health struct {
	Status string `json:"status"`
}

// healthz says that the process serves requests.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request, _ *call) error {
	return writeJSON(w, http.StatusOK, health{Status: "ok"})
}

// readyTimeout is how long the engine may take to answer.
const readyTimeout = 5 * time.Second

// readyz says whether the engine takes requests: one goes through its loop and
// a transaction of the store.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request, _ *call) error {
	if s.o.Ready != nil {
		if err := s.o.Ready(); err != nil {
			return &failure{status: http.StatusServiceUnavailable, text: "not ready: " + oneLine(err.Error()), cause: err}
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	switch err := s.probe(ctx); {
	case err == nil:
		return writeJSON(w, http.StatusOK, health{Status: "ready"})
	case errors.Is(err, shell.ErrStopped):
		return &failure{status: http.StatusServiceUnavailable, text: "not ready: the engine is stopped", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{status: http.StatusServiceUnavailable, text: fmt.Sprintf("not ready: the engine did not answer within %s", readyTimeout), cause: err}
	default:
		return &failure{status: http.StatusServiceUnavailable, text: "not ready: the store does not answer", cause: err}
	}
}

// probe sends the loop an event that no machine takes: that of an action that
// cannot exist. The refusal shows that the loop turns.
func (s *Server) probe(ctx context.Context) error {
	_, err := s.engine.Send(ctx, effects.Ref{Kind: core.KindAction, ID: probeID}, core.ActionTrigger{})
	if _, ok := errors.AsType[*shell.Refusal](err); ok {
		return nil
	}
	return err
}

// probeID names nothing, and nothing can be created under it.
var probeID = uuid.NewSHA1(uuid.NameSpaceURL, []byte("orrery:readiness-probe"))

// info says what runs here.
type info struct {
	Version  string   `json:"version"`
	Instance string   `json:"instance"`
	Tools    []string `json:"tools"`
	Webhooks []string `json:"webhooks"`
	Core     string   `json:"core"`
	TZDB     string   `json:"tzdb"`
}

// info shows a bound token its own tools, and no routes: those belong to
// tenants.
func (s *Server) info(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	out := info{
		Version: s.o.Version, Instance: s.engine.Instance(), Core: core.Version, TZDB: schedule.TZVersion,
		Tools: []string{}, Webhooks: []string{},
	}
	for _, t := range s.engine.Tools() {
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

// streamBackup sends a consistent copy of the live database. One runs at a
// time, since each holds back the reuse of the space that is freed meanwhile.
func (s *Server) streamBackup(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	select {
	case <-s.backup:
		defer func() { s.backup <- struct{}{} }()
	default:
		return failf(http.StatusTooManyRequests, "a backup is running: try again when it has ended").with("Retry-After", "60")
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="orrery-backup.db"`)
	if r.Method == http.MethodHead {
		return nil
	}
	// The copy takes as long as it takes.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("lift the time limit of a backup: %w", err)
	}
	n, err := s.engine.Store().Backup(r.Context(), w)
	if err != nil {
		h.Del("Content-Disposition")
		return fmt.Errorf("backup: %w", err)
	}
	s.log.Info("backup sent", "request_id", c.id, "actor", c.actor, "bytes", n)
	return nil
}

//go:embed openapi.json
var openAPIDocument []byte

// openAPI serves the description of this API (OpenAPI 3.1).
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request, _ *call) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(openAPIDocument)
	return nil
}
