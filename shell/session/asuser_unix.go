//go:build unix

package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/orrery-go/orrery/shell/confine"
)

// asUserArg makes this program the one that becomes the user of a session, and then the
// session's program: see [Options.RunAs].
const asUserArg = "orrery-session-as"

// asUserPlan is what that program is told, by a file that only the daemon's user can read.
// The variables are there, and not in its own environment: those of a session must not
// decide what runs before it has its user.
type asUserPlan struct {
	User    *confine.User `json:"user"`
	Dir     string        `json:"dir"`
	Program string        `json:"program"`
	Argv    []string      `json:"argv"`
	Env     []string      `json:"env"`
}

// init turns a process that was started as one of these into it, before main.
func init() {
	if len(os.Args) == 3 && os.Args[1] == asUserArg && os.Getenv(instanceVar) != "" {
		err := becomeSession(os.Args[2])
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(126)
	}
}

// ofTerminal are the variables that a session has from its terminal.
var ofTerminal = []string{"TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "TMUX", "TMUX_PANE"}

// becomeSession takes the user of a session, and becomes its program.
func becomeSession(file string) error {
	p, err := takePlan(file)
	if err != nil {
		return err
	}
	env := p.Env
	for _, name := range ofTerminal {
		given := func(entry string) bool { return strings.HasPrefix(entry, name+"=") }
		if value, ok := os.LookupEnv(name); ok && !slices.ContainsFunc(p.Env, given) {
			env = append(env, name+"="+value)
		}
	}
	_ = os.Stdin.Chown(int(p.User.UID), -1) // a program may open its terminal by its name; where it is none, nothing is lost
	if err := p.User.Become(); err != nil {
		return err
	}
	if err := os.Chdir(p.Dir); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", p.Program, syscall.Exec(p.Program, p.Argv, env))
}

// takePlan reads a plan of this user's, and removes it.
func takePlan(file string) (p asUserPlan, err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW, 0) //nolint:gosec // the daemon names it
	if err != nil {
		return p, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return p, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm() != 0o600 {
		return p, fmt.Errorf("%s: is not a file of this user alone", file)
	}
	err = json.NewDecoder(f).Decode(&p)
	if err == nil && (p.User == nil || len(p.Argv) == 0) {
		err = errors.New("names no user or no program")
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	return p, os.Remove(file) //nolint:gosec // it was opened, and is this user's
}

// asUser has a session begin as another user. forget removes what a start that failed has
// left.
func asUser(l launch, u *confine.User) (_ launch, forget func(), err error) {
	exe, err := os.Executable()
	if err != nil {
		return l, nil, err
	}
	p := asUserPlan{User: u, Dir: l.dir, Program: l.program, Argv: l.argv}
	for name, value := range l.env {
		p.Env = append(p.Env, name+"="+value)
	}
	f, err := os.CreateTemp("", "orrery-session-") // mode 0600
	if err != nil {
		return l, nil, err
	}
	forget = func() { _ = os.Remove(f.Name()) }
	if err := errors.Join(json.NewEncoder(f).Encode(p), f.Close()); err != nil {
		forget()
		return l, nil, err
	}
	l.env = map[string]string{sessionVar: l.env[sessionVar], instanceVar: l.env[instanceVar]}
	l.dir, l.program, l.argv = "/", exe, []string{exe, asUserArg, f.Name()}
	return l, forget, nil
}
