package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/pause"
)

// pollInterval is the time between two looks at something that changes.
const pollInterval = 20 * time.Millisecond

// Carry carries out [effects.Spawn], [effects.SendInput], [effects.Kill] and
// [effects.Nudge], and refuses all others. It returns when the deed is done: a
// Kill when the processes are gone. An [*Error] whose Permanent is true would be
// the same again. A Spawn results in {"session":"build","pid":4711}, the others
// in nothing.
//
// ref is the machine that asks: together with the session's name it tells the
// repetition of a Spawn, with the effect's number that of an input. Where it is
// zero, nothing is taken for one.
func (s *Sessions) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	return s.carry(ctx, place{s.root, s.namedRoot}, ref, e)
}

// CarryUnder is Carry for a session whose workspace lies under another directory than
// [Options.Root], such as the one of its tenant.
func (s *Sessions) CarryUnder(ctx context.Context, root string, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	real, named, err := resolveRoot(root)
	if err != nil {
		return nil, &Error{Op: "carry out", Err: invalid("%v", err)}
	}
	return s.carry(ctx, place{real, named}, ref, e)
}

func (s *Sessions) carry(ctx context.Context, under place, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	switch e := e.(type) {
	case effects.Spawn:
		p, err := s.spawn(ctx, under, starter(ref), e)
		if err != nil {
			return nil, &Error{Op: "spawn", Session: e.Session, Err: err}
		}
		return json.RawMessage(fmt.Sprintf(`{"session":%q,"pid":%d}`, p.Name, p.PID)), nil
	case effects.SendInput:
		return nil, wrap("send", e.Session, s.send(ctx, e.Session, key(ref, e.N), e.Input))
	case effects.Nudge:
		return nil, wrap("nudge", e.Session, s.send(ctx, e.Session, key(ref, e.N), e.Input))
	case effects.Kill:
		err := checkName(e.Session)
		if err == nil {
			err = s.kill(ctx, e.Session)
		}
		return nil, wrap("kill", e.Session, err)
	default:
		return nil, &Error{Op: "carry out", Err: invalid("effect %T is none of sessions", e)}
	}
}

func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Session: name, Err: err}
}

// starter tells whose session it is; empty where it cannot. The number is no part
// of it: a machine asks under a new one for what a crash has interrupted.
func starter(ref effects.Ref) string {
	if ref.IsZero() {
		return ""
	}
	return ref.ID.String()
}

// key tells an effect from all others; empty where it cannot.
func key(ref effects.Ref, n uint32) string {
	if ref.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s/%d", ref.ID, n)
}

func (s *Sessions) find(ctx context.Context, name string) (*pane, error) {
	panes, err := s.backend.look(ctx)
	return panes[name], err
}

func (s *Sessions) spawn(ctx context.Context, under place, starter string, e effects.Spawn) (*pane, error) {
	if err := checkSpawn(e); err != nil {
		return nil, err
	}
	unlock, err := s.locks.Lock(ctx, e.Session)
	if err != nil {
		return nil, err
	}
	defer unlock()
	p, err := s.find(ctx, e.Session)
	if err != nil {
		return nil, err
	}
	if p == nil || !p.Alive && (starter == "" || p.notes.spawn != starter) {
		if p, err = s.launch(ctx, under, starter, e, p); err != nil {
			return nil, err
		}
	}
	if p.Alive && p.notes.pending && p.notes.spawn == starter {
		if err := s.typeFirst(ctx, p, e.Input); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// launch starts a session in place of one that has ended, if there is one.
func (s *Sessions) launch(ctx context.Context, under place, starter string, e effects.Spawn, old *pane) (*pane, error) {
	dir, err := under.workspace(e.Workspace, s.o.CreateWorkspace, s.o.RunAs)
	if err != nil {
		return nil, err
	}
	l := launch{name: e.Session, dir: dir, argv: e.Command, env: s.environOf(s.o.RunAs)}
	l.notes = notes{spawn: starter, pending: typed(e.Input) != ""}
	if len(l.argv) == 0 {
		l.argv = []string{s.o.Shell}
	}
	maps.Copy(l.env, e.Env)
	l.env[sessionVar], l.env[instanceVar] = e.Session, s.instance
	if l.program, err = lookUp(l.argv[0], dir, l.env["PATH"]); err != nil {
		return nil, err
	}
	// What is left of the one before must not work beside this one.
	if err := s.end(ctx, e.Session, old); err != nil {
		return nil, err
	}
	startErr := s.start(ctx, l)
	p, err := s.find(ctx, e.Session)
	switch {
	case startErr != nil && err == nil && p != nil && p.Alive && starter != "" && p.notes.spawn == starter:
		return p, nil // started by whoever was killed amid this very Spawn, at this moment
	case startErr != nil:
		return nil, startErr
	case err == nil && p == nil:
		err = errors.New("it was gone as soon as it was started")
	}
	return p, err
}

// start starts a session as the user that it is to have.
func (s *Sessions) start(ctx context.Context, l launch) error {
	if s.o.RunAs == nil {
		return s.backend.start(ctx, l)
	}
	l, forget, err := asUser(l, s.o.RunAs)
	if err != nil {
		return err
	}
	if err = s.backend.start(ctx, l); err != nil {
		forget()
	}
	return err
}

// lookUp finds the program as execvp does in the session. The terminal would
// tell of a missing one in its own way, or not at all.
func lookUp(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if err := executable(file); err != nil {
			return "", invalid("command[0]: program %q cannot be run: %v", quoted(name), err)
		}
		return file, nil
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue // it would mean another program in each workspace
		}
		if file := filepath.Join(folder, name); executable(file) == nil {
			return file, nil
		}
	}
	return "", invalid("command[0]: program %q is not found in PATH %q", quoted(name), quoted(path))
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such file")
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a directory")
	}
	_, err = exec.LookPath(file)
	return err
}

// typeFirst types what a Spawn brought, once the program shows something, or
// after a time.
func (s *Sessions) typeFirst(ctx context.Context, p *pane, input string) error {
	deadline := time.Now().Add(max(0, s.o.InputWait))
	for !p.shows() && time.Now().Before(deadline) {
		if err := pause.For(ctx, pollInterval); err != nil {
			return err
		}
		now, err := s.find(ctx, p.Name)
		if err != nil {
			return err
		}
		if now == nil || !now.Alive || now.id != p.id {
			return nil // it has ended: who watches it will see how
		}
		p = now
	}
	return s.typeText(ctx, p, "input", input)
}

// shows reports whether the program has written something.
func (p *pane) shows() bool { return p.cursorX > 0 || p.cursorY > 0 || p.history > 0 }

func (s *Sessions) send(ctx context.Context, name, key, input string) error {
	if err := errors.Join(checkName(name), checkInput(input)); err != nil {
		return err
	}
	unlock, err := s.locks.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := s.find(ctx, name)
	switch {
	case err != nil:
		return err
	case p == nil:
		return ErrNotFound
	case key != "" && slices.Contains(p.notes.typed, key):
		return nil
	case !p.Alive:
		return fmt.Errorf("%w, %s", ErrEnded, p.ending())
	}
	return s.typeText(ctx, p, key, input)
}

// ending says how a session has ended.
func (p *pane) ending() string {
	switch {
	case p.ExitCode != nil:
		return fmt.Sprintf("with exit code %d", *p.ExitCode)
	case p.Signal != "":
		return "by " + p.Signal
	default:
		return "by a signal"
	}
}

// typeText types a text, then return. What was done is noted with the deed, so
// that a repetition goes on where it was.
func (s *Sessions) typeText(ctx context.Context, p *pane, key, input string) error {
	n, half := p.notes, ""
	if key != "" {
		half = key + halfMark
	}
	// What was cut off between text and return, and is not asked for again, must
	// not become one line with this.
	if cut, ok := n.cutOff(); ok && cut != key {
		n = n.with(cut)
		if err := s.press(ctx, p, keys{enter: true}, n); err != nil {
			return err
		}
	}
	if text := typed(input); text != "" && (half == "" || !slices.Contains(n.typed, half)) {
		n = n.with(half)
		if err := s.press(ctx, p, keys{text: text}, n); err != nil {
			return err
		}
	}
	n = n.with(key)
	n.pending = false
	return s.backend.write(ctx, p, keys{enter: true}, n)
}

// press types text or return, and leaves the program the time to see what is typed
// next as something else.
func (s *Sessions) press(ctx context.Context, p *pane, k keys, n notes) error {
	if err := s.backend.write(ctx, p, k, n); err != nil {
		return err
	}
	return pause.For(ctx, s.o.EnterDelay)
}

// halfMark ends the key of an effect whose text was typed without the return.
const halfMark = "+"

// cutOff gives the effect whose text was typed last, where its return was not.
func (n notes) cutOff() (key string, ok bool) {
	if len(n.typed) == 0 {
		return "", false
	}
	return strings.CutSuffix(n.typed[len(n.typed)-1], halfMark)
}

// with adds a key to what was typed; the one for its text alone is dropped.
func (n notes) with(key string) notes {
	if key == "" {
		return n
	}
	n.typed = slices.DeleteFunc(slices.Clone(n.typed), func(k string) bool { return k == key+halfMark })
	n.typed = append(n.typed, key)
	n.typed = n.typed[max(0, len(n.typed)-typedKept):]
	return n
}

func (s *Sessions) kill(ctx context.Context, name string) error {
	unlock, err := s.locks.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	return s.end(ctx, name, p)
}

// end ends all processes of a session, then the session, so that one who is
// interrupted in between finds it again. p is nil where only processes can be
// left.
func (s *Sessions) end(ctx context.Context, name string, p *pane) error {
	t := tree{name: name, instance: s.instance}
	if p != nil {
		t.leader, t.alive, t.spare = p.PID, p.Alive, p.server
	}
	if err := t.end(ctx, s.o.KillGrace); err != nil {
		return err
	}
	if p == nil {
		return nil
	}
	return s.backend.forget(ctx, p)
}
