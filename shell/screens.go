package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Bounds of captures, each of which may start a program.
const (
	screenFresh    = time.Second     // a screen is captured no oftener: many viewers see the same
	maxScreens     = 4               // captures under way
	captureTimeout = 5 * time.Second // of one
)

// TaskScreen is what the session of a task shows.
type TaskScreen struct {
	Session string
	// Live says that the screen was captured at At; else it is the end of what the last heartbeat has told, which was at At, and
	// Why says why it was not captured.
	Live   bool
	At     effects.Time
	Why    string
	Screen SessionScreen
}

// screens are the captures of the last moments.
type screens struct {
	mu   sync.Mutex
	of   map[uuid.UUID]*capture
	busy chan struct{}
}

// capture is a look at the session of a task.
type capture struct {
	session string
	begun   time.Time     // by the steady clock
	done    chan struct{} // closed once screen, at and err stand
	screen  SessionScreen
	at      effects.Time
	err     error
}

// TaskScreen gives what the session of a task shows now, if [Options.Sessions] is a [SessionCapturer] and the task has one on this
// machine, and else what the last heartbeat has told of it. The loop has no part in it. Its text has at most
// [core.MaxScreenBytes].
func (e *Engine) TaskScreen(ctx context.Context, id uuid.UUID) (TaskScreen, error) {
	t, err := e.Tasks().Get(ctx, id)
	if err != nil {
		return TaskScreen{}, err
	}
	out := TaskScreen{Session: t.SessionID, At: t.LastHeartbeat, Screen: SessionScreen{Text: t.Screen}}
	capturer, ok := e.o.Sessions.(SessionCapturer)
	switch {
	case len(t.Command) == 0:
		out.Why = "the task has no session"
	case t.State.Type == core.TaskDone:
		out.Why = "the task has ended, and its session with it"
	case e.o.isElsewhere(t.Home):
		out.Why = fmt.Sprintf("the session is out of reach: its home is the instance %q", t.Home)
	case !ok:
		out.Why = "sessions are not shown by this daemon"
	case !watched(t):
		out.Why = "the session is being started or ended"
	default:
		c, err := e.captured(ctx, capturer, t)
		switch {
		case err != nil:
			return TaskScreen{}, err
		case errors.Is(c.err, ErrNotFound):
			out.Why = "there is no such session on this machine"
		case c.err != nil:
			out.Why = "the session could not be captured: the daemon's log says why"
		default:
			out.Live, out.At, out.Screen = true, c.at, c.screen
		}
	}
	return out, nil
}

// captured gives a capture of a task's session that is fresh, and makes it unless somebody else does.
func (e *Engine) captured(ctx context.Context, from SessionCapturer, t core.Task) (*capture, error) {
	c, mine := e.screens.enter(t, e.o.Clock.Steady())
	if mine {
		e.capture(ctx, from, c)
	}
	select {
	case <-c.done:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enter finds a capture that is fresh or under way, or makes one that is the caller's to fill. What is old is forgotten.
func (s *screens) enter(t core.Task, now time.Time) (c *capture, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of, s.busy = make(map[uuid.UUID]*capture), make(chan struct{}, maxScreens)
	}
	for id, c := range s.of {
		if now.Sub(c.begun) >= screenFresh && c.ended() {
			delete(s.of, id)
		}
	}
	if c := s.of[t.ID]; c != nil && c.session == t.SessionID {
		return c, false
	}
	c = &capture{session: t.SessionID, begun: now, done: make(chan struct{})}
	s.of[t.ID] = c
	return c, true
}

func (c *capture) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// capture fills a capture, also if who asked for it first goes away: others may wait for it.
func (e *Engine) capture(ctx context.Context, from SessionCapturer, c *capture) {
	defer close(c.done)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), captureTimeout)
	defer cancel()
	select {
	case e.screens.busy <- struct{}{}:
		defer func() { <-e.screens.busy }()
	case <-ctx.Done():
		c.err = fmt.Errorf("capture session %q: %d captures are under way: %w", c.session, maxScreens, ctx.Err())
		return
	}
	c.screen, c.err = from.Capture(ctx, c.session)
	c.screen.Text, c.screen.Title = shownRows(c.screen.Text), texts.Bound(c.screen.Title, core.MaxNameBytes)
	c.at = e.now()
	if c.err != nil && !errors.Is(c.err, ErrNotFound) {
		e.log.Warn("a session could not be captured", "session", c.session, "error", c.err)
	}
}

// shownRows gives a screen as text that may be shown: control characters go but for ends of lines, tabs and escape sequences, and
// so do whole rows at its beginning, for which there is no room.
func shownRows(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' && r != '\x1b' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	for len(text) > core.MaxScreenBytes {
		_, rest, more := strings.Cut(text, "\n")
		if !more {
			return texts.Tail(text, core.MaxScreenBytes)
		}
		text = rest
	}
	return text
}
