package replay_test

import (
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// writtenBy names the version of core of the commits that have left databases in
// testdata/written-by-COMMIT.
var writtenBy = map[string]string{"fdef5e5": "3", "c9ebdc8": "4", "4039b90": "5", "1dc8f5b1": "9", "060862a4": "13", "5a9a01d2": "14", "4159e153": "16"}

// The databases of fdef5e5 were left by its crash suites and, for queues and locks, by its
// daemon. Those of c9ebdc8 hold runs of jobs: jobs-killed.db of the local runner, under
// an engine that was killed again and again, jobs-day.db of hours with retries,
// cancellations, orphans of both policies, deletions that fail, pods that wait for room,
// limits that machines meet, and starts after gaps from 20 s to 40 min. So do those of
// 4039b90: jobs-cleanups.db has deletions that fail for up to two hours, of pods that run, end
// meanwhile or have ended, of runs that are cancelled, orphaned or would go on, and an outage
// that is longer than the limit of an effect; jobs-gaps.db has pods that are kept or wait for
// room, creations that are asked for again, and limits that come late or unseen. schedules-killed.tar.gz
// of 1dc8f5b1 has all files of a daemon that was killed, see [TestTheSchedulesOfAnEarlierCommitGoOn].
// tenants.tar.gz of 060862a4 has two tenants of whom one reaches the other in each way in which it could then.
// buses.tar.gz of 5a9a01d2 has one event bus with the subscribers of several tenants, see [TestTheBusOfAnEarlierCommitIsDivided].
// What a later commit replays of them must be the same to the byte.
func TestDatabasesOfAnEarlierCommitReplayByteForByte(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "written-by-*", "*.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	found := map[effects.Kind]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, ".sql.gz") {
			continue // see [TestTheClusterOfAnEarlierCommitReplaysByteForByteAndGoesOn]
		}
		commit := strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "written-by-")
		require.Contains(t, writtenBy, commit)
		t.Run(commit+"/"+filepath.Base(path), func(t *testing.T) {
			st := unpacked(t, path)
			rep, err := replay.Verify(t.Context(), st, replay.Options{})
			require.NoError(t, err)
			assert.Empty(t, rep.Divergences)
			var others []string // the version of core that wrote them, unless it is that of today
			if writtenBy[commit] != core.Version {
				others = []string{writtenBy[commit]}
			}
			assert.Equal(t, others, slices.Collect(maps.Keys(rep.OtherCores)))
			assert.NotZero(t, rep.Inputs)
			problems, err := st.Check(t.Context())
			require.NoError(t, err)
			assert.Empty(t, problems)
			for _, kind := range kindsIn(t, st) {
				found[kind] = true
			}
		})
	}
	for _, kind := range []effects.Kind{
		core.KindAction, core.KindRecurring, core.KindOccurrence, core.KindDedup, core.KindPipeline, core.KindQueue,
		core.KindQueueItem, core.KindQueueKey, core.KindQueueDedup, core.KindTask, core.KindStrategy, core.KindWorker, core.KindLock,
		core.KindSemaphore, core.KindBus, core.KindJob, core.KindOrchestrator, core.KindScheduler, core.KindCalendar,
	} {
		assert.True(t, found[kind], "no database has any %s", kind)
	}
}

// unpacked opens a copy of a packed database.
func unpacked(t *testing.T, path string) *bolt.Store {
	t.Helper()
	unpack := unpackedFile
	if strings.HasSuffix(path, ".tar.gz") {
		unpack = unpackedFolder
	}
	name := unpack(t, path)
	st, err := bolt.Open(name, bolt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// unpackedFile unpacks a database that is one file, and gives its path.
func unpackedFile(t *testing.T, path string) string {
	t.Helper()
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, packed.Close()) }()
	in, err := gzip.NewReader(packed)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "orrery.db")
	out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return name
}

// kindsIn lists the kinds of machines whose inputs stand in the journal, and those of
// the records that are stored.
func kindsIn(t *testing.T, st store.Store) (kinds []effects.Kind) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		if err := tx.Journal(0, func(_ uint64, raw []byte) error {
			entry, err := core.DecodeEntry(raw)
			for _, in := range entry.Inputs {
				kinds = append(kinds, in.To.Kind)
			}
			return err
		}); err != nil {
			return err
		}
		return tx.Records(func(r store.Record) error {
			kinds = append(kinds, r.Kind)
			return nil
		})
	}))
	return kinds
}
