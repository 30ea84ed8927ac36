package jobs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store/memory"
)

// withTwo runs a test with two services that share the room of their runners: so many pods.
func withTwo(t *testing.T, limit int, test func(t *testing.T, one, two *rig)) {
	t.Helper()
	var rooms jobs.Rooms
	shared := func(r *rig) {
		roomFor(limit, 0)(r)
		r.o.Rooms = &rooms
	}
	withRig(t, shared, func(t *testing.T, one *rig) {
		two := &rig{t: t, store: memory.New(), fake: &runnertest.Fake{}, logs: &memLogs{m: make(map[jobs.Attempt][]byte)}}
		two.o.Runners = map[string]jobs.Runner{"fake": two.fake}
		shared(two)
		two.start()
		defer func() {
			two.stop()
			require.NoError(t, two.store.Close())
		}()
		pass(time.Second)
		test(t, one, two)
	})
}

func TestServicesThatShareRoomsHaveNoMorePodsTogetherThanOneMayHave(t *testing.T) {
	withTwo(t, 2, func(t *testing.T, one, two *rig) {
		ones := one.jobsOf("a", 1)
		twos := two.jobsOf("b", 3)
		assert.Equal(t, jobs.Pods{Max: 2, Living: 1}, one.pods())
		assert.Equal(t, jobs.Pods{Max: 2, Living: 1, Waiting: 2}, two.pods())
		one.fake.Start(jobs.Attempt{Run: ones[0].ID})
		one.fake.End(jobs.Attempt{Run: ones[0].ID}, 0, "")
		synctest.Wait()
		assert.Equal(t, jobs.Pods{Max: 2}, one.pods())
		assert.Equal(t, jobs.Pods{Max: 2, Living: 2, Waiting: 1}, two.pods(), "what the one gives back the other one takes")
		assert.Equal(t, 2, two.living(twos))
	})
}

func TestAPlaceOfSeveralServicesGoesToTheTenantThatHasTheFewest(t *testing.T) {
	withTwo(t, 3, func(t *testing.T, one, two *rig) {
		ones := one.jobsOf("a", 5)
		twos := two.jobsOf("b", 2)
		assert.Equal(t, 3, one.living(ones))
		assert.Zero(t, two.living(twos))
		for range 2 {
			for _, o := range ones {
				if a := (jobs.Attempt{Run: o.ID}); one.fake.Creates(a) > 0 && one.run(o.ID).State == "container_creating" {
					one.fake.Start(a)
					one.fake.End(a, 0, "")
					break
				}
			}
			synctest.Wait()
		}
		assert.Equal(t, 1, two.living(twos), "one has two of three, two has one, then they take turns")
		assert.Equal(t, 4, one.living(ones))
	})
}

func TestAServiceThatEndsGivesItsRoomBack(t *testing.T) {
	withTwo(t, 2, func(t *testing.T, one, two *rig) {
		ones := one.jobsOf("a", 3)
		twos := two.jobsOf("b", 1)
		assert.Equal(t, 2, one.living(ones))
		assert.Zero(t, two.living(twos))
		one.stop()
		synctest.Wait()
		assert.Equal(t, 1, two.living(twos))
		one.start()
		pass(time.Second)
		assert.Equal(t, jobs.Pods{Max: 2, Living: 2, Waiting: 1}, one.pods(), "what lives goes on, also where it is more")
		assert.Equal(t, jobs.Pods{Max: 2, Living: 1}, two.pods())
	})
}
