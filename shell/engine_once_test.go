package shell_test

import (
	"context"
	"crypto/sha256"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// underKey is the context of one more try of the same request.
func underKey(name string) context.Context {
	return shell.WithOnce(bg(), shell.NewOnce(sha256.Sum256([]byte(name)), nil))
}

func TestACallThatIsMadeAgainUnderItsKeyIsAnsweredAsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(ran)})
		spec := core.ActionSpec{ToolName: "count", Namespace: "ns", Tenant: "t"}
		first, err := e.Actions().Execute(underKey("a"), spec)
		require.NoError(t, err)
		require.Equal(t, core.StatusCompleted, first.Status.Type)
		again, err := e.Actions().Execute(underKey("a"), spec)
		require.NoError(t, err)
		assert.Equal(t, first, again, "made once, and waited for until its end")
		assert.EqualValues(t, 1, ran.n.Load())

		for range 2 { // two calls of one request, twice
			ctx := underKey("b")
			one, err := e.Actions().Create(ctx, spec)
			require.NoError(t, err)
			other, err := e.Actions().Create(ctx, spec)
			require.NoError(t, err)
			assert.NotEqual(t, one.ID, other.ID)
		}
		synctest.Wait()
		assert.EqualValues(t, 3, ran.n.Load())

		stats, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 3, stats.Repeated)
	})
}

func TestWhoHasLostTheItemsThatHeTookGetsThemUnderHisKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		q := core.QueueRef("ns", "t", "q")
		for _, late := range []bool{false, true} {
			if late {
				go func() {
					<-time.After(time.Second)
					_, _, err := e.Queues().Push(bg(), "ns", "t", "q", shell.PushOptions{})
					assert.NoError(t, err)
				}()
			} else {
				_, _, err := e.Queues().Push(bg(), "ns", "t", "q", shell.PushOptions{})
				require.NoError(t, err)
			}
			name := map[bool]string{false: "at once", true: "after a wait"}[late]
			take := shell.TakeOptions{Holder: "h", Wait: time.Minute}
			first, err := e.Queues().Take(underKey(name), q, take)
			require.NoError(t, err)
			require.Len(t, first, 1)
			again, err := e.Queues().Take(underKey(name), q, take)
			require.NoError(t, err)
			assert.Equal(t, first, again, name)
		}
	})
}

// forgetful commits, and says that nobody knows.
type forgetful struct {
	store.Store
	next bool
}

func (f *forgetful) Update(ctx context.Context, fn func(store.Tx) error) error {
	err := f.Store.Update(ctx, fn)
	if err == nil && f.next {
		f.next = false
		return store.ErrUnconfirmed
	}
	return err
}

func TestAfterACommitThatNobodyConfirmsTheKeyTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &forgetful{Store: inMemory(t)}
		e := running(t, shell.Options{Store: st, Tools: tools(&counting{})})
		synctest.Wait()
		spec := core.ActionSpec{ToolName: "count", Trigger: at(1e15)}
		st.next = true
		_, err := e.Actions().Create(underKey("k"), spec)
		require.ErrorIs(t, err, store.ErrUnconfirmed)
		made, err := e.Actions().Create(underKey("k"), spec)
		require.NoError(t, err)
		list, _, err := e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, list[0].ID, made.ID, "it had been carried out")
	})
}

func TestWhatWasTakenIsGivenAgainUnderItsKeyWhileTheEngineIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		q := core.QueueRef("ns", "t", "q")
		e := running(t, shell.Options{Store: st, Tools: tools(&counting{})})
		_, _, err := e.Queues().Push(bg(), "ns", "t", "q", shell.PushOptions{})
		require.NoError(t, err)
		first, err := e.Queues().Take(underKey("k"), q, shell.TakeOptions{Holder: "h"})
		require.NoError(t, err)
		require.Len(t, first, 1)
		_, _, err = e.Queues().Push(bg(), "ns", "t", "q", shell.PushOptions{})
		require.NoError(t, err)

		paused := running(t, shell.Options{Store: st, Tools: tools(&counting{}), StartPaused: true})
		again, err := paused.Queues().Take(underKey("k"), q, shell.TakeOptions{Holder: "h"})
		require.NoError(t, err)
		assert.Equal(t, first, again)
		none, err := paused.Queues().Take(underKey("l"), q, shell.TakeOptions{Holder: "h"})
		require.NoError(t, err)
		assert.Empty(t, none)
	})
}

func TestACallerKeepsANoteWithWhatHeIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		spec := core.ActionSpec{ToolName: "count", Namespace: "ns", Tenant: "t", Trigger: at(1e15)}
		for try, note := range []string{"first", "second"} {
			ctx := underKey("k")
			once := shell.OnceFrom(ctx)
			before, ok, err := e.AnsweredBefore(ctx)
			require.NoError(t, err)
			assert.Equal(t, try > 0, ok)
			assert.Nil(t, once.Noted())
			once.Note([]byte(note))
			made, err := e.Actions().Create(ctx, spec)
			require.NoError(t, err)
			assert.Equal(t, "first", string(once.Noted()))
			if ok {
				assert.Equal(t, made, before.State)
				assert.Equal(t, "first", string(before.Note))
			}
			other, err := e.Actions().Create(ctx, spec)
			require.NoError(t, err)
			assert.NotEqual(t, made.ID, other.ID)
			assert.Empty(t, once.Noted(), "a note is of one part")
		}
		ctx := underKey("k")
		before, ok, err := e.AnswerAgain(ctx)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, "first", string(before.Note))
		assert.True(t, shell.OnceFrom(ctx).Repeated())
		stats, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 3, stats.Repeated)
		next, ok, err := e.AnswerAgain(ctx)
		require.NoError(t, err)
		require.True(t, ok, "the second part")
		assert.NotEqual(t, before.State, next.State)
		_, ok, err = e.AnswerAgain(ctx)
		require.NoError(t, err)
		assert.False(t, ok)
		_, ok, err = e.AnsweredBefore(bg())
		require.NoError(t, err)
		assert.False(t, ok, "nothing is known of a request without a key")
	})
}

func TestTwoSetsUnderOneKeyAreAppliedEachByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		queue := func(name string) []shell.SetEntry {
			return []shell.SetEntry{{File: "a.toml", Queue: &shell.QueueSpec{Namespace: "ns", Tenant: "t", Name: name}}}
		}
		var results [2][3]shell.SetResult
		for try := range results {
			ctx := underKey("k")
			for part, of := range []string{"one", "two", "two"} { // of the last one nothing is to be done
				res, err := e.Sets().Apply(ctx, of, queue(of), shell.SetOptions{})
				require.NoError(t, err)
				assert.Equal(t, of, res.Set, "%d %d", try, part)
				assert.True(t, res.Applied)
				assert.Equal(t, part < 2, res.Changed(), "%d %d", try, part)
				for i := range res.Changes {
					res.Changes[i] = shell.SetChange{Action: res.Changes[i].Action, Name: res.Changes[i].Name, ID: res.Changes[i].ID}
				}
				results[try][part] = res
			}
		}
		assert.Equal(t, results[0], results[1])
	})
}
