package shell_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// onPostgres runs an engine on a partition that it takes from whoever has it. With a long tick it does nothing by itself.
func onPostgres(t *testing.T, url, owner string, tool shell.Tool, tick time.Duration) (e *shell.Engine, st *postgres.Store, ended chan error, stop func()) {
	t.Helper()
	st, err := postgres.Open(t.Context(), url, postgres.Options{Owner: owner, TakeOver: true, Checkpoint: 50 * time.Millisecond})
	require.NoError(t, err)
	e, err = shell.New(shell.Options{Store: st, Tools: tools(tool), Logger: quiet, TickRate: tick, LeaseTTL: 10 * tick, RecoverAfter: time.Nanosecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(bg())
	ended = make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, st, ended, cancel
}

// requireReplaced holds that an engine whose store another process has opened did nothing: it was refused, or had found out by itself
// before and ended.
func requireReplaced(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, shell.ErrStopped) {
		require.ErrorIs(t, err, store.ErrFenced)
	}
}

const quick = 20 * time.Millisecond

func TestOnPostgreSQLAnOwnerThatDoesNothingFindsOutAtItsNextTick(t *testing.T) {
	url := postgrestest.Database(t)
	_, st1, ended1, stop1 := onPostgres(t, url, "first", &counting{}, quick)
	defer stop1()
	_, st2, ended2, stop2 := onPostgres(t, url, "second", &counting{}, quick)
	require.ErrorIs(t, <-ended1, store.ErrFenced)
	stop2()
	require.NoError(t, <-ended2)
	require.NoError(t, st1.Close())
	require.NoError(t, st2.Close())
}

func TestOnPostgreSQLTheNextOwnerGoesOnAndTheFormerOneEnds(t *testing.T) {
	url := postgrestest.Database(t)
	held := untilEnd{make(chan error, 1)}
	first, st1, ended1, stop1 := onPostgres(t, url, "first", held, time.Hour)
	defer stop1()
	running, err := first.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	var ids sync.Map
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			a, err := first.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Label: fmt.Sprint(i), Trigger: at(time.Hour)})
			if assert.NoError(t, err) {
				ids.Store(a.ID, a)
			}
		})
	}
	all.Wait()

	counted := &counting{}
	second, st2, ended2, stop2 := onPostgres(t, url, "second", counted, quick)
	_, err = first.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
	requireReplaced(t, err)
	require.ErrorIs(t, <-ended1, store.ErrFenced, "the former owner ends")
	require.ErrorIs(t, <-held.why, shell.ErrFenced)
	assert.ErrorContains(t, st1.Failure(), `"second" at "" owns it`)
	require.NoError(t, st1.Close())

	ids.Range(func(_, v any) bool {
		a := actionOf(t, second, v.(core.Action).ID)
		assert.Equal(t, v, a, "what was acknowledged is there")
		return true
	})
	interrupted, err := second.Actions().Wait(bg(), running.ID)
	require.NoError(t, err)
	assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: core.ReasonRecovered}, interrupted.Status, "at most once: it was in the hands of the former owner")
	made, err := second.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	assert.Equal(t, core.StatusCompleted, made.Status.Type)
	stop2()
	require.NoError(t, <-ended2)
	verify(t, st2)
	require.NoError(t, st2.Close())
}

func TestOnPostgreSQLAnEngineThatHasNothingToDoLearnsThatItWasReplaced(t *testing.T) {
	url := postgrestest.Database(t)
	_, st1, ended1, stop1 := onPostgres(t, url, "first", &counting{}, time.Hour)
	defer stop1()
	st2, err := postgres.Open(t.Context(), url, postgres.Options{Owner: "second", TakeOver: true})
	require.NoError(t, err)
	require.ErrorIs(t, st1.Renew(t.Context()), store.ErrFenced)
	require.ErrorIs(t, <-ended1, store.ErrFenced)
	require.NoError(t, st1.Close())
	require.NoError(t, st2.Close())
}

func TestOnPostgreSQLAKeyedRequestThatTheOwnerDidNotAnswerIsAnsweredByTheNext(t *testing.T) {
	url := postgrestest.Database(t)
	first, st1, ended1, stop1 := onPostgres(t, url, "first", &counting{}, time.Hour)
	defer stop1()
	spec := core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)}
	made, err := first.Actions().Create(underKey("k"), spec)
	require.NoError(t, err)

	second, st2, ended2, stop2 := onPostgres(t, url, "second", &counting{}, quick)
	again, err := second.Actions().Create(underKey("k"), spec)
	require.NoError(t, err)
	assert.Equal(t, made, again)
	_, err = first.Actions().Create(underKey("k"), spec)
	requireReplaced(t, err) // not even from what he knows
	require.ErrorIs(t, <-ended1, store.ErrFenced)
	stop2()
	require.NoError(t, <-ended2)
	require.NoError(t, st1.Close())
	require.NoError(t, st2.Close())
}
