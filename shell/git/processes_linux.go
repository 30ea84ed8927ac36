package git

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell/internal/procs"
)

// seesProcesses says whether it can be told which processes are at work.
const seesProcesses = true

// initialNamespace is the name that Linux gives to the namespace of all its
// processes.
const initialNamespace = "pid:[4026531836]"

// seesAllProcesses reports whether no process of this system is hidden from the
// daemon, as those outside a container are.
func seesAllProcesses() bool {
	name, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && name == initialNamespace
}

// bootID tells one run of the system from another. Empty means unknown.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// gitProcesses lists the processes of git of the daemon's user that may be at
// work in one of the directories.
func gitProcesses(dirs []string) ([]process, error) {
	all, err := runningProcesses()
	var found []process
	for _, p := range all {
		if (p.name == "git" || strings.HasPrefix(p.name, "git-")) && mayWorkIn(p.ID, dirs) {
			found = append(found, p.process)
		}
	}
	return found, err
}

type namedProcess struct {
	process
	name string
}

// runningProcesses lists the processes of the daemon's user that have not ended. Others
// cannot have made a file of its.
func runningProcesses() ([]namedProcess, error) {
	return procs.All(func(id int) (namedProcess, bool, error) {
		if !procs.Ours(id) {
			return namedProcess{}, false, nil
		}
		st, ok, err := procs.ReadStat(procs.Dir(id))
		return namedProcess{process{ID: id, Began: st.Started}, st.Name}, ok && err == nil && !st.Ended(), nil
	})
}

// mayWorkIn reports whether a process is in one of the directories, or was told
// of one in another way.
func mayWorkIn(id int, dirs []string) bool {
	proc := procs.Dir(id)
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	if err != nil || slices.ContainsFunc(dirs, func(dir string) bool {
		rel, err := filepath.Rel(dir, cwd)
		return err != nil || filepath.IsLocal(rel)
	}) {
		return true
	}
	for file, prefixes := range map[string][]string{
		"cmdline": {"--git-dir", "--work-tree"},
		"environ": {"GIT_DIR=", "GIT_WORK_TREE=", "GIT_COMMON_DIR=", "GIT_INDEX_FILE="},
	} {
		b, err := os.ReadFile(filepath.Join(proc, file))
		if err != nil {
			return true
		}
		for word := range strings.SplitSeq(string(b), "\x00") {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) }) {
				return true
			}
		}
	}
	return false
}

// holderOf gives an error that names who may hold a lock file: one of some
// processes that has not ended, or whoever has the file open.
func holderOf(path string, gits []process) error {
	all, err := runningProcesses()
	if err != nil {
		return err
	}
	for _, p := range all {
		if slices.Contains(gits, p.process) || hasOpen(p.ID, path) {
			return fmt.Errorf("process %d (%s) may hold it", p.ID, p.name)
		}
	}
	return nil
}

func hasOpen(id int, path string) bool {
	dir := filepath.Join(procs.Dir(id), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended, or has put on other rights: git does not
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || filepath.Base(to) != filepath.Base(path) {
			continue
		}
		a, errA := os.Stat(filepath.Join(dir, e.Name()))
		b, errB := os.Stat(path)
		if errA != nil || errB != nil || os.SameFile(a, b) {
			return true
		}
	}
	return false
}
