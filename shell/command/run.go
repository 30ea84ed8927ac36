package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/inherit"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/procgroup"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/internal/told"
)

const (
	// pipeDelay is how long a program that has ended may leave its output open in
	// a process outside its group before the output is closed.
	pipeDelay = time.Second
	// What an error's text has of the output; the whole stands in the result.
	tailLines = 10
	tailBytes = 1 << 10
)

// result is the tool's JSON result.
type result struct {
	ExitCode      int    `json:"exit_code"`
	Signal        string `json:"signal,omitempty"`
	Stdout        string `json:"stdout"`
	Stderr        string `json:"stderr"`
	StdoutDropped int64  `json:"stdout_dropped_bytes"`
	StderrDropped int64  `json:"stderr_dropped_bytes"`
	DurationMS    int64  `json:"duration_ms"`
}

// Run runs the program and waits for its end. The error is a [*StartError], a
// [*ExitError] or a [*StoppedError], or names the field of the input that is
// wrong. With the second and the third there is a result: what the program
// printed is what one needs most when it has failed.
func (t *Tool) Run(ctx context.Context, call shell.Call) (json.RawMessage, error) {
	in, err := t.parse(call.Input)
	if err != nil {
		return nil, shell.Permanent(err)
	}
	if limit := strictjson.Seconds(in.TimeoutSeconds, t.o.TimeLimit); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &limitReached{limit})
		defer cancel()
	}
	keep := int(strictjson.Or(in.MaxOutputBytes, int64(t.o.MaxOutput)))
	stdout, stderr := newCapture(keep), newCapture(keep)
	cmd, err := t.prepare(in, call)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if keep > 0 { // else nobody is to see it
		cmd.Stdout, cmd.Stderr = io.MultiWriter(stdout, call.Output()), io.MultiWriter(stderr, call.Output())
	}
	if err := t.clearWay(ctx, in.Argv[0], call); err != nil {
		return nil, err
	}
	leave, err := t.enterGroup(cmd, call)
	if err != nil {
		return nil, &StartError{Command: in.Argv[0], Problem: err.Error(), Err: err}
	}
	defer leave()
	begin := time.Now()
	end, err := t.supervise(ctx, cmd, call)
	if err != nil {
		return nil, startError(in.Argv[0], cmd.Dir, err)
	}
	res := result{ExitCode: end.state.ExitCode(), DurationMS: time.Since(begin).Milliseconds()}
	if end.state != nil {
		res.Signal, _ = endedBy(end.state)
	}
	res.Stdout, res.StdoutDropped = stdout.text()
	res.Stderr, res.StderrDropped = stderr.text()
	raw, err := encode(res)
	if failure := end.verdict(in, res); failure != nil {
		return raw, failure
	}
	return raw, err
}

// maxResult is how large a result gets as JSON: what the engine takes of a run,
// less some room. It would fail a run for a larger one, although the program has
// done its work.
const maxResult = shell.MaxResultBytes - 1<<10

// encode gives a result of at most maxResult bytes: as JSON, output may be
// several times as long as it was.
func encode(res result) (json.RawMessage, error) {
	raw, err := plainjson.Marshal(res)
	if err != nil || len(raw) <= maxResult {
		return raw, err
	}
	half := maxResult/2 - 1<<10
	out, errs := jsonLen(res.Stdout), jsonLen(res.Stderr)
	var cut int
	res.Stdout, cut = shorten(res.Stdout, max(half, 2*half-errs))
	res.StdoutDropped += int64(cut)
	res.Stderr, cut = shorten(res.Stderr, max(half, 2*half-out))
	res.StderrDropped += int64(cut)
	return plainjson.Marshal(res)
}

// prepare makes the command, all but its output.
func (t *Tool) prepare(in input, call shell.Call) (*exec.Cmd, error) {
	dir, err := t.ownDir(in.Dir, call.Namespace, call.Tenant)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		// The system's error for a missing directory is the same as for a missing
		// program, so look first.
		if err := dirExists(dir); err != nil {
			err = fmt.Errorf("tool_input.dir: %w", err)
			return nil, &StartError{Command: in.Argv[0], Problem: err.Error(), Err: err}
		}
	}
	cmd := exec.Command(in.Argv[0], in.Argv[1:]...) //nolint:noctx // supervise ends the whole group, which a command's context cannot
	cmd.Dir = dir
	cmd.Env = t.environ(in, call)
	cmd.Stdin = stdin(in, call)
	cmd.WaitDelay = t.pipeDelay
	procgroup.Bind(cmd, syscall.SIGKILL)
	if t.o.RunAs != nil {
		t.o.RunAs.Bind(cmd)
	}
	return cmd, nil
}

// GroupPrefix begins the names of the control groups of runs.
const GroupPrefix = "run-"

// enterGroup makes the control group of a run, and has cmd begin in it. leave ends what is
// left in it. An earlier run of the action that was cut off ends now.
func (t *Tool) enterGroup(cmd *exec.Cmd, call shell.Call) (leave func(), err error) {
	if t.o.Cgroups == nil {
		return func() {}, nil
	}
	g, err := t.o.Cgroups.Make(GroupPrefix+call.ActionID.String(), t.o.Limits)
	if err != nil {
		return nil, err
	}
	g.Bind(cmd)
	return func() {
		if err := g.Close(); err != nil {
			call.Logger().Warn("could not end what is left in the control group of a command", "error", err)
		}
	}, nil
}

// stdin gives what the program reads, nil for nothing.
func stdin(in input, call shell.Call) io.Reader {
	switch {
	case in.Stdin != nil:
		return strings.NewReader(*in.Stdin)
	case len(call.Payload) > 0:
		return bytes.NewReader(call.Payload)
	default:
		return nil
	}
}

// environ gives the program's whole environment. Later entries win.
func (t *Tool) environ(in input, call shell.Call) []string {
	var env []string
	if strictjson.Or(in.InheritEnv, true) {
		env = inherit.Environ(t.o.InheritEnv)
	}
	if t.o.RunAs != nil {
		env = append(env, t.o.RunAs.Environ()...)
	}
	for name, value := range in.Env {
		env = append(env, name+"="+value)
	}
	for _, p := range told.Environ(call) {
		env = append(env, p.Name+"="+p.Value)
	}
	return append(env, keyVar+"="+call.IdempotencyKey)
}

// ending is how a program came to its end.
type ending struct {
	state   *os.ProcessState
	waitErr error
	cause   error         // why it was stopped; nil when it ended by itself
	grace   time.Duration // how long it ignored SIGTERM, when it was killed
}

// supervise starts the program, stops it when ctx ends, and returns when it is
// gone. An error says that it never started.
func (t *Tool) supervise(ctx context.Context, cmd *exec.Cmd, call shell.Call) (ending, error) {
	if ctx.Err() != nil {
		return ending{}, noTimeLeft(ctx)
	}
	p, err := start(cmd, func() { t.endEscaped(call) })
	if err != nil {
		return ending{}, err
	}
	var end ending
	select {
	case end.waitErr = <-p.done:
	case <-ctx.Done():
		end = t.stop(ctx, p)
	}
	end.state = cmd.ProcessState
	return end, nil
}

func noTimeLeft(ctx context.Context) error {
	return fmt.Errorf("there is no time left: %w", context.Cause(ctx))
}

// stop makes the program end, and waits for it. The ending has no cause when
// the program was faster than the first signal.
func (t *Tool) stop(ctx context.Context, p *process) ending {
	grace, cause := t.o.KillGrace, context.Cause(ctx)
	if errors.Is(cause, shell.ErrFenced) || errors.Is(cause, shell.ErrKilled) {
		grace = 0 // another instance may be running the same action by now, or somebody has said so
	}
	first := procgroup.Terminate
	if grace == 0 {
		first = procgroup.Kill
	}
	if !p.signal(first) {
		return ending{waitErr: <-p.done}
	}
	if grace == 0 {
		return ending{cause: cause, waitErr: <-p.done}
	}
	begin, timer := time.Now(), time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-p.done:
		return ending{cause: cause, waitErr: err}
	case <-shell.Killed(ctx):
		grace = time.Since(begin).Round(time.Millisecond)
	case <-timer.C:
	}
	if !p.signal(procgroup.Kill) {
		grace = 0
	}
	return ending{cause: cause, grace: grace, waitErr: <-p.done}
}

// verdict gives the error with which the action fails, or nil.
func (e ending) verdict(in input, res result) error {
	name := in.Argv[0]
	stderr, stdout := tailOf(res.Stderr, tailLines, tailBytes), ""
	if stderr == "" {
		stdout = tailOf(res.Stdout, tailLines, tailBytes)
	}
	if e.cause != nil {
		stopped := &StoppedError{Command: name, Cause: e.cause, Grace: e.grace, Stderr: stderr, Stdout: stdout}
		if own, ok := errors.AsType[*limitReached](e.cause); ok {
			stopped.Limit = own.limit
		}
		return stopped
	}
	if e.state == nil {
		return fmt.Errorf("wait for command %q: %w", clip.Text(name, maxQuoted), e.waitErr)
	}
	if signal, core := endedBy(e.state); signal != "" {
		return &ExitError{Command: name, Code: -1, Signal: signal, Core: core, Stderr: stderr, Stdout: stdout}
	}
	accepted := in.SuccessCodes
	if accepted == nil {
		accepted = []int64{0}
	}
	if code := e.state.ExitCode(); !slices.Contains(accepted, int64(code)) {
		return &ExitError{Command: name, Code: code, Stderr: stderr, Stdout: stdout}
	}
	return nil
}
