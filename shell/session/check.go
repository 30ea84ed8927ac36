package session

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/confine"
)

const (
	maxArgs    = 1000
	maxWord    = 64 << 10  // one argument or variable: Linux takes 128 KiB
	maxWords   = 512 << 10 // all of them: macOS takes 1 MiB
	maxInput   = 256 << 10
	maxPathLen = 4096
)

var (
	goodName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	goodVar  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

func checkName(name string) error {
	if !goodName.MatchString(name) {
		return invalid("session: %q is not a name of a session: want 1 to 64 of a-z, A-Z, 0-9, '_' and '-'", quoted(name))
	}
	return nil
}

// checkSpawn checks all but the workspace, which depends on what is there.
func checkSpawn(e effects.Spawn) error {
	if err := errors.Join(checkName(e.Session), checkInput(e.Input)); err != nil {
		return err
	}
	if len(e.Command) > maxArgs {
		return invalid("command: has %d elements: want at most %d", len(e.Command), maxArgs)
	}
	total := 0
	for i, arg := range e.Command {
		if err := checkWord(arg); err != nil {
			return invalid("command[%d]: %q %v", i, quoted(arg), err)
		}
		total += len(arg)
	}
	if len(e.Command) > 0 && (e.Command[0] == "" || strings.HasPrefix(e.Command[0], "-")) {
		return invalid("command[0]: %q is not a program: want a name or a path that does not begin with '-'", quoted(e.Command[0]))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		switch value := e.Env[name]; {
		case len(name) > 200 || !goodVar.MatchString(name):
			return invalid("env: %q is not the name of a variable: want letters, digits and '_', at most 200", quoted(name))
		case slices.Contains(reservedVars, name):
			return invalid("env: variable %q is reserved: the session sets it itself", name)
		default:
			if err := checkWord(value); err != nil {
				return invalid("env.%s: %q %v", name, quoted(value), err)
			}
			total += len(name) + len(value)
		}
	}
	if total > maxWords {
		return invalid("command and env: have %d bytes together: want at most %d", total, maxWords)
	}
	return nil
}

func checkWord(s string) error {
	switch {
	case !utf8.ValidString(s):
		return errors.New("is not valid UTF-8")
	case strings.ContainsRune(s, 0):
		return errors.New("contains a zero byte, which no argument can")
	case len(s) > maxWord:
		return invalid("has %d bytes: want at most %d", len(s), maxWord)
	}
	return nil
}

// checkInput refuses what would act on the terminal or its program instead of
// being text: escape sequences could end a bracketed paste, ^C a program.
func checkInput(s string) error {
	switch {
	case len(s) > maxInput:
		return invalid("input: has %d bytes: want at most %d", len(s), maxInput)
	case !utf8.ValidString(s):
		return invalid("input: %q is not valid UTF-8", quoted(s))
	}
	i := strings.IndexFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0
	})
	if i >= 0 {
		return invalid("input: has the control character %q at byte %d: want text, with line ends and tabs only", []rune(s[i:])[0], i)
	}
	return nil
}

// typed gives the text as it is typed: lines end with "\n" alone, and the last
// one's end is the return that follows anyway.
func typed(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	return strings.TrimSuffix(s, "\n")
}

// place is a directory under which workspaces lie.
type place struct {
	root  string // without links
	named string // as configured
}

// workspace gives the directory in which a session starts, free of links. It is made where
// it is missing, if create is set, and then belongs to the user, who must be able to enter it.
func (s place) workspace(dir string, create bool, user *confine.User) (string, error) {
	switch {
	case !utf8.ValidString(dir) || strings.ContainsRune(dir, 0) || len(dir) > maxPathLen:
		return "", invalid("workspace: %q is not a path: want UTF-8 without zero bytes, at most %d bytes", quoted(dir), maxPathLen)
	case slices.Contains(strings.Split(filepath.ToSlash(dir), "/"), ".."):
		return "", invalid("workspace: %q contains \"..\": want a directory under %q, named directly", quoted(dir), s.root)
	}
	local := dir
	if filepath.IsAbs(dir) {
		var ok bool
		if local, ok = s.underRoot(dir); !ok {
			return "", invalid("workspace: %q leads out of the workspace root %q", quoted(dir), s.root)
		}
	}
	if local == "" {
		local = "."
	}
	path := filepath.Join(s.root, local)
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err := s.makeWorkspace(local, user); err != nil {
			return "", err
		}
		resolved, err = filepath.EvalSymlinks(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", invalid("workspace: directory %q does not exist under the workspace root %q", quoted(dir), s.root)
	case err != nil:
		return "", invalid("workspace: %q cannot be used: %v", quoted(dir), err)
	}
	if _, ok := s.underRoot(resolved); !ok {
		return "", invalid("workspace: %q is a link that leads out of the workspace root %q, to %q", quoted(dir), s.root, quoted(resolved))
	}
	if info, err := os.Stat(resolved); err != nil || !info.IsDir() {
		return "", invalid("workspace: %q is not a directory", quoted(dir))
	}
	if user != nil {
		if err := user.CanEnter(resolved); err != nil {
			return "", invalid("workspace: %v: give it to that user: chown -R %d:%d %s", err, user.UID, user.GID, quoted(resolved))
		}
	}
	return resolved, nil
}

// makeWorkspace makes a directory and those above it. No link leads it out of
// the root: os.Root sees to that.
func (s place) makeWorkspace(local string, user *confine.User) error {
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	made := ""
	for name := range strings.SplitSeq(filepath.Clean(local), string(filepath.Separator)) {
		made = filepath.Join(made, name)
		err := root.Mkdir(made, 0o750)
		if err == nil && user != nil {
			err = user.Own(root, made)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return invalid("workspace: %q cannot be made under the workspace root %q: %v", quoted(local), s.root, err)
		}
	}
	return nil
}

// underRoot gives what stands after the root, as it was configured or without
// links.
func (s place) underRoot(path string) (string, bool) {
	for _, root := range []string{s.root, s.named} {
		if local, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(local) {
			return local, true
		}
	}
	return "", false
}
