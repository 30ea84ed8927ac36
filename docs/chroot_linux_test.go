package docs_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// intoFolder lets a command see nothing but a folder, as the user of the image.
func intoFolder(cmd *exec.Cmd, dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("chroot takes root")
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	return nil
}
