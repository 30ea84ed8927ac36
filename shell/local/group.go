//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/orrery-go/orrery/shell/confine"
)

// groupPrefix begins the names of the control groups of pods.
const groupPrefix = "pod-"

func groupOf(dir string) string { return groupPrefix + filepath.Base(dir) }

// makeGroup makes the pod's control group, if it is to have one. The supervisor makes it and
// not the daemon: it alone is certain that no program of the pod runs yet.
func (s *supervisor) makeGroup() error {
	if s.plan.Group == nil {
		return nil
	}
	tree, err := confine.OpenTree(s.plan.Group.Root, s.plan.Group.Limits)
	if err != nil {
		return err
	}
	s.group, err = tree.Make(groupOf(s.dir), s.plan.Group.Limits)
	return err
}

// endGroup ends what is left in the group. Where that fails, the deletion tries again.
func (s *supervisor) endGroup() {
	if s.group != nil {
		_ = s.group.Close()
		s.group = nil
	}
}

// removeGroup ends and removes the control group that the pod in dir had, if it had one.
func removeGroup(dir string) error {
	p, err := readPlan(dir)
	if err != nil || p.Group == nil {
		return nil //nolint:nilerr // without a plan nothing was started
	}
	tree, err := confine.OpenTree(p.Group.Root, confine.Limits{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the system has begun anew without it
	}
	if err != nil {
		return err
	}
	return tree.Remove(groupOf(dir))
}
