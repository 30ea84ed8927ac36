package constraints

import (
	"context"
	"fmt"
	"sync"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/engine"
)

// Slots are what the checkers of several engines of one process have in common, so that together they carry out no more hooks of a tool at a time than
// [Options.Concurrency] says, which all of them have alike: as [shell.Slots] are for lanes. The zero value is good for use. It is safe for concurrent use.
type Slots struct {
	mu    sync.Mutex
	tools map[string]*slots
}

// of gives the slots of a tool; without Slots, some of its own.
func (s *Slots) of(tool string, limit int, share float64) *slots {
	if s == nil {
		return newSlots(limit, share)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools == nil {
		s.tools = make(map[string]*slots)
	}
	if s.tools[tool] == nil {
		s.tools[tool] = newSlots(limit, share)
	}
	return s.tools[tool]
}

// slots bound the hooks that one tool carries out at a time. One tenant may hold a part
// only of those that others leave, but always one, as with the slots of tools' runs
// ([shell.Limits]).
type slots struct {
	limit int
	share float64

	mu    sync.Mutex
	total int
	held  map[shell.Scope]int
	freed chan struct{} // closed when a slot is given back
}

func newSlots(limit int, share float64) *slots {
	return &slots{limit: limit, share: share, held: make(map[shell.Scope]int), freed: make(chan struct{})}
}

// take waits for a slot until ctx ends; release gives it back.
func (s *slots) take(ctx context.Context, of shell.Scope) (release func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	for {
		taken, freed := s.try(of)
		if taken {
			return func() { s.giveBack(of) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waited for one of the %d slots that its hooks have: %w", s.limit, context.Cause(ctx))
		}
	}
}

func (s *slots) try(of shell.Scope) (taken bool, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.held[of]; engine.MayTakeSlot(own, s.total-own, s.limit, s.share) {
		s.held[of]++
		s.total++
		return true, nil
	}
	return false, s.freed
}

func (s *slots) giveBack(of shell.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.held[of]--; s.held[of] == 0 {
		delete(s.held, of)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}
