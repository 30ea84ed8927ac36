//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/orrery-go/orrery/shell/jobs"
)

// remedy tells an operator how two databases come apart that have the same directory.
const remedy = "give one of the two daemons another dir"

// owners says which databases pods are of. A pod's never changes, so its plan is read once.
type owners struct {
	mu       sync.Mutex
	database string                  // the runner's; empty: nobody has said
	of       map[jobs.Attempt]string // of pods that are there
}

func (o *owners) own() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.database
}

// isForeign reports whether that is another database than the runner's. Builds before named none.
func (o *owners) isForeign(database string) bool {
	own := o.own()
	return own != "" && database != "" && database != own
}

// UseDatabase notes the identity of a database in each pod's plan, and has the runner leave alone
// what has another one: see [jobs.Marker].
func (r *Runner) UseDatabase(id string) {
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	r.owners.database = id
}

// ownerOf is the database that a pod is of; empty if its plan names none or cannot be read.
func (r *Runner) ownerOf(a jobs.Attempt) string {
	o := &r.owners
	o.mu.Lock()
	known, is := o.of[a]
	o.mu.Unlock()
	if is {
		return known
	}
	p, err := readPlan(r.path(a))
	if err != nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[jobs.Attempt]string{}
	}
	o.of[a] = p.Database
	return p.Database
}

func (r *Runner) isForeign(a jobs.Attempt) bool {
	return r.owners.own() != "" && r.owners.isForeign(r.ownerOf(a))
}

// owned gives those of all pods that are there which are not another database's.
func (r *Runner) owned(all []jobs.Attempt) []jobs.Attempt {
	if r.owners.own() == "" {
		return all
	}
	o := &r.owners
	o.mu.Lock()
	if len(o.of) > 2*len(all)+64 { // most of them are gone
		clear(o.of)
	}
	o.mu.Unlock()
	return slices.DeleteFunc(all, r.isForeign)
}

// Foreign lists the pods of other databases: see [jobs.Marker].
func (r *Runner) Foreign() (there []jobs.Foreign, _ string) {
	all, err := r.listAll()
	if err != nil {
		return nil, remedy
	}
	for _, a := range all {
		if r.isForeign(a) {
			there = append(there, jobs.Foreign{Name: filepath.Join(r.dir, a.Name()), Database: r.ownerOf(a)})
		}
	}
	return there, remedy
}

// Lives reports whether a pod is of the runner's database and its supervisor lives: see [jobs.Marker].
func (r *Runner) Lives(a jobs.Attempt) bool {
	own := r.owners.own()
	if own == "" || r.ownerOf(a) != own {
		return false
	}
	_, started, alive, err := readProgress(r.path(a))
	return err == nil && started && alive
}
