package kubetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// daemonEnv has the settings of an Orrery in a process of its own: this test binary
// runs one instead of the tests, and obeys its standard input.
const daemonEnv = "ORRERY_KUBE_DAEMON"

// daemon runs an Orrery until its input ends.
func daemon(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return serve(ctx, s, log, func(o orrery) {
		server := rpc.NewServer()
		if err := server.RegisterName("Orrery", &answers{o}); err != nil {
			panic(err) // its methods are those below
		}
		go func() {
			server.ServeCodec(jsonrpc.NewServerCodec(stdio{}))
			cancel()
		}()
	})
}

type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return os.Stdin.Close() }

// answers is an orrery as package rpc wants it.
type answers struct{ o orrery }

type runAttempt struct {
	Run     uuid.UUID `json:"run"`
	Attempt uint32    `json:"attempt"`
}

// Apply and the others are those of orrery.
func (a *answers) Apply(spec core.JobSpec, _ *struct{}) error { return a.o.Apply(spec) }

func (a *answers) Trigger(job string, run *uuid.UUID) (err error) {
	*run, err = a.o.Trigger(job)
	return err
}

func (a *answers) Runs(job string, runs *[]core.Orchestrator) (err error) {
	*runs, err = a.o.Runs(job)
	return err
}

func (a *answers) Run(id uuid.UUID, run *core.Orchestrator) (err error) {
	*run, err = a.o.Run(id)
	return err
}

func (a *answers) Cancel(id uuid.UUID, _ *struct{}) error { return a.o.Cancel(id) }

func (a *answers) Log(of runAttempt, text *string) (err error) {
	*text, err = a.o.Log(of.Run, of.Attempt)
	return err
}

// elsewhere is an Orrery in another process.
type elsewhere struct{ client *rpc.Client }

func (e elsewhere) Apply(spec core.JobSpec) error {
	return e.client.Call("Orrery.Apply", spec, &struct{}{})
}

func (e elsewhere) Trigger(job string) (run uuid.UUID, err error) {
	err = e.client.Call("Orrery.Trigger", job, &run)
	return run, err
}

func (e elsewhere) Runs(job string) (runs []core.Orchestrator, err error) {
	err = e.client.Call("Orrery.Runs", job, &runs)
	return runs, err
}

func (e elsewhere) Run(id uuid.UUID) (run core.Orchestrator, err error) {
	err = e.client.Call("Orrery.Run", id, &run)
	return run, err
}

func (e elsewhere) Cancel(id uuid.UUID) error {
	return e.client.Call("Orrery.Cancel", id, &struct{}{})
}

func (e elsewhere) Log(id uuid.UUID, attempt uint32) (text string, err error) {
	err = e.client.Call("Orrery.Log", runAttempt{id, attempt}, &text)
	return text, err
}

// launch runs the world's Orrery in a process of its own, and returns what kills it
// as a power cut would.
func (w *world) launch() (kill func()) {
	w.t.Helper()
	text, err := json.Marshal(w.settings)
	require.NoError(w.t, err)
	log, err := os.OpenFile(filepath.Join(w.gates.folder, "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s", daemonEnv, text))
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	require.NoError(w.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	client := jsonrpc.NewClient(pipes{out, in})
	kill = sync.OnceFunc(func() {
		assert.NoError(w.t, cmd.Process.Kill())
		_ = client.Close()
		_ = cmd.Wait() // it was killed
		_ = log.Close()
		if w.t.Failed() {
			if said, err := os.ReadFile(log.Name()); err == nil {
				w.t.Logf("the process said:\n%s", said[max(0, len(said)-20_000):])
			}
		}
	})
	w.t.Cleanup(kill)
	w.orrery = elsewhere{client}
	return kill
}

type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p pipes) Close() error                { return p.in.Close() }
