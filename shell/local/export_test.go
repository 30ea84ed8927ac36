//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"fmt"
	"os"
)

// All these tests are those of a program that prints something before main, and
// before it is turned into a supervisor.
var _ = hello()

func hello() bool {
	if os.Args[0] == launcherName || os.Args[0] == supervisorName {
		fmt.Println("a package of the program says hello")
	}
	return true
}

// PollOnly makes the runner look at its pods every now and then, as it does where
// the system does not tell.
func (r *Runner) PollOnly() { r.poll = true }

// AtStep calls fn at each step of Create and Delete.
func (r *Runner) AtStep(fn func(step string)) { r.step = fn }

// Path is the directory of the runner, as its processes see it.
func (r *Runner) Path() string { return r.dir }

// Marked gives the processes that carry the mark of a pod, or belong to one that does.
func Marked(dir string) []int { return markedIDs(dir) }
