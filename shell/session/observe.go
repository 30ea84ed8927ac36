package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
)

const (
	tailLines = 20
	tailBytes = 2 << 10
)

// Observation is what a look at a session came to.
type Observation struct {
	Session  string        `json:"session"`
	Found    bool          `json:"found"` // there is such a session, alive or ended
	Alive    bool          `json:"alive"`
	ExitCode *int          `json:"exit_code,omitempty"`
	Signal   string        `json:"signal,omitempty"`
	IdleFor  time.Duration `json:"idle_for"` // since its screen last changed, in nanoseconds
	Changed  bool          `json:"changed"`  // its screen changed since the last look; at the first look true
	Tail     string        `json:"tail"`     // the last lines of its screen, at most 20 and 2 KiB
}

// Clock is where time enters. shell.SystemClock is one.
type Clock interface {
	// Now gives the wall clock.
	Now() time.Time
	// Timer sends once after d on the channel, unless stop is called before.
	Timer(d time.Duration) (c <-chan time.Time, stop func())
}

// Observer looks at sessions again and again, and tells whether they get on: a
// program does as long as what its screen shows changes, be it by a line, a
// moved cursor, or a line pushed out. To write the same again is no progress.
// It is safe for concurrent use; what "the last look" was is then up to chance.
type Observer struct {
	sessions *Sessions
	clock    Clock

	mu   sync.Mutex
	seen map[string]sight
}

// sight is what the last look at a session showed.
type sight struct {
	pane    string // the backend's name: another one, another session
	created time.Time
	screen  uint64
	changed time.Time
}

// Observer makes an Observer. A nil clock means the machine's.
func (s *Sessions) Observer(clock Clock) *Observer {
	if clock == nil {
		clock = shell.SystemClock{}
	}
	return &Observer{sessions: s, clock: clock, seen: map[string]sight{}}
}

// Observe looks at the sessions of these names and gives what it saw, in the
// same order. What it has seen of other sessions is forgotten. An error is about
// the backend: a session that is missing is none.
func (o *Observer) Observe(ctx context.Context, names []string) ([]Observation, error) {
	panes, err := o.sessions.backend.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("observe the sessions: %w", err)
	}
	var wanted []*pane
	for _, name := range names {
		if p := panes[name]; p != nil {
			wanted = append(wanted, p)
		}
	}
	screens, err := o.sessions.backend.screens(ctx, wanted, false)
	if err != nil {
		return nil, fmt.Errorf("observe the sessions: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	seen := make(map[string]sight, len(wanted))
	all := make([]Observation, 0, len(names))
	for _, name := range names {
		p := screens[name]
		if p == nil {
			all = append(all, Observation{Session: name})
			continue
		}
		was, known := o.seen[name]
		is, changed := was.next(p, now, known)
		seen[name] = is
		all = append(all, Observation{
			Session: name, Found: true, Alive: p.Alive, ExitCode: p.ExitCode, Signal: p.Signal,
			IdleFor: max(0, now.Sub(is.changed)), Changed: changed, Tail: tail(p.text),
		})
	}
	o.seen = seen
	return all, nil
}

// next compares what is seen now with what was seen before, if anything was.
func (was sight) next(p *pane, now time.Time, known bool) (is sight, changed bool) {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %d %d %s", p.history, p.cursorX, p.cursorY, p.text) // never fails
	is = sight{pane: p.id, created: p.Created, screen: h.Sum64(), changed: was.changed}
	same := known && was.pane == is.pane && was.created.Equal(is.created)
	switch {
	case !same:
		// Somebody else may have looked before, such as the daemon before this one.
		// From here on the steady part of now counts, which no set clock moves.
		is.changed = now.Add(-max(0, now.Sub(p.LastActivity)))
		return is, true
	case was.screen != is.screen:
		is.changed = now
		return is, true
	default:
		return is, false
	}
}

// tail gives the end of a text.
func tail(text string) string {
	rows := strings.Split(text, "\n")
	return texts.Tail(strings.Join(rows[max(0, len(rows)-tailLines):], "\n"), tailBytes)
}

// WatchOptions says what is watched.
type WatchOptions struct {
	Every  time.Duration                        // between two looks; zero means 5 seconds
	Clock  Clock                                // nil means the machine's
	Names  func() []string                      // whom to look at, asked anew before each look
	Report func(context.Context, []Observation) // is told what each look came to; not called for no names
	Error  func(error)                          // is told of a look that failed; nil means nobody
}

// Watch looks at sessions again and again until ctx ends, and returns its cause.
// A look that fails does not end it.
func (s *Sessions) Watch(ctx context.Context, w WatchOptions) error {
	if w.Names == nil || w.Report == nil || w.Every < 0 {
		return errors.New("watch sessions: want Names and Report, and no negative Every")
	}
	if w.Clock == nil {
		w.Clock = shell.SystemClock{}
	}
	every := cmp.Or(w.Every, 5*time.Second)
	o := s.Observer(w.Clock)
	for {
		if names := w.Names(); len(names) > 0 {
			all, err := o.Observe(ctx, names)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err == nil:
				w.Report(ctx, all)
			case w.Error != nil:
				w.Error(err)
			}
		}
		c, stop := w.Clock.Timer(every)
		select {
		case <-c:
		case <-ctx.Done():
			stop()
			return context.Cause(ctx)
		}
	}
}
