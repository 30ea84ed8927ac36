//go:build unix

package command_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/store/memory"
)

// heard sends on what is written to it.
type heard chan string

func (h heard) Write(p []byte) (int, error) {
	h <- string(p)
	return len(p), nil
}

// engineWith runs an engine with the tool "command" until the test ends.
func engineWith(t *testing.T, tool *command.Tool) *shell.Engine {
	t.Helper()
	st := memory.New()
	e, err := shell.New(shell.Options{Store: st, Tools: map[string]shell.Tool{"command": tool}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, st.Close())
	})
	return e
}

func TestWhatAProgramPrintsIsHeardWhileItRuns(t *testing.T) {
	e := engineWith(t, newTool(t, command.Options{}))
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	a, err := e.Actions().Create(t.Context(), core.ActionSpec{
		ToolName: "command", ToolInput: json.RawMessage(`{"argv":["sh","-c","echo one; read x < ` + gate + `; echo two >&2"]}`),
	})
	require.NoError(t, err)
	h, ended := make(heard), make(chan error, 1)
	go func() { ended <- e.Actions().CopyOutput(t.Context(), a.ID, shell.OutputOptions{Follow: true}, h) }()

	require.Equal(t, "one\n", <-h, "the program waits")
	require.NoError(t, os.WriteFile(gate, []byte("on\n"), 0o600))
	require.Equal(t, "two\n", <-h)
	require.NoError(t, <-ended)

	o, err := e.Actions().Output(t.Context(), a.ID, 1)
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", string(o.Text()))
}

func TestTheHeadAndTheTailOfALongOutputAreKeptAsItCame(t *testing.T) {
	e := engineWith(t, newTool(t, command.Options{}))
	a, err := e.Actions().Execute(t.Context(), core.ActionSpec{ToolName: "command", ToolInput: json.RawMessage(`{"argv":["seq","100000"]}`)})
	require.NoError(t, err)
	require.Equal(t, core.StatusCompleted, a.Status.Type)
	o, err := e.Actions().Output(t.Context(), a.ID, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 588_895, o.Written)
	text := string(o.Text())
	assert.True(t, strings.HasPrefix(text, "1\n2\n3\n"))
	assert.True(t, strings.HasSuffix(text, "\n99999\n100000\n"))
	assert.Less(t, len(text), 65<<10)
}

func TestAnOutputThatNobodyIsToKeepIsNotKept(t *testing.T) {
	e := engineWith(t, newTool(t, command.Options{}))
	a, err := e.Actions().Execute(t.Context(), core.ActionSpec{ToolName: "command", ToolInput: json.RawMessage(`{"argv":["echo","x"],"max_output_bytes":0}`)})
	require.NoError(t, err)
	_, err = e.Actions().Output(t.Context(), a.ID, 0)
	require.ErrorIs(t, err, shell.ErrNoOutput)
}
