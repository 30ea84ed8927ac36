package git

import (
	"os"
	"time"
)

// OnStep calls f at the steps of an operation.
func OnStep(g *Git, f func(step string)) { g.step = f }

// CheckBranch is the check of a branch's name.
func CheckBranch(name string) error { return checkBranch("branch", name) }

// Resolve is the check of a path.
func Resolve(g *Git, path string) (string, error) { return g.resolve("path", path) }

// Pretend makes a Git behave as with version 2.minor.
func Pretend(g *Git, minor int) { g.minor = minor }

// NoteAdd says that a worktree is being made at a path.
func NoteAdd(gitDir, path string) {
	r := &repo{git: gitDir}
	if err := os.WriteFile(r.noteOfAdd(path), nil, 0o600); err != nil {
		panic(err)
	}
}

// SeesAll makes a Git believe that it sees all processes of the system, or not.
func SeesAll(g *Git, all bool) { g.seesAll = func() bool { return all } }

// Lockable reports whether a command of ours could make a lock file.
func Lockable(path string) bool { return lockable(path) }

// Grace sets how long a git that is told to end has for it.
func Grace(g *Git, d time.Duration) { g.grace = d }

// Settle sets how long a lock file must have been there before it is taken as left.
func Settle(g *Git, d time.Duration) { g.unchanged = d }
