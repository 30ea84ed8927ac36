package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// command is how this program is started, so that what it prints can be typed: by its name alone if the shell finds it
// under that, else by its path.
func (a *app) command() string {
	exe, err := os.Executable()
	if err != nil {
		return "orreryd"
	}
	info, _ := debug.ReadBuildInfo()
	return commandOf(exe, info, exec.LookPath)
}

// daemonPackage is the folder of this program in its module.
const daemonPackage = "examples/orreryd"

// commandOf is [app.command] of the program in a file.
func commandOf(exe string, info *debug.BuildInfo, find func(name string) (string, error)) string {
	if strings.Contains(exe, "go-build") { // go run deletes it at its end
		return "go run " + runnable(info)
	}
	name := filepath.Base(exe)
	if found, err := find(name); err == nil && sameFile(found, exe) {
		return name
	}
	return text.ShellWord(exe)
}

// runnable is what go run takes to run this program: the folder, seen from here, or else the package, with the version
// if it is of no checkout.
func runnable(info *debug.BuildInfo) string {
	if stat, err := os.Stat(daemonPackage); info == nil || err == nil && stat.IsDir() {
		return "./" + daemonPackage
	}
	pkg := info.Main.Path + "/" + daemonPackage
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs") {
			return pkg
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		pkg += "@" + v
	}
	return pkg
}

func sameFile(a, b string) bool {
	is, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(is, other)
}
