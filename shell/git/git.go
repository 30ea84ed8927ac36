// Package git carries out the git effects of the core with the git command
// (003 WorktreeAdd, WorktreeRemove, Merge).
//
// # What it may touch
//
// Every repository and every path of an effect lies under [Options.Root], also
// after symbolic links are resolved. A relative one is taken from there. A
// repository whose git directory, or a checkout of a merged branch, lies outside
// is refused too. That guards against mistakes; it is no jail against someone
// who changes links under the root while a command runs.
//
// The git command gets its arguments without a shell in between; names are
// checked so that none is read as an option. Hooks, editors, pagers, prompts,
// signing, rerere and automatic garbage collection are off, and the daemon's
// environment is not handed on (see [Options.Env]). What a repository's own
// configuration names as filter or merge driver does run: who may write the
// configuration of a repository may run programs as the daemon.
//
// # Merging
//
// fast-forward moves the target on to the branch, or fails with "not a
// fast-forward". rebase rebases the branch onto the target, in a temporary
// worktree under the repository's git directory, never in a checkout of the
// user's; fails with "conflict" and the files; and else moves both branches in
// one transaction that compares them with what they were. Where one of them is
// checked out, the files there follow, provided that no tracked file has changes
// and no untracked file is in the way: otherwise the merge fails with "dirty
// worktree" and the files. A merge that fails leaves refs and checkouts as they
// were. What is merged already is no error.
//
// A plain rebase makes the branch linear: merge commits in it are left out, as
// git does. Commits lose their signatures; the committer is the configured user,
// or else [Options.Author].
//
// # Interruptions
//
// The operations on one repository are done one at a time, by a lock file
// orrery-tmp/lock in its git directory that the git commands inherit: what is
// left of an operation whose daemon was killed is known to be dead when the lock
// is free. It is then finished or taken back before anything else is done, so
// that every effect can simply be carried out again. On Linux the git commands
// are told to end (SIGTERM, so that they remove their own lock files) when the
// daemon dies.
//
// Lock files of git itself are waited for: see [Options.LockWait]. One that another
// git holds is never removed. One that a command of ours has left, as git
// does where it or the whole system is killed, is removed on Linux, once the
// wait is over, if all of this holds:
//
//   - a note in orrery-tmp says that commands of ours were at work, and they are
//     known to be dead;
//   - it is one of the files that they make, belongs to the daemon's user, was
//     made between the note and the moment in which they were known to be dead,
//     and is the same file since then, for at least as long as LockWait;
//   - no process has it open, nor is there a git process left that was at work on
//     the repository when it was found; or the system was started anew since.
//
// Processes are looked for where the daemon sees them. In a container, where it
// does not see those outside, an index.lock that is not empty stays too, as git
// holds it while a person writes a message. Any other lock of a git outside, or on
// another machine with the same files, could be taken for left if it was made
// just while a command of ours was at work and died, and was held for longer than
// LockWait afterwards. Without Linux, and for refs that are kept as reftable, the
// operator removes what was left.
//
// A cancelled context ends the command's process group with SIGTERM, and with
// SIGKILL after five seconds; then the operation is taken back.
//
// # Files
//
//   - git.go: options, [New], and the three effects;
//   - repo.go: a repository with one operation at work; names.go: branches and paths;
//   - worktree.go: WorktreeAdd and WorktreeRemove;
//   - merge.go: Merge; publish.go: branches move and checkouts follow; recover.go: what
//     an interrupted merge has left;
//   - run.go: a git command with its time limit; errors.go: what went wrong;
//   - leftlocks.go, processes_*.go: lock files that dead commands of ours have left.
package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/keymutex"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

const (
	defaultLockWait  = 10 * time.Second
	defaultTimeLimit = 10 * time.Minute
	cleanUpLimit     = 5 * time.Minute // for taking back what a cancelled operation has begun
	versionLimit     = time.Minute

	oldestMajor, oldestMinor = 2, 30 // rev-parse --end-of-options
)

// Options are the operator's choices. Only Root must be given.
type Options struct {
	// Root is the workspace root, an existing directory: all repositories and
	// worktrees lie under it.
	Root string
	// Git is the git program, 2.30 or later. Empty means the one in PATH.
	Git string
	// Env names the variables of the daemon's environment that git gets. Nil
	// means [DefaultEnv], empty means none. Variables that send git elsewhere,
	// such as GIT_DIR, are refused.
	Env []string
	// LockWait is how long to wait for a lock file of git's own, or for another
	// process at work on the repository. Zero means 10 seconds, negative means
	// not at all, but for the second in which it shows that a lock was left.
	LockWait time.Duration
	// TimeLimit bounds one effect. Zero means 10 minutes, negative means no limit
	// besides the context's.
	TimeLimit time.Duration
	// Author and Email are the committer of rebased commits where the user's
	// configuration names none. Empty means "Orrery" and "orrery@localhost". The
	// authors of the commits stay.
	Author string
	Email  string
}

// DefaultEnv is what git gets of the daemon's environment unless [Options.Env]
// says otherwise: what it needs to find its programs and its configuration.
func DefaultEnv() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "XDG_CONFIG_HOME",
		"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
		"SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "PROGRAMDATA", // Windows
	}
}

// allowedGitEnv are the variables of git that do not send it elsewhere.
var allowedGitEnv = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"}

// Git carries out git effects. Make it with [New]; it is safe for concurrent use
// and needs no closing.
type Git struct {
	o     Options // with its defaults; no limit is 0
	root  string  // absolute, without symbolic links
	bin   string
	env   []string
	minor int // of the version, counted from 2.0; later majors count as 1000

	locks keymutex.Map[string] // by git directory: one operation at a time

	grace     time.Duration
	unchanged time.Duration // see defaultUnchanged
	seesAll   func() bool   // whether no process of the system is hidden from the daemon
	step      func(string)  // a test's view of how far an operation is
}

// New makes a Git, for which it asks git for its version. The error names the
// option that cannot be right.
func New(o Options) (*Git, error) {
	o.LockWait = max(0, cmp.Or(o.LockWait, defaultLockWait))
	o.TimeLimit = max(0, cmp.Or(o.TimeLimit, defaultTimeLimit))
	o.Author, o.Email = cmp.Or(o.Author, "Orrery"), cmp.Or(o.Email, "orrery@localhost")
	g := &Git{o: o, grace: killGrace, unchanged: defaultUnchanged, seesAll: seesAllProcesses, step: func(string) {}}
	var err error
	if g.root, err = rootOf(o.Root); err != nil {
		return nil, err
	}
	for _, field := range []struct{ name, value string }{{"Author", o.Author}, {"Email", o.Email}} {
		if i := strings.IndexFunc(field.value, func(r rune) bool { return r < 0x20 || r == '<' || r == '>' || r == 0x7f }); i >= 0 {
			return nil, fmt.Errorf("option %s: %q has the character %q, which cannot stand in a commit", field.name, field.value, field.value[i])
		}
	}
	if g.env, err = environ(o.Env); err != nil {
		return nil, err
	}
	if g.bin, err = exec.LookPath(cmp.Or(o.Git, "git")); err != nil {
		return nil, fmt.Errorf("option Git: the git command is needed: install git %d.%d or later, or give its path: %w", oldestMajor, oldestMinor, err)
	}
	if g.bin, err = filepath.Abs(g.bin); err != nil {
		return nil, fmt.Errorf("option Git: %w", err)
	}
	return g, g.readVersion()
}

func rootOf(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("option Root: must name the directory under which repositories and worktrees lie, is empty")
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("option Root: %w", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", fmt.Errorf("option Root: %q is not a directory that can be read", dir)
	}
	return abs, nil
}

func environ(names []string) ([]string, error) {
	if names == nil {
		names = DefaultEnv()
	}
	var env []string
	for _, name := range names {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return nil, fmt.Errorf("option Env: %q is not the name of a variable: want one such as %q", name, "HOME")
		case strings.HasPrefix(strings.ToUpper(name), "GIT_") && !slices.Contains(allowedGitEnv, name):
			return nil, fmt.Errorf("option Env: %q would change where or how git works: only %s of its variables may be handed on", name, strings.Join(allowedGitEnv, ", "))
		}
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}

var versionPattern = regexp.MustCompile(`^git version (\d+)\.(\d+)`)

func (g *Git) readVersion() error {
	ctx, cancel := context.WithTimeout(context.Background(), versionLimit)
	defer cancel()
	out, err := g.exec(ctx, command{dir: g.root, args: []string{"version"}})
	if err != nil {
		return fmt.Errorf("option Git: %q does not tell its version: %w", g.bin, err)
	}
	m := versionPattern.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("option Git: %q is not git: it calls itself %q", g.bin, clip.Text(strings.TrimSpace(out), 100))
	}
	major, _ := strconv.Atoi(m[1])
	g.minor, _ = strconv.Atoi(m[2])
	if major > oldestMajor {
		g.minor = 1000
	}
	if major < oldestMajor || g.minor < oldestMinor {
		return fmt.Errorf("option Git: %q is version %s.%s: %d.%d or later is needed", g.bin, m[1], m[2], oldestMajor, oldestMinor)
	}
	return nil
}

// Carry carries out one effect, [effects.WorktreeAdd], [effects.WorktreeRemove]
// or [effects.Merge], and gives its result as JSON: an [AddResult], a
// [RemoveResult] or a [MergeResult]. It may be repeated after any end. An error
// is an [*Error].
func (g *Git) Carry(ctx context.Context, _ effects.Ref, e effects.Outer) (json.RawMessage, error) {
	if g.o.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.o.TimeLimit, fmt.Errorf("the time limit of %v is over", g.o.TimeLimit))
		defer cancel()
	}
	var result any
	var err error
	switch e := e.(type) {
	case effects.WorktreeAdd:
		result, err = g.add(ctx, e)
	case effects.WorktreeRemove:
		result, err = g.remove(ctx, e)
	case effects.Merge:
		result, err = g.merge(ctx, e)
	default:
		return nil, &Error{Op: "git", Reason: fmt.Sprintf("an effect %T is not one of git's", e), permanent: true}
	}
	if err != nil {
		return nil, err
	}
	raw, err := plainjson.Marshal(result)
	if err != nil {
		return nil, &Error{Op: "git", Reason: "encode the result", Err: err}
	}
	return raw, nil
}
