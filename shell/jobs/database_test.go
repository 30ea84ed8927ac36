package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// marker is a runner that several databases share.
type marker struct {
	*runnertest.Fake
	mu      sync.Mutex
	told    []string
	places  []string
	foreign []jobs.Foreign
	lives   map[jobs.Attempt]bool
}

func (m *marker) UseDatabase(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, id)
}

func (m *marker) UsePlace(cluster string, partition, partitions int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.places = append(m.places, fmt.Sprintf("%d of %d of %s", partition, partitions, cluster))
}

func (m *marker) placed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.places)
}

func (m *marker) Foreign() ([]jobs.Foreign, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.foreign, "move one of the two"
}

func (m *marker) Lives(a jobs.Attempt) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lives[a]
}

func (m *marker) NameOf(jobID string, a jobs.Attempt) string {
	return fmt.Sprintf("pod-%s-%d", jobID, a.N)
}

func (m *marker) databases() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told)
}

func (m *marker) change(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
}

// marking has the rig's runner mark what it creates; another one wraps it.
func marking(m *marker) func(*rig) {
	return func(r *rig) {
		everyMinute(r)
		m.Fake, m.lives = r.fake, map[jobs.Attempt]bool{}
		r.o.Runners = map[string]jobs.Runner{"fake": wrapper{m}}
	}
}

type wrapper struct{ jobs.Runner }

func (w wrapper) Unwrap() jobs.Runner { return w.Runner }

func TestADatabaseHasOneIdentityForEver(t *testing.T) {
	m := &marker{}
	withRig(t, marking(m), func(t *testing.T, r *rig) {
		r.started(job("nightly"))
		r.restart()
		pass(time.Second)
		told := m.databases()
		require.Len(t, told, 2)
		assert.Regexp(t, "^[a-z2-7]{26}$", told[0])
		assert.Equal(t, told[0], told[1])

		var copied strings.Builder
		_, err := r.store.Backup(t.Context(), &copied)
		require.NoError(t, err)
		r.stop()
		st, err := memory.Restore(strings.NewReader(copied.String()), "another")
		require.NoError(t, err)
		require.NoError(t, r.store.Close())
		r.store = st
		r.start()
		pass(time.Second)
		assert.Equal(t, told[0], m.databases()[2], "a backup is the same database")

		r.stop()
		require.NoError(t, r.store.Close())
		r.store = memory.New()
		r.start()
		pass(time.Second)
		assert.NotEqual(t, told[0], m.databases()[3])
	})
}

func TestAPodOfAnotherDatabaseIsToldOfOnceAndInTheHealthOfItsRunner(t *testing.T) {
	m := &marker{}
	withRig(t, marking(m), func(t *testing.T, r *rig) {
		pass(time.Second)
		assert.Equal(t, jobs.HealthWorks, r.s.Health()["fake"].Status)
		m.change(func() {
			m.foreign = []jobs.Foreign{{Name: "theirs-0", Database: "abc"}, {Name: "theirs-1", Database: "abc"}}
		})
		pass(5 * time.Minute)
		assert.Equal(t, 1, strings.Count(r.log.String(), `a pod is of another database: leaving it alone" runner=fake pod=theirs-0 database=abc own=`+m.databases()[0]))
		assert.Equal(t, 1, strings.Count(r.log.String(), "pod=theirs-1"))
		h := r.s.Health()["fake"]
		assert.Equal(t, jobs.HealthDegraded, h.Status)
		assert.Equal(t, "another database has pods here, which are left alone: 2 pods, such as theirs-0 of database abc (this one is "+
			m.databases()[0]+"): move one of the two, and delete its pods if it is gone", h.Error)
		assert.Equal(t, "another database has pods here", h.Brief)
		assert.False(t, h.Since.IsZero())
		m.change(func() { m.foreign = nil })
		assert.Equal(t, jobs.HealthWorks, r.s.Health()["fake"].Status)
	})
}

func TestTheLogNamesABoundedNumberOfPodsOfAnotherDatabase(t *testing.T) {
	m := &marker{}
	withRig(t, marking(m), func(t *testing.T, r *rig) {
		m.change(func() {
			for n := range 1000 {
				m.foreign = append(m.foreign, jobs.Foreign{Name: fmt.Sprint("theirs-", n), Database: "abc"})
			}
		})
		pass(5 * time.Minute)
		assert.Equal(t, 256, strings.Count(r.log.String(), "a pod is of another database"))
		assert.Contains(t, r.s.Health()["fake"].Error, "1000 pods")
	})
}

// An old backup of the database knows nothing of what began after it.
func TestAPodThatRunsOfARunThatTheDatabaseDoesNotKnowAnyMoreIsLeftAloneUntilItEnds(t *testing.T) {
	m := &marker{}
	lost, old := jobs.Attempt{Run: uuid.Max}, jobs.Attempt{Run: uuid.UUID{1}}
	withRig(t, marking(m), func(t *testing.T, r *rig) {
		m.change(func() { m.lives[lost] = true })
		r.fake.Plant(lost)
		r.fake.Plant(old) // of a build before: it has no mark
		pass(5 * time.Minute)
		assert.Equal(t, []jobs.Attempt{lost}, r.fake.Attempts())
		assert.Equal(t, 1, strings.Count(r.log.String(), "a run that this database does not know any more: leaving it alone until it ends"))
		assert.Contains(t, r.log.String(), `a pod belongs to no run: deleting it" runner=fake pod=pod--0`)
		h := r.s.Health()["fake"]
		assert.Equal(t, jobs.HealthDegraded, h.Status)
		assert.Contains(t, h.Error, "1 pod, such as pod--0: they are deleted once they have ended")
		m.change(func() { delete(m.lives, lost) })
		pass(2 * time.Minute)
		assert.Empty(t, r.fake.Attempts())
		assert.Equal(t, jobs.HealthWorks, r.s.Health()["fake"].Status)
	})
}

// A run that is known has the last word about its pods, however they are marked.
func TestAMarkedPodOfARunThatHasEndedIsDeleted(t *testing.T) {
	m := &marker{}
	withRig(t, marking(m), func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		r.fake.End(a, 0, "")
		r.ended(o)
		pass(time.Minute)
		require.Empty(t, r.fake.Attempts())
		m.change(func() { m.lives[a] = true })
		r.fake.Plant(a)
		pass(3 * time.Minute)
		assert.Empty(t, r.fake.Attempts())
	})
}

func TestAPodThatIsLostIsNamedAsTheClusterNamesIt(t *testing.T) {
	m := &marker{}
	withRig(t, marking(m), func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		r.fake.Vanish(a)
		r.ended(o)
		assert.Contains(t, r.log.String(), `msg="a run has lost its pod" why="the pod is gone, and nobody saw it end" runner=fake pod=pod-nightly-0`)
	})
}

// odd is a store that cannot be written for a while, or whose identity is damaged.
type odd struct {
	store.Store
	fails   int
	damaged bool
}

func (o *odd) Update(ctx context.Context, fn func(store.Tx) error) error {
	return o.Store.Update(ctx, func(tx store.Tx) error { return fn(oddTx{tx, o}) })
}

func (o *odd) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return o.Store.View(ctx, func(tx store.ReadTx) error { return fn(oddReadTx{tx, o}) })
}

type oddTx struct {
	store.Tx
	o *odd
}

func (t oddTx) SetMeta(name string, value []byte) error {
	if name == "jobs/database" && t.o.fails > 0 {
		t.o.fails--
		return errors.New("no space left on device")
	}
	return t.Tx.SetMeta(name, value)
}

type oddReadTx struct {
	store.ReadTx
	o *odd
}

func (t oddReadTx) Meta(name string) ([]byte, error) {
	if name == "jobs/database" && t.o.damaged {
		return []byte("???"), nil
	}
	return t.ReadTx.Meta(name)
}

func TestNothingIsCreatedBeforeItIsKnownWhichDatabaseThisIs(t *testing.T) {
	m, st := &marker{}, &odd{fails: 3}
	withRig(t, func(r *rig) {
		marking(m)(r)
		st.Store, r.store = r.store, st
	}, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		pass(time.Second / 2)
		assert.Empty(t, m.databases())
		assert.Empty(t, r.fake.Attempts())
		r.created(o, 0)
		assert.Len(t, m.databases(), 1)
		assert.Contains(t, r.log.String(), "could not find out which database this is; no pod is created until then")
	})
}

func TestADatabaseWithADamagedIdentityRunsJobsAndDeletesNoPodOfAnUnknownRun(t *testing.T) {
	m, st := &marker{}, &odd{damaged: true}
	withRig(t, func(r *rig) {
		marking(m)(r)
		st.Store, r.store = r.store, st
	}, func(t *testing.T, r *rig) {
		r.started(job("nightly"))
		r.fake.Plant(jobs.Attempt{Run: uuid.Max})
		pass(5 * time.Minute)
		assert.Len(t, r.fake.Attempts(), 2)
		assert.Empty(t, m.databases())
		assert.Contains(t, r.log.String(), "it is not known which database this is")
	})
}
