//go:build unix

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// ringSize is how much of a session's output is kept.
const ringSize = 256 << 10

// ptys is the backend that holds the terminals itself.
type ptys struct {
	o Options // CommandTimeout bounds a write that the program does not take

	mu     sync.Mutex
	closed bool
	last   int // the id of the last session
	all    map[string]*terminalSession
}

// terminalSession is a session in this process.
type terminalSession struct {
	master  *os.File
	exited  chan struct{} // closed when the program has been waited for
	drained chan struct{} // closed when nothing comes any more

	mu       sync.Mutex
	pane     pane   // without what the terminal shows
	out      []byte // the last of the output
	dropped  bool   // something came before it
	activity time.Time
}

func newPTY(o Options) *ptys {
	return &ptys{o: o, all: map[string]*terminalSession{}}
}

func (b *ptys) kind() string { return PTY }

func (b *ptys) attach(string) []string { return nil }

// close gives all sessions; starting one is refused from now on.
func (b *ptys) close() []*pane {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	panes, _ := b.look(context.Background())
	return slices.Collect(maps.Values(panes))
}

func (b *ptys) start(_ context.Context, l launch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	cmd := &exec.Cmd{Path: l.program, Args: l.argv, Dir: l.dir}
	l.env["TERM"] = cmp.Or(l.env["TERM"], "xterm-256color")
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		cmd.Env = append(cmd.Env, name+"="+l.env[name])
	}
	size := &pty.Winsize{Rows: uint16(b.o.Rows), Cols: uint16(b.o.Columns)}
	master, err := pty.StartWithSize(cmd, size) // in a session of its own
	if err != nil {
		return err
	}
	if master, err = waitable(master); err != nil {
		_ = cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	b.last++
	now := time.Now().UTC()
	t := &terminalSession{
		master: master, exited: make(chan struct{}), drained: make(chan struct{}), activity: now,
		pane: pane{
			Info: Info{Name: l.name, Alive: true, Created: now, PID: cmd.Process.Pid},
			id:   strconv.Itoa(b.last), columns: b.o.Columns, rows: b.o.Rows, notes: l.notes,
		},
	}
	b.all[l.name] = t
	go t.read()
	go t.wait(cmd)
	return nil
}

// read takes what the terminal writes, until all who could write have ended.
func (t *terminalSession) read() {
	defer close(t.drained)
	buf := make([]byte, 32<<10)
	for {
		n, err := t.master.Read(buf)
		t.mu.Lock()
		if n > 0 {
			t.activity = time.Now().UTC()
			t.out = append(t.out, buf[:n]...)
			if over := len(t.out) - ringSize; over > ringSize { // not at each read: it copies
				t.out, t.dropped = slices.Clone(t.out[over:]), true
			}
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (t *terminalSession) wait(cmd *exec.Cmd) {
	defer close(t.exited)
	_ = cmd.Wait()
	// What it wrote last shall be there when its end is seen. Others may hold the
	// terminal open for long.
	select {
	case <-t.drained:
	case <-time.After(100 * time.Millisecond):
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pane.Alive = false
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		t.pane.Signal = procgroup.SignalName(status.Signal())
		return
	}
	code := cmd.ProcessState.ExitCode()
	t.pane.ExitCode = &code
}

// show gives the terminal as it is now.
func (t *terminalSession) show() (pane, *terminal) {
	t.mu.Lock()
	p, out, dropped := t.pane, slices.Clone(t.out), t.dropped
	p.LastActivity = t.activity
	t.mu.Unlock()
	if over := len(out) - ringSize; over > 0 {
		out, dropped = out[over:], true
	}
	if dropped { // its beginning may be amid a character or a sequence
		if _, rest, ok := strings.Cut(string(out), "\n"); ok {
			out = []byte(rest)
		}
	}
	screen := newTerminal(p.columns, p.rows)
	screen.feed(out)
	p.title = screen.title
	p.history = screen.dropped + screen.top()
	p.cursorX, p.cursorY = min(screen.column, p.columns-1), screen.line-screen.top()
	return p, screen
}

func (b *ptys) look(context.Context) (map[string]*pane, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	panes := make(map[string]*pane, len(b.all))
	for name, t := range b.all {
		p, _ := t.show()
		panes[name] = &p
	}
	return panes, nil
}

func (b *ptys) session(p *pane) *terminalSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.all[p.Name]; t != nil && t.pane.id == p.id { // the id never changes
		return t
	}
	return nil
}

func (b *ptys) screens(_ context.Context, panes []*pane, _ bool) (map[string]*pane, error) {
	all := make(map[string]*pane, len(panes))
	for _, p := range panes {
		if t := b.session(p); t != nil {
			shown, screen := t.show()
			shown.Info, shown.text = p.Info, screen.text()
			all[p.Name] = &shown
		}
	}
	return all, nil
}

func (b *ptys) write(ctx context.Context, p *pane, k keys, n notes) error {
	t := b.session(p)
	if t == nil {
		return ErrNotFound
	}
	text := "\r"
	if !k.enter {
		text = strings.ReplaceAll(k.text, "\n", "\r")
		if _, screen := t.show(); screen.pastes && strings.ContainsAny(k.text, "\n\t") {
			text = "\x1b[200~" + text + "\x1b[201~"
		}
	}
	// A program that does not read what is typed lets a write wait.
	_ = t.master.SetWriteDeadline(time.Now().Add(b.o.CommandTimeout)) // where it cannot be set, nothing is lost but the limit
	stop := context.AfterFunc(ctx, func() { _ = t.master.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	written, err := t.master.WriteString(text)
	if written > 0 { // a part of it has been typed, too
		t.mu.Lock()
		t.pane.notes = n
		t.mu.Unlock()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the program has not read what was typed within %v", b.o.CommandTimeout)
	}
	return err
}

func (b *ptys) forget(ctx context.Context, p *pane) error {
	t := b.session(p)
	if t == nil {
		return nil
	}
	if err := t.master.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	for _, end := range []chan struct{}{t.exited, t.drained} {
		select {
		case <-end:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, p.Name)
	return nil
}
