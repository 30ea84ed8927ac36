package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// Marker is implemented by a [Runner] that marks what it creates with the database that it is of.
// Two databases may come to share what a runner runs pods in, by a copied configuration, a lost
// volume or a backup: neither may take the pods of the other for strays.
type Marker interface {
	// UseDatabase says which database the runs are of: a text that could be the value of a
	// Kubernetes label. It is called before Watch and Create. From then on the runner marks what
	// it creates, and what has the mark of another database it neither holds, observes nor
	// deletes. What has no mark is its own: builds before made it.
	UseDatabase(id string)
	// Foreign lists what has another database's mark and would be this runner's otherwise, by
	// name, and tells an operator how to mend that: "give one of the two …". It costs no call of the API.
	Foreign() (there []Foreign, remedy string)
	// Lives reports whether an attempt has the mark of the runner's own database and has not
	// ended. It costs no call of the API.
	Lives(a Attempt) bool
}

// Foreign is what a [Runner] has found of another database.
type Foreign struct{ Name, Database string }

// Namer is implemented by a [Runner] that calls attempts otherwise than [Attempt.Name] does.
type Namer interface {
	// NameOf is what the attempt of a job is called. An empty jobID says that the job is not
	// known. It costs no call of the API.
	NameOf(jobID string, a Attempt) string
}

// as gives what a runner, or one that it wraps and names by a method Unwrap, has besides.
func as[T any](r Runner) (T, bool) {
	for {
		if v, ok := r.(T); ok {
			return v, true
		}
		w, ok := r.(interface{ Unwrap() Runner })
		if !ok {
			return *new(T), false
		}
		r = w.Unwrap()
	}
}

// nameOf is what the runner calls an attempt.
func (s *Service) nameOf(runner, jobID string, a Attempt) string {
	if n, ok := as[Namer](s.o.Runners[runner]); ok {
		return n.NameOf(jobID, a)
	}
	return a.Name()
}

// databaseMeta is where the store keeps the identity of the database. A copy of the database has
// it too.
const databaseMeta = "jobs/database"

// readDatabase reads the identity of the database; empty: it has none.
func readDatabase(tx store.ReadTx) (id string, err error) {
	b, err := tx.Meta(databaseMeta)
	if err != nil || b == nil {
		return "", err
	}
	if len(b) != len(newDatabase()) || strings.Trim(string(b), "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", fmt.Errorf("%w: %s is %q, which is no identity of a database", store.ErrCorrupt, databaseMeta, b)
	}
	return string(b), nil
}

// databaseOf reads the identity of the database, or gives it one.
func databaseOf(ctx context.Context, st store.Store) (id string, err error) {
	read := func(tx store.ReadTx) (err error) {
		id, err = readDatabase(tx)
		return err
	}
	if err := st.View(ctx, read); err != nil || id != "" {
		return id, err
	}
	made := newDatabase()
	err = st.Update(ctx, func(tx store.Tx) error {
		if err := read(tx); err != nil || id != "" { // another process may have been quicker
			return err
		}
		return tx.SetMeta(databaseMeta, []byte(made))
	})
	if id == "" {
		id = made
	}
	return id, err
}

func newDatabase() string { return strings.ToLower(rand.Text()) }

// identify finds out which database this is, and tells the runners, before anything is created or
// looked at; false: ctx has ended. If the identity is damaged nothing is marked, and no pod of an
// unknown run is deleted.
func (s *Service) identify(ctx context.Context, st store.Store) bool {
	for wait := (backoff{}); ; {
		id, err := databaseOf(ctx, st)
		if err == nil {
			s.database = id
			for name := range s.o.Runners { // order-free: each is told the same
				if m, ok := as[Marker](s.o.Runners[name]); ok {
					m.UseDatabase(id)
				}
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if errors.Is(err, store.ErrCorrupt) {
			s.log.Error("it is not known which database this is: pods that belong to no run are left alone", "error", err)
			return true
		}
		s.log.Error("could not find out which database this is; no pod is created until then", "error", err)
		if !s.pause(ctx, wait.next()) {
			return false
		}
	}
}

// maxWarned bounds how many pods of a runner the log warns of by name. Health tells how many
// there are.
const maxWarned = 256

// strangers are pods of a runner that are not this database's, or belong to none of its runs.
type strangers struct {
	mu sync.Mutex
	by map[string]*strangersOf
}

type strangersOf struct {
	warned map[string]bool
	spared []string  // that belong to no run, and are left alone
	since  time.Time // zero: there are none
}

func (s *strangers) of(runner string) *strangersOf {
	if s.by == nil {
		s.by = make(map[string]*strangersOf)
	}
	of := s.by[runner]
	if of == nil {
		of = &strangersOf{warned: make(map[string]bool)}
		s.by[runner] = of
	}
	return of
}

// firstSeen notes what is there now, and gives what was not there before, up to maxWarned.
func (s *strangersOf) firstSeen(names []string) (fresh []string) {
	for name := range s.warned { // order-free: it deletes from it
		if !slices.Contains(names, name) {
			delete(s.warned, name)
		}
	}
	for _, name := range names {
		if !s.warned[name] && len(s.warned) < maxWarned {
			s.warned[name] = true
			fresh = append(fresh, name)
		}
	}
	return fresh
}

// noteStrangers warns once of each pod that another database has made, and of each that this one
// has made for a run that it does not know.
func (s *Service) noteStrangers(ctx context.Context, name string, r Runner, held []Attempt, known map[Attempt]bool) {
	m, ok := as[Marker](r)
	if !ok {
		return
	}
	foreign, remedy := m.Foreign()
	databases := make(map[string]string, len(foreign))
	var names, spared []string
	for _, f := range foreign {
		databases[f.Name] = f.Database
		names = append(names, f.Name)
	}
	for _, a := range held {
		if known[a] || !m.Lives(a) {
			continue
		}
		if _, err := s.e.Runs().Get(ctx, a.Run); errors.Is(err, shell.ErrNotFound) {
			spared = append(spared, s.nameOf(name, "", a))
		}
	}
	s.strangers.mu.Lock()
	of := s.strangers.of(name)
	of.spared = spared
	fresh := of.firstSeen(append(names, spared...))
	s.strangers.mu.Unlock()
	for _, pod := range fresh {
		if database, is := databases[pod]; is {
			s.log.Warn("a pod is of another database: leaving it alone", "runner", name, "pod", pod, "database", database, "own", s.database, "remedy", remedy)
		} else {
			s.log.Warn("a pod that runs is of a run that this database does not know any more: leaving it alone until it ends", "runner", name, "pod", pod)
		}
	}
}

// spares reports whether a pod whose run the database does not know is left alone: the database
// has made it, so it is an earlier state of itself, and somebody may need what the pod does.
func (s *Service) spares(name string, a Attempt) bool {
	m, ok := as[Marker](s.o.Runners[name])
	return ok && (s.database == "" || m.Lives(a))
}

// withStrangers says of a runner that works whether there are pods that it leaves alone.
func (s *Service) withStrangers(name string, h Health) Health {
	m, ok := as[Marker](s.o.Runners[name])
	if !ok {
		return h
	}
	foreign, remedy := m.Foreign()
	s.strangers.mu.Lock()
	defer s.strangers.mu.Unlock()
	of := s.strangers.of(name)
	if len(foreign) == 0 && len(of.spared) == 0 {
		of.since = time.Time{}
		return h
	}
	if of.since.IsZero() {
		of.since = s.o.Clock.Now()
	}
	if h.Status != HealthWorks {
		return h
	}
	h.Status, h.Since = HealthDegraded, of.since
	if len(foreign) > 0 {
		h.Brief = "another database has pods here"
		h.Error = fmt.Sprintf("another database has pods here, which are left alone: %s, such as %s of database %s (this one is %s): %s, and delete its pods if it is gone",
			count(len(foreign)), foreign[0].Name, foreign[0].Database, s.database, remedy)
		return h
	}
	h.Brief = "there are pods of runs that the database does not know any more"
	h.Error = fmt.Sprintf("there are pods of runs that the database, an earlier state of itself, does not know any more: %s, such as %s: they are deleted once they have ended; delete them if nobody needs them",
		count(len(of.spared)), of.spared[0])
	return h
}

func count(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}
