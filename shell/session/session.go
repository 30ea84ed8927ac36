package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/internal/inherit"
	"github.com/orrery-go/orrery/shell/internal/keymutex"
)

// Backends, for [Options.Backend].
const (
	Tmux = "tmux"
	PTY  = "pty"
)

// The variables by which a session's processes can be told from all others.
const (
	sessionVar  = "ORRERY_SESSION"
	instanceVar = "ORRERY_SESSIONS"
)

// reservedVars are the variables that the session sets itself.
var reservedVars = []string{sessionVar, instanceVar, "TMUX", "TMUX_PANE"}

const (
	// prefix is what the names of our sessions begin with in tmux.
	prefix = "orrery-"
	// typedKept is how many typed effects a session remembers.
	typedKept = 16

	defaultColumns = 200
	defaultRows    = 50
	maxCells       = 1000 // columns or rows
)

// Options are the operator's choices. Only Root must be given.
type Options struct {
	// Backend is [Tmux] or [PTY]. Empty means tmux where a usable one is
	// installed (3.2 or later), else pty.
	Backend string
	// Root is the directory under which all workspaces lie; it must exist.
	Root string
	// CreateWorkspace makes a workspace that does not exist, with mode 0750.
	CreateWorkspace bool
	// Instance tells this daemon's sessions from those of others on the machine:
	// the path of its database, say. Empty means Root.
	Instance string
	// Socket is tmux's socket: a name (tmux -L) or, with a slash, a path
	// (tmux -S). Empty means a name that is derived from Instance.
	Socket string
	// Tmux is the tmux program. Empty means the one in PATH.
	Tmux string
	// Columns and Rows are the size of the terminals. Zero means 200 and 50.
	Columns, Rows int
	// KillGrace is the time between SIGTERM and SIGKILL. Zero means 5 seconds,
	// negative means SIGKILL at once. After that a process may take 30 seconds to
	// be gone before it counts as one that cannot be killed.
	KillGrace time.Duration
	// InputWait is how long a new session may take to show something before its
	// first input is typed: a program that sets up its terminal may throw away
	// what came before. Zero means 1 second, negative means not to wait.
	InputWait time.Duration
	// EnterDelay is the time between text and return: programs take both together
	// for one paste. Zero means 100 milliseconds, negative means none.
	EnterDelay time.Duration
	// CommandTimeout bounds each call of tmux. Zero means 10 seconds.
	CommandTimeout time.Duration
	// Shell runs where a Spawn has no command. Empty means $SHELL, or /bin/sh.
	Shell string
	// InheritEnv names the variables of the daemon's environment that programs
	// get; a name that ends with * stands for all with that beginning. Nil means
	// [DefaultInheritEnv], empty means none.
	InheritEnv []string
	// RunAs, if not nil, is the user that the programs of sessions run as, with its HOME, USER
	// and LOGNAME and none of this process's groups; terminals stay this process's, which must
	// be root. Sessions that run already go on as they are. The user must be able to enter
	// Root and the workspaces; those that are made for a session belong to it. This program
	// is started once more for each session, see the package's duties of the caller.
	RunAs *confine.User
}

// DefaultInheritEnv is what programs get of the daemon's environment unless
// [Options.InheritEnv] says otherwise: what a program needs to find its way,
// nothing that commonly holds a secret.
func DefaultInheritEnv() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"}
}

// Sessions are the terminal sessions of one daemon. Make them with [New]; they
// are safe for concurrent use.
type Sessions struct {
	o         Options // with its defaults
	root      string  // without links
	namedRoot string  // as configured
	instance  string  // a hash
	backend   backend
	locks     keymutex.Map[string] // by session: one effect at a time
}

// New makes Sessions. The error names the option that cannot be right, or says
// why the backend cannot be had.
func New(o Options) (*Sessions, error) {
	root, named, err := resolveRoot(o.Root)
	if err != nil {
		return nil, err
	}
	o.Columns, o.Rows = cmp.Or(o.Columns, defaultColumns), cmp.Or(o.Rows, defaultRows)
	if o.Columns < 1 || o.Columns > maxCells || o.Rows < 1 || o.Rows > maxCells {
		return nil, fmt.Errorf("Columns, Rows: %d x %d is no size of a terminal: want 1 to %d each", o.Columns, o.Rows, maxCells)
	}
	o.CommandTimeout = cmp.Or(o.CommandTimeout, 10*time.Second)
	if o.CommandTimeout < 0 {
		return nil, fmt.Errorf("CommandTimeout: %v is negative", o.CommandTimeout)
	}
	o.KillGrace = cmp.Or(o.KillGrace, 5*time.Second)
	o.InputWait = cmp.Or(o.InputWait, time.Second)
	o.EnterDelay = cmp.Or(o.EnterDelay, 100*time.Millisecond)
	o.Shell = cmp.Or(o.Shell, os.Getenv("SHELL"), "/bin/sh")
	if o.InheritEnv = slices.Clone(o.InheritEnv); o.InheritEnv == nil {
		o.InheritEnv = DefaultInheritEnv()
	}
	if o.RunAs != nil {
		if err := cmp.Or(o.RunAs.Check(), o.RunAs.CanEnter(root)); err != nil {
			return nil, fmt.Errorf("RunAs: %w", err)
		}
	}
	sum := sha256.Sum256([]byte(cmp.Or(o.Instance, root)))
	s := &Sessions{o: o, root: root, namedRoot: named, instance: hex.EncodeToString(sum[:8])}
	if s.backend, err = newBackend(o, s.instance, s.environ()); err != nil {
		return nil, err
	}
	return s, nil
}

// resolveRoot gives a directory's path without links, and with those that its name has.
func resolveRoot(dir string) (root, named string, err error) {
	if dir == "" {
		return "", "", errors.New("Root: is empty: want the directory under which workspaces lie")
	}
	if named, err = filepath.Abs(dir); err == nil {
		root, err = filepath.EvalSymlinks(named)
	}
	if err != nil {
		return "", "", fmt.Errorf("Root: %w", err)
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return "", "", fmt.Errorf("Root: %q is not a directory", dir)
	}
	return root, named, nil
}

// Backend is [Tmux] or [PTY].
func (s *Sessions) Backend() string { return s.backend.kind() }

// AttachCommand gives the command by which a person joins a session, empty where
// the backend knows none. The session need not exist.
func (s *Sessions) AttachCommand(name string) []string { return s.backend.attach(name) }

// Close ends the sessions of backend pty, and waits for them. Those of tmux go
// on.
func (s *Sessions) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), max(0, s.o.KillGrace)+2*patience)
	defer cancel()
	last := s.backend.close()
	errs := make([]error, 0, len(last))
	for _, p := range last {
		errs = append(errs, s.end(ctx, p.Name, p))
	}
	return errors.Join(errs...)
}

// Info says what is known of a session without looking at its screen.
type Info struct {
	Name         string    `json:"name"`
	Alive        bool      `json:"alive"`               // its first program runs
	ExitCode     *int      `json:"exit_code,omitempty"` // of one that has ended, where no signal ended it
	Signal       string    `json:"signal,omitempty"`    // such as "SIGKILL", where one did and the backend knows
	Created      time.Time `json:"created"`
	LastActivity time.Time `json:"last_activity"` // when it last wrote something
	PID          int       `json:"pid"`           // of its first program
}

// Screen is what a session shows.
type Screen struct {
	Text         string `json:"text"` // the rows, without what is blank at their and its end
	Rows         int    `json:"rows"` // the terminal's size
	Columns      int    `json:"columns"`
	CursorRow    int    `json:"cursor_row"` // from 0
	CursorColumn int    `json:"cursor_column"`
	Title        string `json:"title"`
}

// List gives the sessions, alive or ended, by name.
func (s *Sessions) List(ctx context.Context) ([]Info, error) {
	panes, err := s.backend.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the sessions: %w", err)
	}
	all := make([]Info, 0, len(panes))
	for _, p := range panes {
		all = append(all, p.Info)
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Capture gives what a session shows, also one that has ended. The error is
// [ErrNotFound] where there is none.
func (s *Sessions) Capture(ctx context.Context, name string) (Screen, error) {
	screen, err := s.capture(ctx, name, false)
	return screen, wrap("capture", name, err)
}

// CaptureColoured is [Sessions.Capture] with the escape sequences of the screen's colours in the text, if the backend knows
// them: tmux does.
func (s *Sessions) CaptureColoured(ctx context.Context, name string) (Screen, error) {
	screen, err := s.capture(ctx, name, true)
	return screen, wrap("capture", name, err)
}

func (s *Sessions) capture(ctx context.Context, name string, coloured bool) (Screen, error) {
	if err := checkName(name); err != nil {
		return Screen{}, err
	}
	p, err := s.find(ctx, name)
	if err != nil {
		return Screen{}, err
	}
	if p == nil {
		return Screen{}, ErrNotFound
	}
	screens, err := s.backend.screens(ctx, []*pane{p}, coloured)
	if err != nil {
		return Screen{}, err
	}
	if p = screens[name]; p == nil {
		return Screen{}, ErrNotFound
	}
	return Screen{Text: p.text, Rows: p.rows, Columns: p.columns, CursorRow: p.cursorY, CursorColumn: p.cursorX, Title: p.title}, nil
}

// Cleanup kills the sessions that keep does not want, such as those that are
// left over from before a crash, and gives their names. It asks once it has listed
// them: keep need not know of those that are started meanwhile. It goes on after an
// error. On Linux it also ends processes of sessions that are themselves gone.
func (s *Sessions) Cleanup(ctx context.Context, keep func(name string) bool) ([]string, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	names, err := markedNames(s.instance)
	if err != nil {
		return nil, fmt.Errorf("look for left over processes: %w", err)
	}
	for _, info := range all {
		names = append(names, info.Name)
	}
	slices.Sort(names)
	var killed []string
	var errs []error
	for _, name := range slices.Compact(names) {
		if keep(name) {
			continue
		}
		if err := s.kill(ctx, name); err != nil {
			errs = append(errs, &Error{Op: "kill", Session: name, Err: err})
			continue
		}
		killed = append(killed, name)
	}
	return killed, errors.Join(errs...)
}

// environ gives what programs get of the daemon's environment. What ties the
// daemon itself to a session, or to a tmux, is never handed on.
func (s *Sessions) environ() map[string]string {
	env := map[string]string{}
	for _, entry := range inherit.Environ(s.o.InheritEnv) {
		name, value, _ := strings.Cut(entry, "=")
		if goodVar.MatchString(name) && !slices.Contains(reservedVars, name) {
			env[name] = value
		}
	}
	return env
}

// environOf gives what programs get of the environment beside what an effect says.
func (s *Sessions) environOf(u *confine.User) map[string]string {
	env := s.environ()
	if u == nil {
		return env
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME"} {
		delete(env, name)
	}
	for _, entry := range u.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}
