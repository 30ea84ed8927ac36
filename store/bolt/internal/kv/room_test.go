package kv_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

func put(db *kv.DB, n int) error {
	tx, err := db.Begin(context.Background(), true)
	if err != nil {
		return err
	}
	tx.Table("a").PutNew(fmt.Appendf(nil, "%06d", n), make([]byte, 100))
	return tx.Commit()
}

func size(t *testing.T, db *kv.DB) (n int) {
	t.Helper()
	tx, err := db.Begin(context.Background(), false)
	require.NoError(t, err)
	defer tx.Rollback()
	c := tx.Table("a").Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	return n
}

func TestCommitsAreRefusedWhenTheFileCannotFollowAndGoOnByThemselvesOnceItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		log := &bytes.Buffer{}
		path := filepath.Join(t.TempDir(), "orrery.db")
		o := openAt(t, path, func(o *kv.Options) {
			o.Bytes, o.After, o.Logger = 1<<10, time.Second, slog.New(slog.NewTextHandler(log, nil))
			o.Fill = func(string) float64 {
				if fails.Load() {
					panic("no space left")
				}
				return 0.5
			}
		})
		fails.Store(true)
		done, err := 0, error(nil)
		for ; err == nil && done < 1000; done++ {
			err = put(o.DB, done)
			synctest.Wait()
		}
		done--
		require.ErrorContains(t, err, "the log is full, and what it holds cannot be brought into the file: ")
		require.ErrorContains(t, err, "no space left")
		assert.Equal(t, done, size(t, o.DB), "what was refused is not there, and all else is")
		<-time.After(10 * time.Second)
		require.Error(t, put(o.DB, done))
		stats := o.Stats()
		assert.EqualValues(t, done, stats.Frames)
		assert.Greater(t, stats.Bytes, int64(4<<10))
		assert.EqualValues(t, stats.Bytes, stats.Written)
		assert.InDelta(t, 1, stats.Fill, 0.1, "the next commit is refused")
		assert.Zero(t, stats.Checkpoints)
		assert.NotZero(t, stats.Failed)
		require.ErrorContains(t, stats.Err, "table a: ")
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), "cannot be brought into the file; trying again"), "once: %s", log)

		fails.Store(false)
		<-time.After(2 * time.Second)
		synctest.Wait()
		assert.Contains(t, log.String(), "what the log holds is in the file again")
		written := stats.Written
		stats = o.Stats()
		assert.Zero(t, stats.Frames+uint64(stats.Bytes))
		assert.Zero(t, stats.Fill)
		assert.Equal(t, written, stats.Written)
		assert.NotZero(t, stats.Checkpoints)
		require.NoError(t, stats.Err)
		require.NoError(t, put(o.DB, done), "without anybody's doing")
		require.NoError(t, o.Close())
		again := openAt(t, path, nil)
		assert.Equal(t, done+1, size(t, again.DB))
		require.NoError(t, again.Close())
	})
}

func TestCommitsThatAreFasterThanTheFileWaitForIt(t *testing.T) {
	o := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.Bytes = 1 << 10 })
	for n := range 2000 {
		require.NoError(t, put(o.DB, n))
	}
	assert.Equal(t, 2000, size(t, o.DB))
	require.NoError(t, o.Close())
}

func TestWhatIsCommittedIsInTheFileInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.After = 5 * time.Second })
		defer func() { require.NoError(t, o.Close()) }()
		inFile := func() bool {
			tx, err := o.Begin(context.Background(), false)
			require.NoError(t, err)
			defer tx.Rollback()
			return tx.Base().Bucket([]byte("a")) != nil
		}
		require.NoError(t, put(o.DB, 1))
		<-time.After(5*time.Second - time.Millisecond)
		synctest.Wait()
		assert.False(t, inFile())
		<-time.After(time.Millisecond)
		synctest.Wait()
		assert.True(t, inFile())
	})
}

// slow is a file of which each transaction takes 10 ms; it tells when they ended.
func slow(o *opened) (ended func() []time.Time) {
	var mu sync.Mutex
	var list []time.Time
	o.OnWrite(func() {
		<-time.After(10 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		list = append(list, time.Now())
	})
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func TestACheckpointThatNobodyWaitsForLeavesTheDiskToTheCommitsHalfOfTheTime(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes int64 // that are to be in the log
		ask   bool
		apart time.Duration // from the end of a transaction to the end of the next one
		least int           // transactions
	}{
		"in good time":              {bytes: 1 << 20, apart: 20 * time.Millisecond, least: 20},
		"once the log is full":      {bytes: 20 << 10, apart: 10 * time.Millisecond, least: 3},
		"when somebody asks for it": {bytes: 1 << 20, ask: true, apart: 10 * time.Millisecond, least: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) {
					o.Bytes, o.After, o.Portion = tt.bytes, 5*time.Second, 16<<10
				})
				defer func() { require.NoError(t, o.Close()) }()
				require.NoError(t, put(o.DB, 0)) // which changes the file
				ended := slow(o)
				for n := range 200 {
					require.NoError(t, put(o.DB, n+1))
				}
				if tt.ask {
					require.NoError(t, o.Checkpoint())
				}
				<-time.After(4 * time.Second)
				synctest.Wait()
				if !tt.ask && len(ended()) == 0 {
					<-time.After(5 * time.Second)
					synctest.Wait()
				}
				times := ended()
				require.GreaterOrEqual(t, len(times), tt.least)
				for i := 1; i < tt.least; i++ {
					assert.Equal(t, tt.apart, times[i].Sub(times[i-1]))
				}
			})
		})
	}
}
