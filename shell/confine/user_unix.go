//go:build unix

package confine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// Check reports whether this process can start programs as the user: only root can, or the
// user itself. (A capability alone is not enough: the program would inherit it.)
func (u *User) Check() error {
	if os.Geteuid() == 0 || os.Geteuid() == int(u.UID) && os.Getegid() == int(u.GID) {
		return nil
	}
	return fmt.Errorf("only root can start programs as another user (%d): this process is the user %d", u.UID, os.Geteuid())
}

// Credential is what a program is started with to run as the user; nil if this process is
// that user itself: see Check.
func (u *User) Credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// CanEnter reports which folder of an absolute path the user cannot enter, by the modes of
// all folders on the way.
func (u *User) CanEnter(path string) error {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		shift := 0
		switch {
		case ok && st.Uid == u.UID:
			shift = 6
		case ok && (st.Gid == u.GID || slices.Contains(u.Groups, st.Gid)):
			shift = 3
		}
		if u.UID != 0 && info.Mode().Perm()>>shift&1 == 0 {
			return fmt.Errorf("the user %d cannot enter %s, whose mode is %04o", u.UID, dir, info.Mode().Perm())
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// Bind has cmd run as the user, with none of this process's groups.
func (u *User) Bind(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = u.Credential()
}
