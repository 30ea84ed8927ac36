// Package command is the built-in tool "command": it runs a program with its
// arguments, without a shell in between, and gives back what it printed (B7).
//
// The input is a JSON object, decoded strictly:
//
//	{
//	  "argv": ["date", "-u"],          the program and its arguments
//	  "env": {"KEY": "value"},         added to the environment
//	  "inherit_env": true,             false: nothing of the daemon's environment
//	  "dir": "/srv/jobs",              the working directory
//	  "stdin": "text",                 default: a webhook's raw payload, else nothing
//	  "timeout_seconds": 30,           default: Options.TimeLimit
//	  "success_codes": [0],            exit codes that complete the action
//	  "max_output_bytes": 65536        per stream; default: Options.MaxOutput
//	}
//
// The result is
//
//	{"exit_code":0,"stdout":"…","stderr":"…","stdout_dropped_bytes":0,"stderr_dropped_bytes":0,"duration_ms":12}
//
// A program that was started gives one however it ends: where it failed or was
// stopped, Run returns it beside the error. Where a signal ended it, exit_code
// is -1 and "signal" names it: "SIGKILL".
//
// # What a program is told
//
// Besides the environment that the policy and the input give, these are always
// set, and empty where they do not apply:
//
//   - ORRERY_ACTION_ID, ORRERY_ATTEMPT, ORRERY_IDEMPOTENCY_KEY, ORRERY_NAMESPACE,
//     ORRERY_TENANT and ORRERY_LABEL;
//   - ORRERY_DUE_AT (RFC 3339), and ORRERY_CYCLE, which counts the cycles of a periodic
//     action from 1;
//   - ORRERY_METADATA and ORRERY_LABELS, JSON objects of text;
//   - ORRERY_OCCURRENCE, ORRERY_RECURRING_ID and ORRERY_RECURRING_DISPATCH ("true"), where
//     a recurring action made the action: the entry of its history, and its marks in the
//     metadata;
//   - ORRERY_WEBHOOK_ROUTE and ORRERY_WEBHOOK_HEADERS, where a webhook made it: its route, and
//     the headers that were kept, a JSON object with their names in small letters; its body is
//     the standard input;
//   - ORRERY_LEFT_OUT, the names of variables that are empty because they would have
//     more than 64 KiB.
//
// The daemon's own environment is not handed on, since it holds secrets: see
// [Options.InheritEnv].
//
// # How a program ends
//
// A program runs in a process group of its own. When the action is cancelled,
// reaches a time limit or the engine stops, the group gets SIGTERM, and SIGKILL
// after [Options.KillGrace]; an action whose lease was taken over by another
// instance, or that is cancelled in the mode "kill", gets SIGKILL at once. When the program itself has ended, whatever is
// left of its group is killed too: a finished action leaves nothing running. A
// program that means to leave a daemon behind must start it in a session of its
// own (setsid); such a process cannot hold Run up by keeping the output open,
// but what it prints later is lost. Where the program is stopped, Linux ends
// such processes too, if they can be told: see below.
//
// On Linux the program also gets SIGKILL when the daemon dies, even by kill -9
// (PR_SET_PDEATHSIG). The program's own children do not inherit the setting and
// can outlive a daemon that is killed.
//
// # What a program leaves behind
//
// On Linux the processes of an action can be told by ORRERY_ACTION_ID in the
// environment with which they were started (/proc/PID/environ), wherever they
// went, together with ORRERY_IDEMPOTENCY_KEY, which stands for the cycle, and
// ORRERY_ATTEMPT. By that, those of the daemon's user get SIGKILL
//
//   - before an attempt that is not the first, whatever earlier attempts of the
//     same cycle have left, such as what outlived a daemon that was killed. If
//     one is not gone within [Options.KillGrace] (5 seconds, where that is
//     negative), the attempt fails without having started, with a [*StartError]
//     that names the process;
//   - when a program was stopped, for whatever reason, and has ended: what it
//     started outside its group.
//
// In both cases the rest of their process groups is ended with them, be it
// marked or not. The daemon and its ancestors are never touched.
//
// Not found are processes that were started without the variable, or have
// written over it, and left the group of those that have it; those of another
// user (sudo, setuid programs); those on another machine or in a container that
// the program asked a service to start; and all, where there is no /proc, which
// is logged. A daemon that is to outlive even this is started with
// "env -u ORRERY_ACTION_ID setsid". Elsewhere than on Linux nothing is looked for.
//
// # How long Run takes
//
// Run returns when the program is gone, never before: a process in an
// uninterruptible sleep keeps it until the kernel lets go, because to report an
// end that has not happened would let the work be done twice. Only for what
// left the program's group it waits no longer than [Options.KillGrace].
//
// On Windows there are neither groups nor SIGTERM: the program itself is
// terminated, and its children are left alone.
//
// # Files
//
//   - command.go: options and the input; run.go: one run; output.go: what of the output
//     is kept; errors.go: how a run failed;
//   - process*.go: a started program with its group;
//   - leftover*.go: processes of earlier attempts;
//   - other.go: what of both other systems cannot do.
package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/internal/inherit"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// Name is the tool_name under which the tool is registered.
const Name = "command"

const (
	defaultTimeLimit = time.Hour
	defaultMaxOutput = 64 << 10
	defaultKillGrace = 5 * time.Second

	maxTimeout     = 7 * 24 * time.Hour // what an input may ask for
	maxOutput      = 1 << 20            // what an input may ask for: results are journaled
	maxExitCodes   = 256
	maxStdinInline = 8 << 20
)

// Options are the operator's choices. The zero value is ready to use.
type Options struct {
	// TimeLimit bounds a run whose input has no timeout_seconds. Zero means one
	// hour, negative means no limit besides the engine's.
	TimeLimit time.Duration
	// MaxOutput is how many bytes of each of stdout and stderr are kept: half
	// from the start, half from the end. An input may ask for another number, up
	// to 1 MiB or MaxOutput, whichever is more. Zero means 64 KiB, negative means
	// that nothing is kept.
	MaxOutput int
	// KillGrace is the time between SIGTERM and SIGKILL, and the longest time that
	// what an earlier attempt left may take to be gone after SIGKILL. Zero means 5
	// seconds, negative means SIGKILL at once.
	KillGrace time.Duration
	// InheritEnv names the variables of the daemon's environment that programs
	// get; a name that ends with * stands for all with that beginning. Nil means
	// [DefaultInheritEnv], empty means none.
	InheritEnv []string
	// BaseDir, an absolute path, is where programs run whose input has no dir,
	// and what a relative dir is taken from. A dir that leads out of BaseDir is
	// refused; that guards against mistakes and is no jail, since symbolic links
	// are followed. Empty means the daemon's working directory; a dir must then
	// be absolute.
	BaseDir string
	// RelativeTo, an absolute path, is what a relative dir is taken from where there
	// is no BaseDir; such a dir may not lead out of it. Empty: a relative dir is
	// refused.
	RelativeTo string
	// RelativeToFor gives for the namespace and tenant of an action the directory that takes
	// the place of RelativeTo: an absolute path under it, without links. A dir under RelativeTo
	// that is not under this one is refused, links included. Nil: RelativeTo is everybody's. It
	// must be safe for concurrent use.
	RelativeToFor func(namespace, tenant string) (string, error)
	// RunAs, if not nil, is the user that programs run as; its variables HOME, USER and LOGNAME
	// win over inherited ones. The directory must be one that this user can enter. New asks its
	// Check.
	RunAs *confine.User
	// Cgroups, if not nil, is where each run has a control group of its own with Limits: all
	// that it starts is in it, and ends with it.
	Cgroups *confine.Tree
	Limits  confine.Limits
	// Executables, if not nil, are all the programs that may be run. argv[0] must
	// be one of them to the letter: either a bare name, which is looked up in the
	// daemon's PATH, or an absolute path. An input may then set only the variables
	// that AllowEnv lists. Beware of programs that run others, such as env or sh.
	Executables []string
	// AllowEnv names the variables that an input may set where Executables says
	// what may be run; a name that ends with * stands for all with that beginning.
	// Many variables make a program run other code: LD_PRELOAD, BASH_ENV,
	// PYTHONSTARTUP. Without Executables it means nothing.
	AllowEnv []string
}

// DefaultInheritEnv is what programs get of the daemon's environment unless
// [Options.InheritEnv] says otherwise: what a program needs to find its way,
// nothing that commonly holds a secret.
func DefaultInheritEnv() []string {
	names := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"}
	if runtime.GOOS == "windows" {
		names = append(names, "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERNAME",
			"USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "WINDIR")
	}
	return names
}

// Tool runs programs. Make it with [New]; it is safe for concurrent use and
// needs no closing.
type Tool struct {
	o         Options // with its defaults; no limit, no output and no grace are 0
	pipeDelay time.Duration
	sigkill   func(*os.Process) error
}

var (
	_ shell.Tool           = (*Tool)(nil)
	_ shell.InputValidator = (*Tool)(nil)
)

// New makes a Tool. The error names the option that cannot be right.
func New(o Options) (*Tool, error) {
	o.TimeLimit = max(0, cmp.Or(o.TimeLimit, defaultTimeLimit))
	o.MaxOutput = max(0, cmp.Or(o.MaxOutput, defaultMaxOutput))
	o.KillGrace = max(0, cmp.Or(o.KillGrace, defaultKillGrace))
	o.InheritEnv, o.Executables, o.AllowEnv = slices.Clone(o.InheritEnv), slices.Clone(o.Executables), slices.Clone(o.AllowEnv)
	if o.InheritEnv == nil {
		o.InheritEnv = DefaultInheritEnv()
	}
	if err := errors.Join(checkNames("InheritEnv", o.InheritEnv), checkNames("AllowEnv", o.AllowEnv)); err != nil {
		return nil, err
	}
	for _, name := range o.Executables {
		switch {
		case name == "":
			return nil, errors.New("Executables: has an empty name: want a name or a path of a program")
		case filepath.Base(name) != name && !filepath.IsAbs(name):
			return nil, fmt.Errorf("Executables: %q would mean another program in each directory: want a bare name or an absolute path", name)
		}
	}
	if o.BaseDir != "" {
		if !filepath.IsAbs(o.BaseDir) {
			return nil, fmt.Errorf("BaseDir: %q is not an absolute path", o.BaseDir)
		}
		if err := dirExists(o.BaseDir); err != nil {
			return nil, fmt.Errorf("BaseDir: %w", err)
		}
		o.BaseDir = filepath.Clean(o.BaseDir)
	}
	if o.RelativeTo != "" {
		if !filepath.IsAbs(o.RelativeTo) {
			return nil, fmt.Errorf("RelativeTo: %q is not an absolute path", o.RelativeTo)
		}
		o.RelativeTo = filepath.Clean(o.RelativeTo)
	}
	if o.RunAs != nil {
		if err := o.RunAs.Check(); err != nil {
			return nil, fmt.Errorf("RunAs: %w", err)
		}
	}
	if o.Limits.Any() && o.Cgroups == nil {
		return nil, errors.New("Limits: need Cgroups, where the groups are made")
	}
	return &Tool{o: o, pipeDelay: pipeDelay, sigkill: (*os.Process).Kill}, nil
}

func checkNames(option string, names []string) error {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return fmt.Errorf("%s: %q is not the name of a variable: want one such as %q or %q", option, name, "PATH", "LC_*")
		}
	}
	return nil
}

func dirExists(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("directory %q does not exist", dir)
	case err != nil:
		return fmt.Errorf("directory %q cannot be used: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory", dir)
	}
	return nil
}

// input is the tool's JSON input.
type input struct {
	Argv           []string          `json:"argv"`
	Env            map[string]string `json:"env"`
	InheritEnv     *bool             `json:"inherit_env"`
	Dir            string            `json:"dir"`
	Stdin          *string           `json:"stdin"`
	TimeoutSeconds *float64          `json:"timeout_seconds"`
	SuccessCodes   []int64           `json:"success_codes"`
	MaxOutputBytes *int64            `json:"max_output_bytes"`
}

// ValidateInput checks everything about an input that does not depend on what
// is installed: the error names the field, its value and what would be right.
func (t *Tool) ValidateInput(raw json.RawMessage) error {
	_, err := t.parse(raw)
	return err
}

func (t *Tool) parse(raw json.RawMessage) (input, error) {
	return strictjson.Checked("tool_input", raw, t.checkArgv, t.checkEnv, t.checkDir, t.checkLimits, checkCodes)
}

func (t *Tool) checkArgv(in *input) error {
	if len(in.Argv) == 0 {
		return errors.New("tool_input.argv: must have at least one element, the program to run")
	}
	if in.Argv[0] == "" {
		return errors.New("tool_input.argv[0]: must name the program to run, is empty")
	}
	if t.o.Executables != nil && !slices.Contains(t.o.Executables, in.Argv[0]) {
		return fmt.Errorf("tool_input.argv[0]: program %q is not allowed here: %s", in.Argv[0], allowed(t.o.Executables))
	}
	return nil
}

func (t *Tool) checkEnv(in *input) error {
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		upper := strings.ToUpper(name)
		switch {
		case name == "":
			return errors.New("tool_input.env: has a variable with an empty name")
		case strings.Contains(name, "="):
			return fmt.Errorf("tool_input.env: variable name %q must not contain '='", name)
		case strings.HasPrefix(upper, "ORRERY_"):
			return fmt.Errorf("tool_input.env: variable %q is reserved: Orrery sets those that begin with ORRERY_", name)
		case t.o.Executables != nil && !inherit.Listed(t.o.AllowEnv, name):
			return fmt.Errorf("tool_input.env: variable %q is not allowed where the programs are restricted: %s", name, allowed(t.o.AllowEnv))
		}
	}
	return nil
}

func allowed(names []string) string {
	if len(names) == 0 {
		return "none is"
	}
	return "use one of " + quoted(names)
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strconv.Quote(name)
	}
	return strings.Join(all, ", ")
}

func (t *Tool) checkDir(in *input) error {
	_, err := t.workDir(in.Dir)
	return err
}

// ownDir is workDir for an action of a namespace and tenant.
func (t *Tool) ownDir(dir, namespace, tenant string) (string, error) {
	path, err := t.workDir(dir)
	if err != nil || dir == "" || t.o.RelativeToFor == nil || t.o.BaseDir != "" {
		return path, err
	}
	own, err := t.o.RelativeToFor(namespace, tenant)
	if err != nil {
		return "", fmt.Errorf("tool_input.dir: %w", err)
	}
	if !filepath.IsAbs(dir) {
		path = filepath.Join(own, dir)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path, nil //nolint:nilerr // who runs the program says what is wrong with its directory
	}
	all, err := filepath.EvalSymlinks(t.o.RelativeTo)
	if err != nil {
		return "", fmt.Errorf("tool_input.dir: %w", err)
	}
	if !filepath.IsAbs(dir) && !under(own, real) || under(all, real) && !under(own, real) {
		return "", fmt.Errorf("tool_input.dir: %q leads out of the workspace of %s/%s, %q", dir, namespace, tenant, own)
	}
	return real, nil
}

// under reports whether a path lies under a directory, or is it.
func under(dir, path string) bool {
	local, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(local)
}

// workDir gives the directory to run in, empty for the daemon's own.
func (t *Tool) workDir(dir string) (string, error) {
	switch {
	case dir == "":
		return t.o.BaseDir, nil
	case t.o.BaseDir == "" && t.o.RelativeTo != "" && filepath.IsLocal(dir):
		return filepath.Join(t.o.RelativeTo, dir), nil
	case t.o.BaseDir == "" && t.o.RelativeTo != "" && !filepath.IsAbs(dir):
		return "", fmt.Errorf("tool_input.dir: %q leads out of the directory from which it is taken", dir)
	case t.o.BaseDir == "" && !filepath.IsAbs(dir):
		return "", fmt.Errorf("tool_input.dir: %q is relative, and neither a base directory nor a workspace is configured: give an absolute path", dir)
	case t.o.BaseDir == "":
		return filepath.Clean(dir), nil
	}
	local := dir
	if filepath.IsAbs(dir) {
		var err error
		if local, err = filepath.Rel(t.o.BaseDir, dir); err != nil {
			local = ".."
		}
	}
	if !filepath.IsLocal(local) {
		return "", fmt.Errorf("tool_input.dir: %q leads out of the base directory", dir)
	}
	return filepath.Join(t.o.BaseDir, local), nil
}

func (t *Tool) checkLimits(in *input) error {
	err := cmp.Or(strictjson.Within("tool_input.timeout_seconds", in.TimeoutSeconds, 0.001, maxTimeout.Seconds()),
		strictjson.Within("tool_input.max_output_bytes", in.MaxOutputBytes, 0, int64(max(maxOutput, t.o.MaxOutput))))
	if err == nil && in.Stdin != nil && len(*in.Stdin) > maxStdinInline {
		return fmt.Errorf("tool_input.stdin: has %d bytes: want at most %d", len(*in.Stdin), maxStdinInline)
	}
	return err
}

func checkCodes(in *input) error {
	most := int64(255)
	if runtime.GOOS == "windows" {
		most = 1<<32 - 1
	}
	if in.SuccessCodes != nil && len(in.SuccessCodes) == 0 {
		return errors.New("tool_input.success_codes: must have at least one element, or be left out for [0]")
	}
	if len(in.SuccessCodes) > maxExitCodes {
		return fmt.Errorf("tool_input.success_codes: has %d elements: want at most %d", len(in.SuccessCodes), maxExitCodes)
	}
	for i, c := range in.SuccessCodes {
		if c < 0 || c > most {
			return fmt.Errorf("tool_input.success_codes[%d]: %d is not an exit code: want 0 to %d", i, c, most)
		}
	}
	return nil
}
