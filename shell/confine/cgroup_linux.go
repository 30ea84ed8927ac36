package confine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell/internal/pause"
)

// Tree is a part of the hierarchy of control groups that was delegated to this process: it
// may make groups there. It is safe for concurrent use.
type Tree struct{ root string }

// OpenTree checks that root is a directory of cgroup v2 in which groups can be made, and has
// it hand on the controllers that the limits need. No process may be in root itself: with
// systemd, Delegate=yes and DelegateSubgroup=.
func OpenTree(root string, l Limits) (*Tree, error) {
	var at unix.Statfs_t
	if err := unix.Statfs(root, &at); err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	if at.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, fmt.Errorf("%s: is no directory of cgroup v2", root)
	}
	return openTree(root, l)
}

func openTree(root string, l Limits) (*Tree, error) {
	if err := unix.Access(root, unix.W_OK); err != nil {
		return nil, fmt.Errorf("%s: no groups can be made there: it must be delegated to this user: %w", root, err)
	}
	have, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	for _, name := range l.controllers() {
		if !slices.Contains(strings.Fields(string(have)), name) {
			return nil, fmt.Errorf("%s: has no controller %q, which a limit needs: it has %s", root, name, strings.TrimSpace(string(have)))
		}
		if err := write(filepath.Join(root, "cgroup.subtree_control"), "+"+name); err != nil {
			return nil, fmt.Errorf("hand on the controller %q (no process may be in %s itself): %w", name, root, err)
		}
	}
	return &Tree{root}, nil
}

func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Group is one control group. Close it once its program has ended.
type Group struct {
	path string
	dir  *os.File
}

// Make makes a group with limits. The name must be good for a directory; a group of that
// name that is left over is ended first.
func (t *Tree) Make(name string, l Limits) (_ *Group, err error) {
	g := &Group{path: filepath.Join(t.root, name)}
	if err := os.Mkdir(g.path, 0o750); errors.Is(err, fs.ErrExist) {
		if err := g.remove(); err != nil {
			return nil, err
		}
		err = os.Mkdir(g.path, 0o750)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	for file, text := range l.files() {
		err := write(filepath.Join(g.path, file), text)
		if err != nil && (!optional[file] || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("set %s of the control group: %w", file, err)
		}
	}
	g.dir, err = os.Open(g.path)
	return g, err
}

// Sweep ends and removes the groups with that beginning of their names: what a process that
// was killed has left behind.
func (t *Tree) Sweep(prefix string) error {
	entries, err := os.ReadDir(t.root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			err = errors.Join(err, (&Group{path: filepath.Join(t.root, e.Name())}).remove())
		}
	}
	return err
}

// Bind has cmd begin in the group, with all that it starts.
func (g *Group) Bind(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	g.BindProcess(cmd.SysProcAttr)
}

// BindProcess has a process that is started with the attributes begin in the group, with all
// that it starts.
func (g *Group) BindProcess(a *syscall.SysProcAttr) {
	a.UseCgroupFD, a.CgroupFD = true, int(g.dir.Fd())
}

// Remove ends and removes the group of that name, if there is one.
func (t *Tree) Remove(name string) error {
	return (&Group{path: filepath.Join(t.root, name)}).remove()
}

// Root is the directory of the tree.
func (t *Tree) Root() string { return t.root }

// Close ends all that is left in the group, wherever it went, and removes the group.
func (g *Group) Close() error {
	var err error
	if g.dir != nil {
		err = g.dir.Close()
	}
	return errors.Join(err, g.remove())
}

// remove kills and removes; a killed process is in its group until it is gone.
func (g *Group) remove() error {
	err := write(filepath.Join(g.path, "cgroup.kill"), "1") // from Linux 5.14
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end what is left in the control group: %w", err)
	}
	for wait := time.Millisecond; ; wait *= 2 {
		err := unix.Rmdir(g.path)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || wait > time.Second {
			return fmt.Errorf("remove the control group %s: %w", g.path, err)
		}
		if err := pause.For(context.Background(), wait); err != nil {
			return err
		}
	}
}
