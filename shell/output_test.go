package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/secrets"
	"github.com/orrery-go/orrery/store"
)

// writing is a tool whose runs write what is sent to it, one after another, until nil comes, and
// that returns then.
type writing struct {
	text chan string
	end  chan error
}

func newWriting() *writing { return &writing{make(chan string), make(chan error)} }

func (w *writing) Run(ctx context.Context, call shell.Call) (json.RawMessage, error) {
	out := call.Output()
	for {
		select {
		case text := <-w.text:
			if _, err := io.WriteString(out, text); err != nil {
				return nil, err
			}
		case err := <-w.end:
			return nil, err
		case <-ctx.Done():
			_, _ = io.WriteString(out, "interrupted\n")
			return nil, context.Cause(ctx)
		}
	}
}

// said gives the output of an attempt as a text; 0: of the latest one.
func said(t testing.TB, e *shell.Engine, id uuid.UUID, attempt uint32) string {
	t.Helper()
	o, err := e.Actions().Output(bg(), id, attempt)
	if errors.Is(err, shell.ErrNoOutput) {
		return "none: " + err.Error()
	}
	require.NoError(t, err)
	return string(o.Text())
}

// storedOutput gives what the store has of an attempt, without its first line.
func storedOutput(t testing.TB, st store.Store, id uuid.UUID, attempt uint32) string {
	t.Helper()
	text := "nothing"
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		b, err := tx.RunLog(id, attempt)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		_, text, _ = strings.Cut(string(b), "\n")
		return err
	}))
	return text
}

func create(t testing.TB, e *shell.Engine, spec core.ActionSpec) core.Action {
	t.Helper()
	a, err := e.Actions().Create(bg(), spec)
	require.NoError(t, err)
	synctest.Wait()
	return a
}

func TestWhatAToolWritesIsReadAtOnceAndStoredWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := newWriting(), inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(w)})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		assert.Equal(t, "none: it has written nothing yet", said(t, e, a.ID, 0))

		w.text <- "one\n"
		synctest.Wait()

		assert.Equal(t, "one\n", said(t, e, a.ID, 0))
		assert.Equal(t, "nothing", storedOutput(t, st, a.ID, 1), "not each write is one of the disk")
		w.text <- "two\n"
		elapse(time.Second)
		assert.Equal(t, "one\ntwo\n", storedOutput(t, st, a.ID, 1))
		assert.EqualValues(t, 1, e.Actions().OutputStats().Writes)
		elapse(time.Minute)
		assert.EqualValues(t, 1, e.Actions().OutputStats().Writes, "who writes nothing costs nothing")
		assert.Equal(t, 1, e.Actions().OutputStats().Held)
		w.text <- "and\n"
		elapse(time.Second)
		assert.Equal(t, "one\ntwo\nand\n", storedOutput(t, st, a.ID, 1), "and so is what comes later")

		w.text <- "three\n"
		w.end <- nil
		synctest.Wait()

		assert.Equal(t, "one\ntwo\nand\nthree\n", storedOutput(t, st, a.ID, 1), "the end is stored with the answer")
		assert.Equal(t, "one\ntwo\nand\nthree\n", said(t, e, a.ID, 1))
		stats := e.Actions().OutputStats()
		assert.Zero(t, stats.Held)
		assert.EqualValues(t, 18, stats.Bytes)
		assert.EqualValues(t, 3, stats.Writes)
		const lines = 3 * len(`{"cycle":1,"run":1,"written":88,"head":88}`+"\n")
		assert.InDelta(t, lines+8+12+18, stats.Stored, 6, "each time all of it, with a line before it")
	})
}

func TestTheOutputsOfSeveralToolsAreAllStoredWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, text := inMemory(t), make(chan string)
		writes := shell.ToolFunc(func(_ context.Context, call shell.Call) (json.RawMessage, error) {
			_, _ = io.WriteString(call.Output(), call.Label)
			<-text
			return nil, nil
		})
		e := running(t, shell.Options{Store: st, Tools: tools(writes), OutputBytes: shell.MaxOutput}) // so that each is one commit
		var made []core.Action
		for _, label := range []string{"one", "two", "three", "four", "five"} {
			made = append(made, create(t, e, core.ActionSpec{ToolName: "count", Label: label}))
		}
		elapse(time.Second)
		for _, a := range made {
			assert.Equal(t, a.Label, storedOutput(t, st, a.ID, 1))
		}
		close(text)
	})
}

// TestAllWritersOfARunWriteIntoOneOutput has a tool that writes by two, as one that has a standard output and errors.
func TestAllWritersOfARunWriteIntoOneOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := shell.ToolFunc(func(_ context.Context, call shell.Call) (json.RawMessage, error) {
			out, errs := call.Output(), call.Output()
			for _, w := range []io.Writer{out, errs, out} {
				_, _ = io.WriteString(w, "line\n")
			}
			return nil, nil
		})
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(both)})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		assert.Equal(t, "line\nline\nline\n", said(t, e, a.ID, 0))
		assert.EqualValues(t, 15, e.Actions().OutputStats().Bytes)
	})
}

func TestOneOfTwoFollowersMayLeaveWithoutTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(w)})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			left <- e.Actions().CopyOutput(ctx, a.ID, shell.OutputOptions{Follow: true}, io.Discard)
		}()
		stays := follow(e, a.ID, shell.OutputOptions{})
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		w.text <- "one\n"
		synctest.Wait()
		assert.Equal(t, "one\n", stays.text(), "at once: it is told, and does not look by itself")
		w.end <- nil
		require.NoError(t, stays.ended(t))
	})
}

func TestTheHeadAndTheTailOfAnOutputAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := newWriting(), inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(w), OutputBytes: 40})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		for i := range 1000 {
			w.text <- fmt.Sprintf("line %d\n", i)
		}
		synctest.Wait()
		const want = "line 0\nline 1\n… 8858 bytes dropped …\nline 998\nline 999\n"
		assert.Equal(t, want, said(t, e, a.ID, 0), "while it runs")
		w.end <- errors.New("broken")
		synctest.Wait()
		assert.Equal(t, want, said(t, e, a.ID, 0))
		o, err := e.Actions().Output(bg(), a.ID, 1)
		require.NoError(t, err)
		assert.EqualValues(t, 8890, o.Written)
		assert.EqualValues(t, 8850, o.Dropped())
	})
}

func TestNoOutputIsKeptWhereNoneIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := newWriting(), inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(w), OutputBytes: -1})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		w.text <- "one\n"
		w.end <- nil
		synctest.Wait()
		assert.Equal(t, "none: it has written nothing; its result says what came of it", said(t, e, a.ID, 0))
		assert.Equal(t, "nothing", storedOutput(t, st, a.ID, 1))
	})
	_, err := shell.New(shell.Options{Store: inMemory(t), OutputBytes: shell.MaxOutput + 1})
	require.ErrorContains(t, err, "Options.OutputBytes is 1048577: use at most 1048576")
}

func TestSecretsAreMaskedInWhatAToolWritesAlsoAcrossWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := newWriting(), inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(w), Secrets: secrets.Set{"db": {Read: secrets.Text("hunter2-hunter2")}}})
		a := create(t, e, core.ActionSpec{ToolName: "count", ToolInput: json.RawMessage(`{"p":"{{secret \"db\"}}"}`)})
		w.text <- "pw=hunter2-"
		elapse(2 * time.Second)
		assert.Equal(t, "pw=", storedOutput(t, st, a.ID, 1))
		w.text <- "hunter2 ok\n"
		synctest.Wait()
		assert.Equal(t, "pw=[secret db] ok\n", said(t, e, a.ID, 0))
		w.text <- "hunter2-hunt"
		w.end <- nil
		synctest.Wait()
		assert.Equal(t, "pw=[secret db] ok\nhunter2-hunt", storedOutput(t, st, a.ID, 1), "what is held back comes at the end")
	})
}

func TestEachAttemptHasItsOutputAndAFollowerSeesThemAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(w)})
		a := create(t, e, core.ActionSpec{
			ToolName: "count", Trigger: at(time.Hour),
			Policy: core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 2, Backoff: &core.Backoff{InitialMS: 60_000}},
		})
		all, first := follow(e, a.ID, shell.OutputOptions{}), follow(e, a.ID, shell.OutputOptions{Attempt: 1})
		synctest.Wait()
		assert.Equal(t, "none: it has not begun", said(t, e, a.ID, 0))
		elapse(time.Hour)
		w.text <- "one\n"
		synctest.Wait()
		assert.Equal(t, "one\n", all.text())
		w.end <- errors.New("broken")
		synctest.Wait()
		require.NoError(t, first.ended(t), "that attempt has ended")
		assert.Equal(t, "one\n", first.text())

		elapse(2 * time.Minute)
		w.text <- "two\n"
		synctest.Wait()
		assert.Equal(t, "one\n… attempt 2 …\ntwo\n", all.text())
		w.text <- "more\n"
		w.end <- nil

		require.NoError(t, all.ended(t))
		assert.Equal(t, "one\n… attempt 2 …\ntwo\nmore\n", all.text())
		assert.Equal(t, "one\n", said(t, e, a.ID, 1))
		assert.Equal(t, "two\nmore\n", said(t, e, a.ID, 0))
		assert.Equal(t, "none: there is no attempt 3: the latest is 2", said(t, e, a.ID, 3))
		later := follow(e, a.ID, shell.OutputOptions{Attempt: 2, Offset: 4})
		require.NoError(t, later.ended(t))
		assert.Equal(t, "more\n", later.text())
	})
}

func TestAFollowerOfAnActionThatWritesNothingIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(w)})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		f := follow(e, a.ID, shell.OutputOptions{})
		synctest.Wait()
		w.end <- nil
		err := f.ended(t)
		require.ErrorIs(t, err, shell.ErrNoOutput)
		require.EqualError(t, err, "it has written nothing; its result says what came of it")
		never := create(t, e, core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
		f = follow(e, never.ID, shell.OutputOptions{})
		_, err = e.Actions().Cancel(bg(), never.ID, "no")
		require.NoError(t, err)
		require.EqualError(t, f.ended(t), "it has not begun")
		require.ErrorIs(t, follow(e, uuid.New(), shell.OutputOptions{}).ended(t), shell.ErrNotFound)
	})
}

func TestTheLastWordsOfACancelledActionAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := newWriting(), inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(w)})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		f := follow(e, a.ID, shell.OutputOptions{})
		w.text <- "one\n"
		synctest.Wait()
		_, err := e.Actions().Cancel(bg(), a.ID, "enough")
		require.NoError(t, err)
		require.NoError(t, f.ended(t))
		assert.Equal(t, "one\ninterrupted\n", f.text())
		assert.Equal(t, "one\ninterrupted\n", storedOutput(t, st, a.ID, 1))
		assert.Zero(t, e.Actions().OutputStats().Held)
	})
}

func TestAnOutputGoesWithTheRecordOfItsAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := newWriting(), inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(w), ActionRetention: time.Hour})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		w.text <- "one\n"
		w.end <- nil
		synctest.Wait()
		require.Equal(t, "one\n", storedOutput(t, st, a.ID, 1))
		elapse(2 * time.Hour)
		assert.Equal(t, "nothing", storedOutput(t, st, a.ID, 1))
		_, err := e.Actions().Output(bg(), a.ID, 0)
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

func TestAnOutputIsThereAfterAStopThatInterruptsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := newWriting(), inMemory(t)
		o := shell.Options{Store: st, Tools: tools(w), StopTimeout: time.Second}
		e, stop := start(t, o)
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		f := follow(e, a.ID, shell.OutputOptions{})
		w.text <- "one\n"
		synctest.Wait()
		require.NoError(t, stop())
		require.NoError(t, <-f.err, "what it was told has come to its end")
		assert.Equal(t, "one\ninterrupted\n", f.text())
		assert.Equal(t, "one\ninterrupted\n", storedOutput(t, st, a.ID, 1))

		e = running(t, o)
		synctest.Wait()
		assert.Equal(t, "one\ninterrupted\n", said(t, e, a.ID, 1))
	})
}

func TestARecurringActionHasTheOutputOfItsLastRunUntilTheNextOneBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(w)})
		a := create(t, e, core.ActionSpec{
			ToolName: "count", Recurrence: core.Every(time.Hour),
			Policy: core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 2, Backoff: &core.Backoff{InitialMS: 1000}},
		})
		w.text <- "one\n"
		w.end <- errors.New("broken")
		elapse(time.Minute)
		w.text <- "two\n"
		w.end <- nil
		synctest.Wait()
		require.Zero(t, actionOf(t, e, a.ID).Attempt, "it waits for its next time")
		assert.Equal(t, "two\n", said(t, e, a.ID, 0))
		assert.Equal(t, "one\n", said(t, e, a.ID, 1))
		f := follow(e, a.ID, shell.OutputOptions{})
		elapse(time.Hour)
		assert.Equal(t, "none: it has written nothing yet", said(t, e, a.ID, 1), "the one of the cycle before is not meant")
		w.text <- "three\n"
		w.end <- nil
		require.NoError(t, f.ended(t), "who follows waits for the next run")
		assert.Equal(t, "three\n", f.text())
		assert.Equal(t, "three\n", said(t, e, a.ID, 0))
		assert.Equal(t, "none: it has written nothing; its result says what came of it", said(t, e, a.ID, 2))
	})
}

func TestAToolThatGoesOnAfterItWasLeftBehindIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, text := inMemory(t), make(chan string)
		deaf := shell.ToolFunc(func(_ context.Context, call shell.Call) (json.RawMessage, error) {
			out := call.Output()
			for s := range text {
				_, _ = io.WriteString(out, s)
			}
			return nil, nil
		})
		e := running(t, shell.Options{Store: st, Tools: tools(deaf), DefaultTimeout: time.Minute, AbandonAfter: time.Second})
		a := create(t, e, core.ActionSpec{ToolName: "count"})
		text <- "one\n"
		elapse(2 * time.Minute)
		require.Equal(t, core.StatusFailed, actionOf(t, e, a.ID).Status.Type)
		text <- "two\n"
		close(text)
		elapse(time.Minute)
		assert.Equal(t, "one\n", storedOutput(t, st, a.ID, 1))
		assert.Zero(t, e.Actions().OutputStats().Held)
	})
}

// TestAToolThatSpeaksFirstAfterItWasLeftBehindIsNotHeardEither has one that asked for its writer before, and one that
// asks for it then.
func TestAToolThatSpeaksFirstAfterItWasLeftBehindIsNotHeardEither(t *testing.T) {
	for _, asksBefore := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st, text := inMemory(t), make(chan string)
			deaf := shell.ToolFunc(func(_ context.Context, call shell.Call) (json.RawMessage, error) {
				var out io.Writer
				if asksBefore {
					out = call.Output()
				}
				for s := range text {
					if out == nil {
						out = call.Output()
					}
					_, _ = io.WriteString(out, s)
				}
				return nil, nil
			})
			e := running(t, shell.Options{Store: st, Tools: tools(deaf), DefaultTimeout: time.Minute, AbandonAfter: time.Second})
			a := create(t, e, core.ActionSpec{ToolName: "count"})
			elapse(2 * time.Minute)
			require.Equal(t, core.StatusFailed, actionOf(t, e, a.ID).Status.Type)
			text <- "two\n"
			synctest.Wait()
			assert.Zero(t, e.Actions().OutputStats().Held, "asks before: %t", asksBefore)
			close(text)
			elapse(time.Minute)
			assert.Equal(t, "nothing", storedOutput(t, st, a.ID, 1))
			assert.Zero(t, e.Actions().OutputStats())
		})
	}
}

// follower is somebody who follows the output of an action.
type follower struct {
	seen locked.Buffer
	err  chan error
}

func follow(e *shell.Engine, id uuid.UUID, o shell.OutputOptions) *follower {
	o.Follow = true
	f := &follower{err: make(chan error, 1)}
	go func() { f.err <- e.Actions().CopyOutput(bg(), id, o, &f.seen) }()
	return f
}

func (f *follower) text() string { return f.seen.String() }

// ended gives with which error the following has ended, by itself.
func (f *follower) ended(t testing.TB) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-f.err:
		return err
	default:
		t.Error("it follows still")
		return nil
	}
}

// namedWriting is a tool whose runs write the texts of their label's phase, and fail as they are told.
func namedWriting(w *writing) map[string]shell.Tool {
	silent := shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })
	return map[string]shell.Tool{"write": w, "silent": silent}
}

func followPipeline(e *shell.Engine, id uuid.UUID, o shell.PipelineOutputOptions) *follower {
	f := &follower{err: make(chan error, 1)}
	go func() { f.err <- e.CopyPipelineOutput(bg(), id, o, &f.seen) }()
	return f
}

func TestTheOutputOfAPipelineIsThatOfItsPhasesAndTheirAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting()
		e := running(t, shell.Options{Store: inMemory(t), Tools: namedWriting(w)})
		p := begin(t, e,
			core.PhaseDef{Name: "quiet", Run: run("silent")},
			core.PhaseDef{Name: "build", Run: run("write"), Retry: core.Retry{MaxAttempts: 2, BackoffMS: 60_000}},
			core.PhaseDef{Name: "try", Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "plain", Action: core.ApproachAction{Command: run("write")}}}}},
		)
		begin(t, e, core.PhaseDef{Name: "other", Run: run("silent")})
		all, build := followPipeline(e, p.ID, shell.PipelineOutputOptions{Follow: true}), followPipeline(e, p.ID, shell.PipelineOutputOptions{Follow: true, Phase: "build"})
		w.text <- "one\n"
		synctest.Wait()
		assert.Equal(t, "==> build <==\none\n", all.text())
		w.end <- errors.New("broken")
		elapse(2 * time.Minute)
		w.text <- "no end of line"
		w.end <- nil
		synctest.Wait()
		w.text <- "three\n"
		synctest.Wait()
		const whole = "==> build <==\none\n==> build, attempt 2 <==\nno end of line\n==> try: plain <==\nthree\n"
		assert.Equal(t, whole, all.text())
		w.end <- nil

		require.NoError(t, all.ended(t))
		require.NoError(t, build.ended(t))
		assert.Equal(t, whole, all.text())
		assert.Equal(t, "==> build <==\none\n==> build, attempt 2 <==\nno end of line", build.text())
		for phase, want := range map[string]string{"": whole, "try": "==> try: plain <==\nthree\n", "quiet": ""} {
			later := followPipeline(e, p.ID, shell.PipelineOutputOptions{Phase: phase})
			err := later.ended(t)
			assert.Equal(t, want, later.text())
			assert.Equal(t, want == "", errors.Is(err, shell.ErrNoOutput), err)
		}
		none := followPipeline(e, p.ID, shell.PipelineOutputOptions{Sees: func(a core.Action) bool { return a.ToolName == "silent" }})
		require.EqualError(t, none.ended(t), "none of its actions has written anything")
		require.EqualError(t, followPipeline(e, p.ID, shell.PipelineOutputOptions{Phase: "biuld"}).ended(t), `phase "biuld" does not exist: use one of quiet, build, try`)
		require.ErrorIs(t, followPipeline(e, uuid.New(), shell.PipelineOutputOptions{}).ended(t), shell.ErrNotFound)
	})
}
