package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

var descPaused = desc("orrery_paused", "1 while the engine is paused, since it was started so; else 0.")

// collectPaused tells whether the engine is paused.
func (s *Server) collectPaused(_ context.Context, ch samples) {
	paused := 0.0
	if _, is := s.PausedSince(); is {
		paused = 1
	}
	ch.gauge(descPaused, paused)
}

// PausedSince gives since when the engine is paused, see shell.Options.StartPaused; false: it is not.
// Of several partitions it is the first of those of this process that was.
func (s *Server) PausedSince() (since time.Time, paused bool) {
	if s.locals == nil {
		return s.engine.PausedSince()
	}
	for _, of := range s.locals() {
		if at, is := of.PausedSince(); is && (!paused || at.Before(since)) {
			since, paused = at, true
		}
	}
	return since, paused
}

// pausedSince is PausedSince as answers have it; zero: it is not paused.
func (s *Server) pausedSince() effects.Time {
	if since, paused := s.PausedSince(); paused {
		return effects.TimeOf(since)
	}
	return 0
}

// resumeSystem has an engine that was started paused go on.
func (s *Server) resumeSystem(w http.ResponseWriter, r *http.Request, _ *call) error {
	resumed, err := s.engine.Resume(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Resumed{Resumed: resumed})
}
