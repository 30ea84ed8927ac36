//go:build unix

package crashtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// outputEnv holds the folder of a child whose tool writes until it is killed.
const outputEnv = "ORRERY_CRASHTEST_OUTPUT"

// talks is a tool that writes numbered lines for as long as it may.
func talks(ctx context.Context, call shell.Call) (json.RawMessage, error) {
	out := call.Output()
	for n := 0; ctx.Err() == nil; n++ {
		if _, err := fmt.Fprintf(out, "line %d\n", n); err != nil {
			return nil, err
		}
		idle(ctx, time.Millisecond)
	}
	return nil, context.Cause(ctx)
}

func talkingEngine(st store.Store) (*shell.Engine, error) {
	return shell.New(shell.Options{
		Store: st, Tools: map[string]shell.Tool{"talk": shell.ToolFunc(talks)}, RecoverAfter: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
}

// outputChild has an action write, and prints how many bytes of that stand in the database, each time that there are more.
func outputChild(dir string) error {
	st, err := bolt.Open(filepath.Join(dir, "orrery.db"), bolt.Options{})
	if err != nil {
		return err
	}
	e, err := talkingEngine(st)
	if err != nil {
		return err
	}
	ctx := context.Background()
	go func() { _ = e.Run(ctx) }()
	if _, err := e.Actions().Create(ctx, core.ActionSpec{ID: id(1), ToolName: "talk"}); err != nil {
		return err
	}
	for last := 0; ; idle(ctx, 10*time.Millisecond) {
		text, err := storedLog(ctx, st, id(1))
		if err != nil {
			return err
		}
		if len(text) > last {
			last = len(text)
			fmt.Println(last)
		}
	}
}

// storedLog gives what stands in the database of the output of an action's first attempt.
func storedLog(ctx context.Context, st store.Store, action uuid.UUID) (text string, err error) {
	err = st.View(ctx, func(tx store.ReadTx) error {
		b, err := tx.RunLog(action, 1)
		text = string(b)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return text, err
}

func TestWhatWasStoredOfAnOutputIsThereAfterAKill(t *testing.T) {
	t.Parallel()
	dir := workDir(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env, child.Stderr = append(os.Environ(), outputEnv+"="+dir), os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	told, stored := bufio.NewScanner(out), 0
	for range 2 { // the second is stored over the first
		require.True(t, told.Scan(), "the child has ended")
		stored, err = strconv.Atoi(told.Text())
		require.NoError(t, err)
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())

	st, err := bolt.Open(filepath.Join(dir, "orrery.db"), bolt.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	text, err := storedLog(t.Context(), st, id(1))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(text), stored)

	e, err := talkingEngine(st)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	await(t, time.Minute, func() error { // whose tool is gone
		a, err := e.Actions().Get(ctx, id(1))
		if err == nil && !a.Status.Type.Terminal() {
			err = errLater
		}
		return err
	})
	o, err := e.Actions().Output(ctx, id(1), 1)
	require.NoError(t, err)
	_, lines, _ := strings.Cut(text, "\n") // what stands before it in the store
	assert.Equal(t, lines, string(o.Text()))
	assert.True(t, strings.HasPrefix(lines, "line 0\nline 1\n"))
}
