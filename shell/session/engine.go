package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/shell"
)

// ForEngine gives what shell.Options.Sessions wants: each look tells of the
// sessions that the engine's tasks have.
func (o *Observer) ForEngine() shell.SessionObserver { return engineObserver{o} }

type engineObserver struct{ observer *Observer }

// Capture implements [shell.SessionCapturer].
func (e engineObserver) Capture(ctx context.Context, session string) (shell.SessionScreen, error) {
	s, err := e.observer.sessions.CaptureColoured(ctx, session)
	if errors.Is(err, ErrNotFound) {
		return shell.SessionScreen{}, fmt.Errorf("capture session %q: %w", session, shell.ErrNotFound)
	}
	return shell.SessionScreen{Text: s.Text, Rows: s.Rows, Columns: s.Columns, CursorRow: s.CursorRow, CursorColumn: s.CursorColumn, Title: s.Title}, err
}

// Observe implements [shell.SessionObserver].
func (e engineObserver) Observe(ctx context.Context, sessions []string) ([]shell.SessionObservation, error) {
	seen, err := e.observer.Observe(ctx, sessions)
	out := make([]shell.SessionObservation, 0, len(seen))
	for _, s := range seen {
		out = append(out, shell.SessionObservation{
			Session: s.Session, Alive: s.Alive, ExitCode: s.ExitCode, Signal: s.Signal,
			IdleFor: s.IdleFor, Changed: s.Changed, Tail: s.Tail,
		})
	}
	return out, err
}
