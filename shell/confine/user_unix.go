//go:build unix

package confine

import (
	"fmt"
	"os"
	"os/exec"
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

// Bind has cmd run as the user, with none of this process's groups.
func (u *User) Bind(cmd *exec.Cmd) {
	if os.Geteuid() != 0 {
		return // it is the user itself: see Check
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}
