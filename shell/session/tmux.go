//go:build unix

package session

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// tmux is the backend that talks to a tmux server of our own. What may be long
// or secret goes to it as a script on stdin: a command line is limited to 16 KiB
// by tmux's protocol, and other users can read it.
type tmux struct {
	o            Options
	program      string
	socket       []string // the options that choose the server
	env          []string // of the client, and so of the server that it starts
	tellsSignals bool     // of a program that one has ended, since 3.3
}

// What a session remembers stands in options of the tmux session.
const (
	spawnOption   = "@orrery_spawn"
	pendingOption = "@orrery_pending"
	typedOption   = "@orrery_typed"
)

// paneFormat is a line of list-panes. No field but the last can hold a colon:
// tmux allows none in the name of a session.
var paneFormat = strings.Join([]string{
	"#{pane_id}", "#{pane_pid}", "#{pane_dead}", "#{pane_dead_status}", "#{pane_dead_signal}",
	"#{history_size}", "#{cursor_x}", "#{cursor_y}", "#{pane_width}", "#{pane_height}",
	"#{window_activity}", "#{session_created}", "#{pid}",
	"#{" + spawnOption + "}", "#{" + pendingOption + "}", "#{" + typedOption + "}",
	"#{session_name}", "#{pane_title}",
}, ":")

const paneFields = 18

var tmuxVersion = regexp.MustCompile(`^tmux (?:next-)?(\d+)\.(\d+)`)

func newTmux(o Options, instance string, env map[string]string) (*tmux, error) {
	program, err := exec.LookPath(cmp.Or(o.Tmux, "tmux"))
	if err != nil {
		return nil, fmt.Errorf("Tmux: %w", err)
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, fmt.Errorf("Tmux: %w", err)
	}
	t := &tmux{o: o, program: program}
	if t.socket, err = socketOptions(cmp.Or(o.Socket, prefix+instance)); err != nil {
		return nil, fmt.Errorf("Socket: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		t.env = append(t.env, name+"="+env[name])
	}
	// It says where named sockets lie.
	if dir, ok := os.LookupEnv("TMUX_TMPDIR"); ok {
		t.env = append(t.env, "TMUX_TMPDIR="+dir)
	}
	return t, t.checkVersion()
}

// socketOptions gives the options that choose the server. The kernel takes no
// path of a socket with more than about 100 bytes.
func socketOptions(socket string) ([]string, error) {
	const most = 100
	option, path := "-L", filepath.Join(cmp.Or(os.Getenv("TMUX_TMPDIR"), "/tmp"), "tmux-"+strconv.Itoa(os.Getuid()), socket)
	if strings.Contains(socket, "/") {
		var err error
		if socket, err = filepath.Abs(socket); err != nil {
			return nil, err
		}
		option, path = "-S", socket
	}
	if strings.ContainsRune(socket, 0) || strings.HasPrefix(socket, "-") || len(path) > most {
		return nil, fmt.Errorf("%q is not the name or path of a socket: want at most %d bytes with its directory, and no '-' in front", quoted(path), most)
	}
	return []string{option, socket}, nil
}

// checkVersion refuses a tmux that does not know all that we ask of it.
func (t *tmux) checkVersion() error {
	ctx, cancel := context.WithTimeout(context.Background(), t.o.CommandTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, t.program, "-V").Output()
	if err != nil {
		return fmt.Errorf("Tmux: %q does not tell its version: %w", t.program, err)
	}
	version := strings.TrimSpace(string(out))
	m := tmuxVersion.FindStringSubmatch(version)
	t.tellsSignals = true
	if m == nil {
		return nil // "tmux master" is newer than all
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < 3 || major == 3 && minor < 2 {
		return fmt.Errorf("Tmux: %q is %q: want 3.2 or later", t.program, version)
	}
	t.tellsSignals = major > 3 || minor > 2
	return nil
}

func (t *tmux) kind() string { return Tmux }

func (t *tmux) attach(name string) []string {
	return append(append([]string{t.program}, t.socket...), "attach-session", "-t", target(name))
}

func (t *tmux) close() []*pane { return nil }

// target names a session exactly, where tmux would take the beginning of a name.
func target(name string) string { return "=" + prefix + name + ":" }

// errNoServer says that no tmux server listens on our socket: it ends with the
// last session.
var errNoServer = errors.New("there is no tmux server")

// run runs a tmux command, with a script on stdin if there is one.
func (t *tmux) run(ctx context.Context, script string, args ...string) (string, error) {
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		out, err := t.try(ctx, script, args...)
		// A server that is about to end, with its last session, still takes calls
		// that it does not answer. The next call finds none, or starts one.
		if !errors.Is(err, errServerEnds) || wait > time.Second {
			return out, err
		}
		if err := pause.For(ctx, wait); err != nil {
			return "", err
		}
	}
}

var errServerEnds = errors.New("the tmux server ended meanwhile")

func (t *tmux) try(parent context.Context, script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(parent, t.o.CommandTimeout)
	defer cancel()
	all := append([]string{"-u", "-f", "/dev/null"}, t.socket...)
	cmd := exec.CommandContext(ctx, t.program, append(all, args...)...)
	cmd.Env = t.env
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if script != "" {
		f, err := scriptFile(script)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		cmd.Stdin = f
	}
	procgroup.DieWithParent(cmd, syscall.SIGKILL) // what it asks for must not happen long after
	runtime.LockOSThread()                        // see DieWithParent
	err := cmd.Run()
	runtime.UnlockOSThread()
	complaint := strings.TrimSpace(stderr.String())
	has := func(s string) bool { return strings.Contains(complaint, s) }
	if err == nil && has("error creating") { // of the socket: tmux ends with 0 all the same
		err = errors.New("no server was started")
	}
	if err == nil {
		return stdout.String(), nil
	}
	if cause := context.Cause(parent); cause != nil {
		return "", cause
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("tmux %s: no answer within %v", args[0], t.o.CommandTimeout)
	case has("no server running on"), has("no current target"), has("error connecting to") && (has("No such file") || has("Connection refused")):
		return "", errNoServer
	case has("server exited"), has("lost server"):
		return "", errServerEnds
	case has("can't find session"), has("can't find pane"), has("can't find window"):
		return stdout.String(), fmt.Errorf("%w: tmux says %q", ErrNotFound, quoted(complaint))
	case has("error connecting to"):
		return "", fmt.Errorf("tmux %s: %s", args[0], quoted(complaint))
	}
	return stdout.String(), fmt.Errorf("tmux %s: %w: %s", args[0], err, quoted(complaint))
}

// scriptFile holds a script for tmux. A file is there as a whole, where a pipe
// would pass on its beginning when this process is killed. It has no name any
// more when it is used, and goes with its last user.
func scriptFile(script string) (*os.File, error) {
	f, err := os.CreateTemp("", "orrery-tmux-") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("script for tmux: %w", err)
	}
	if err = os.Remove(f.Name()); err == nil {
		if _, err = f.WriteString(script); err == nil {
			_, err = f.Seek(0, 0)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("script for tmux: %w", err)
	}
	return f, nil
}

// word writes a word of a script: in double quotes, with all that could mean
// anything to tmux as octal numbers.
func word(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_-./=:,@ ", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// script makes commands of words. In braces, none runs after one that failed.
func script(commands ...[]string) string {
	var b strings.Builder
	b.WriteString("if-shell -F 1 {\n")
	for _, c := range commands {
		for i, w := range c {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(word(w))
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.String()
}

func (t *tmux) start(ctx context.Context, l launch) error {
	create := []string{
		"new-session", "-d", "-s", prefix + l.name, "-x", strconv.Itoa(t.o.Columns), "-y", strconv.Itoa(t.o.Rows),
		"-c", strings.ReplaceAll(l.dir, "#", "##"), // tmux expands formats there
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		create = append(create, "-e", name+"="+l.env[name])
	}
	create = append(create, "--")
	if len(l.argv) == 1 {
		// tmux would give a single word to a shell, as a line to be read.
		create = append(create, "/bin/sh", "-c", `exec "$0"`)
	}
	create = append(create, l.argv...)
	commands := [][]string{
		// First of all, since the program may end at once.
		{"set-option", "-g", "remain-on-exit", "on"},
		{"set-option", "-gq", "remain-on-exit-format", ""}, // since 3.3
		{"set-option", "-g", "default-terminal", "screen-256color"},
		{"set-option", "-g", "status", "off"},
		{"set-option", "-g", "update-environment", ""},
		{"set-option", "-g", "history-limit", "5000"},
		{"set-option", "-g", "automatic-rename", "off"},
		create,
	}
	commands = append(commands, remember(l.name, l.notes)...)
	commands = append(commands,
		// Globally set, this ends tmux 3.3a.
		[]string{"set-option", "-w", "-t", target(l.name), "window-size", "manual"},
		// Only where there is a pipe, tmux reads what a program wrote last when it
		// hears of the program's end before; not what the kernel has not handed on yet.
		[]string{"pipe-pane", "-t", target(l.name), "exec cat >/dev/null"},
	)
	_, err := t.run(ctx, script(commands...), "start-server", ";", "source-file", "-")
	return err
}

// remember gives the commands that write notes into a session.
func remember(name string, n notes) [][]string {
	pending := ""
	if n.pending {
		pending = "1"
	}
	return [][]string{
		{"set-option", "-t", target(name), spawnOption, n.spawn},
		{"set-option", "-t", target(name), pendingOption, pending},
		{"set-option", "-t", target(name), typedOption, strings.Join(n.typed, " ")},
	}
}

// write does it all in one script, so that the server does all or nothing even
// if we end meanwhile.
func (t *tmux) write(ctx context.Context, p *pane, k keys, n notes) error {
	// Somebody who attached may have left the pane in copy mode, which would take
	// the keys for commands.
	commands := [][]string{{"copy-mode", "-q", "-t", p.id}}
	switch {
	case k.enter:
		commands = append(commands, []string{"send-keys", "-t", p.id, "Enter"})
	case len(k.text) > 1<<10 || strings.ContainsAny(k.text, "\n\t"):
		buffer := prefix + rand.Text()
		commands = append(commands,
			[]string{"set-buffer", "-b", buffer, "--", k.text},
			[]string{"paste-buffer", "-p", "-d", "-b", buffer, "-t", p.id}) // as a paste where the program knows pastes
	default:
		commands = append(commands, []string{"send-keys", "-t", p.id, "-l", "--", k.text})
	}
	_, err := t.run(ctx, script(append(commands, remember(p.Name, n)...)...), "source-file", "-")
	if errors.Is(err, errNoServer) {
		return ErrNotFound
	}
	return err
}

func (t *tmux) forget(ctx context.Context, p *pane) error {
	// The id and not the name: it must not hit one that has taken its place.
	_, err := t.run(ctx, "", "kill-session", "-t", p.id)
	if errors.Is(err, errNoServer) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// look asks again, for a while, where a program has ended and tmux does not tell
// how. It sees the end of the terminal before that of the program; and 3.3a at
// times misses the signal that tells it of the second, until the next one.
func (t *tmux) look(ctx context.Context) (map[string]*pane, error) {
	for tries := 0; ; tries++ {
		all, err := t.list(ctx)
		if err != nil {
			return nil, err
		}
		servers := t.settle(all)
		if len(servers) == 0 || tries == 200 {
			return all, nil
		}
		if tries >= 10 && tries%10 == 0 {
			for _, server := range servers {
				_ = unix.Kill(server, unix.SIGCHLD)
			}
		}
		if err := pause.For(ctx, pollInterval/2); err != nil {
			return nil, err
		}
	}
}

// settle sets who is alive by the programs themselves. It gives the server where
// it has still to say how one has ended.
func (t *tmux) settle(all map[string]*pane) (servers []int) {
	for _, p := range all {
		if p.ExitCode != nil || p.Signal != "" {
			continue
		}
		sid, err := unix.Getsid(p.PID)
		// A program may also let go of its terminal and run on.
		p.Alive = err == nil && sid == p.PID && !hasEnded(p.PID)
		if !p.Alive && t.tellsSignals {
			servers = append(servers, p.server)
		}
	}
	slices.Sort(servers)
	return slices.Compact(servers)
}

func (t *tmux) list(ctx context.Context) (map[string]*pane, error) {
	out, err := t.run(ctx, "", "list-panes", "-a", "-F", paneFormat)
	if errors.Is(err, errNoServer) || errors.Is(err, errServerEnds) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]*pane{}
	for line := range strings.Lines(out) {
		p, ok := parsePane(strings.TrimSuffix(line, "\n"))
		if !ok {
			continue
		}
		// A program may have split its window: the first pane is ours.
		if other := all[p.Name]; other == nil || paneNumber(p.id) < paneNumber(other.id) {
			all[p.Name] = p
		}
	}
	return all, nil
}

func paneNumber(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "%"))
	return n
}

// parsePane reads a line of list-panes; false where it is no session of ours.
func parsePane(line string) (*pane, bool) {
	f := strings.SplitN(line, ":", paneFields)
	if len(f) != paneFields {
		return nil, false
	}
	name, ours := strings.CutPrefix(f[16], prefix)
	if !ours || !goodName.MatchString(name) {
		return nil, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
	p := &pane{
		Info: Info{Name: name, Alive: f[2] != "1", PID: number(1)},
		id:   f[0], history: number(5), cursorX: number(6), cursorY: number(7),
		columns: number(8), rows: number(9), server: number(12), title: f[17],
		notes: notes{spawn: f[13], pending: f[14] != "", typed: strings.Fields(f[15])},
	}
	p.LastActivity, p.Created = time.Unix(int64(number(10)), 0).UTC(), time.Unix(int64(number(11)), 0).UTC()
	if !p.Alive {
		if code, err := strconv.Atoi(f[3]); err == nil {
			p.ExitCode = &code
		}
		p.Signal = signalName(f[4])
	}
	return p, true
}

// signalName gives the name of a signal for what tmux calls it, which is a
// number or a name, with or without SIG.
func signalName(s string) string {
	if n, err := strconv.Atoi(s); err == nil {
		s = cmp.Or(unix.SignalName(unix.Signal(n)), s)
	}
	if s == "" || strings.HasPrefix(strings.ToUpper(s), "SIG") {
		return strings.ToUpper(s)
	}
	return "SIG" + strings.ToUpper(s)
}

// screens asks for all screens at once. A line that nobody can guess stands before
// each, so that no program can forge another's. It tells the cursor and the like:
// tmux reads nothing of a program between two commands of one script, so that they
// belong to the text which follows.
func (t *tmux) screens(ctx context.Context, panes []*pane, coloured bool) (map[string]*pane, error) {
	if len(panes) == 0 {
		return nil, nil
	}
	capture := "capture-pane -p"
	if coloured {
		capture += " -e"
	}
	mark := rand.Text()
	var b strings.Builder
	for _, p := range panes {
		// On lines of their own: one that is gone must not keep the others away.
		fmt.Fprintf(&b, "display-message -p -t %s %s\n%s -t %s\n", word(p.id), word(mark+paneFormat), capture, word(p.id))
	}
	fmt.Fprintf(&b, "display-message -p %s\n", word(mark))
	out, err := t.run(ctx, b.String(), "source-file", "-")
	if errors.Is(err, errNoServer) || errors.Is(err, errServerEnds) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	shown := map[string]*pane{} // by id
	for _, part := range strings.Split(out, mark)[1:] {
		line, text, _ := strings.Cut(part, "\n")
		// A screen has at least one line's end.
		if p, ok := parsePane(line); ok && text != "" {
			p.text = trimScreen(text)
			shown[p.id] = p
		}
	}
	all := make(map[string]*pane, len(shown))
	for _, p := range panes {
		if s := shown[p.id]; s != nil && s.Name == p.Name {
			s.Info = p.Info
			all[p.Name] = s
		}
	}
	return all, nil
}
