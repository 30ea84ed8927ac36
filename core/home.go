package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// What stands on the disk of one process's computer, such as a terminal session, has a home: the
// name of the instance that carried out the effect which made it. Whoever carries the effect out
// says so in its result, as "home"; an engine that has its database for itself says nothing.

// homeRules are the first by which machines note homes.
const homeRules = 16

// MaxWorktrees bounds the worktrees of which a pipeline knows the home. With one more the oldest
// is forgotten.
const MaxWorktrees = 100

// HomeLost says that another instance works on the partition of the machine now, so that what has its home
// with that one is out of reach: a task's session, a pipeline's worktrees.
type HomeLost struct {
	Home string `json:"home"`
}

// EventType gives the discriminator in the journal.
func (HomeLost) EventType() string { return "home_lost" }

func (e HomeLost) stored() Event { return HomeLost{validText(e.Home)} }

func (HomeLost) taskEvent()     {}
func (HomeLost) pipelineEvent() {}

// homeIn gives the home that the result of an effect tells of; empty: none.
func homeIn(result json.RawMessage, c Clock) string {
	var r struct {
		Home string `json:"home"`
	}
	if c.Rules.before(homeRules) || json.Unmarshal(storedResult(result), &r) != nil {
		return ""
	}
	return texts.Bound(r.Home, MaxNameBytes)
}

// Homes gives the homes of what a task or a pipeline has; nil for all other machines.
func Homes(s State) []string {
	switch s := s.(type) {
	case Task:
		if s.Home != "" {
			return []string{s.Home}
		}
	case Pipeline:
		homes := make([]string, 0, len(s.Worktrees))
		for _, w := range s.Worktrees {
			homes = append(homes, w.Home)
		}
		return homes
	}
	return nil
}

// losesHome reports whether the session of the task has that home, and the task has not been told
// before that it is lost, and refuses the event otherwise.
func (t *taskTransition) losesHome(e HomeLost) bool {
	switch {
	case t.Home == "" || e.Home != t.Home:
		t.refuse(effects.CodeConflict, "home: %q is not the home of the session of task %s, %q", clip(e.Home), t.ID, t.Home)
	case t.State.Reason.Home == t.Home:
		t.refuse(effects.CodeConflict, "home: task %s knows that its session is lost with its home, %q", t.ID, t.Home)
	default:
		return true
	}
	return false
}

// homeLost: running → stuck, to be restarted at once. A task that is stuck is so for this reason from here on.
func (t *taskTransition) homeLost() {
	t.UpdatedAt = t.clock.Now
	reason := StuckReason{Type: StuckSessionDead, Home: t.Home}
	if t.State.Type == TaskRunning {
		t.becomeStuck(reason)
	}
	t.State.Reason, t.RecoverAt = reason, t.clock.Now
}

// Worktree is one that a pipeline has made, and that stands on the disk of one instance's computer.
type Worktree struct {
	Repo string `json:"repo"`
	Path string `json:"path"`
	Home string `json:"home"` // the name of the instance
}

// noteWorktree notes that a worktree was made or removed.
func (t *pipelineTransition) noteWorktree(of effects.Outer, result json.RawMessage) {
	made := Worktree{}
	switch of := of.(type) {
	case effects.WorktreeAdd:
		made = Worktree{Repo: of.Repo, Path: of.Path, Home: homeIn(result, t.clock)}
	case effects.WorktreeRemove:
		made = Worktree{Repo: of.Repo, Path: of.Path}
	default:
		return
	}
	rest := slices.DeleteFunc(slices.Clone(t.Worktrees), func(w Worktree) bool { return w.Repo == made.Repo && w.Path == made.Path })
	if made.Home != "" {
		rest = appendLast(rest, MaxWorktrees, made)
	}
	t.Worktrees = nilIfEmpty(rest, len(rest))
}

// homeLost: the running phase fails if a worktree had that home. While the pipeline cleans up it goes on: what is gone need
// not be removed.
func (t *pipelineTransition) homeLost(e HomeLost) outcome {
	if t.Phase.Type != PhaseRunning {
		return t.conflict("no phase runs that could lose a worktree")
	}
	lost := t.loseWorktrees(e.Home)
	switch {
	case lost == "":
		return t.conflict("no worktree of it has the home %q", clip(e.Home))
	case t.Failing != nil:
		return outcome{waits: true}
	}
	return outcome{err: lost, final: true}
}

// loseWorktrees forgets the worktrees with that home, and says so in words; empty: there are none.
func (t *pipelineTransition) loseWorktrees(home string) string {
	i := slices.IndexFunc(t.Worktrees, func(w Worktree) bool { return w.Home == home })
	if i < 0 {
		return ""
	}
	first, before := t.Worktrees[i], len(t.Worktrees)
	rest := slices.DeleteFunc(slices.Clone(t.Worktrees), func(w Worktree) bool { return w.Home == home })
	t.Worktrees = nilIfEmpty(rest, len(rest))
	others := ""
	if n := before - len(rest) - 1; n > 0 {
		others = fmt.Sprintf(", and %d more,", n)
	}
	return fmt.Sprintf("worktree %s%s is out of reach: its home is the instance %q, and another one works on the pipeline now", clip(first.Path), others, home)
}
