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

// Become has this process run as the user from now on, with none of its groups of before.
func (u *User) Become() error {
	if err := u.Check(); err != nil {
		return err
	}
	if u.Credential() == nil {
		return nil // it is the user
	}
	groups := make([]int, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = int(g)
	}
	for _, set := range []func() error{
		func() error { return syscall.Setgroups(groups) },
		func() error { return syscall.Setgid(int(u.GID)) },
		func() error { return syscall.Setuid(int(u.UID)) },
	} {
		if err := set(); err != nil {
			return fmt.Errorf("become the user %d: %w", u.UID, err)
		}
	}
	return nil
}

// Own gives a folder to the user, if it is this process's own. No link is followed.
func (u *User) Own(root *os.Root, folder string) error {
	f, err := root.OpenFile(folder, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return nil
	}
	return f.Chown(int(u.UID), int(u.GID))
}
