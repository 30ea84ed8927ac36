package git

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	slashpath "path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell/internal/files"
)

// defaultUnchanged is the least time for which a lock file must have been unchanged
// before it counts as left, whatever LockWait is.
const defaultUnchanged = time.Second

// leftLock is a lock file of git's that may have been left by a command of ours
// that died.
type leftLock struct {
	Path  string    `json:"path"` // from the git directory, with slashes
	Inode uint64    `json:"inode"`
	Size  int64     `json:"size"`
	Made  time.Time `json:"made"` // when it was written last
	Seen  time.Time `json:"seen"` // when it was found
	Boot  string    `json:"boot"` // of the system, in which it was found
	Gits  []process `json:"gits"` // that were at work on the repository then: one of them holds it, or nobody
}

// process is one of the system's. No two have both the same.
type process struct {
	ID    int    `json:"id"`
	Began string `json:"began"` // as the system counts
}

func (l leftLock) same(other leftLock) bool {
	return l.Path == other.Path && l.Inode == other.Inode && l.Size == other.Size && l.Made.Equal(other.Made)
}

// noteOfWork is the file that is there while an operation uses commands that
// take locks of git's. It needs not be synced: a file system that after a power
// cut has the lock file has what was made before it too, and one that has not
// leaves the lock to the operator, as without a note.
func (r *repo) noteOfWork() string { return r.tmp("work") }

// noteOfLeft is the file that lists lock files that may have been left.
func (r *repo) noteOfLeft() string { return r.tmp("left.json") }

// beginWork says that from now on commands take locks of git's. Where it cannot
// be said, a lock that one of them leaves is taken for somebody else's.
func (r *repo) beginWork() {
	if r.noted || r.lock == nil || !files.CanLock || !seesProcesses {
		return
	}
	r.noted = os.WriteFile(r.noteOfWork(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600) == nil
}

// endWork takes back what beginWork said, but looks first for what a command
// that was killed has left.
func (r *repo) endWork() {
	if r.noted {
		if r.killed {
			r.findLeft()
		}
		_ = os.Remove(r.noteOfWork())
	}
	if n := len(r.left); n > 0 {
		if r.left = slices.DeleteFunc(r.left, r.vanished); len(r.left) < n {
			r.saveLeft()
		}
	}
}

// vanished reports whether a lock file is no longer there, or is another one.
func (r *repo) vanished(l leftLock) bool {
	now, ok := r.statLock(l.Path)
	return !ok || !now.same(l)
}

// removeLeftLocks reads the notes of operations that died, and removes the lock files
// of git's that they certainly left.
func (r *repo) removeLeftLocks() {
	if !files.CanLock || !seesProcesses {
		return
	}
	b, err := os.ReadFile(r.noteOfLeft())
	if err == nil {
		var left []leftLock
		_ = json.Unmarshal(b, &left) // what is damaged tells nothing
		for _, l := range left {
			if lockable(l.Path) && !r.vanished(l) {
				r.left = append(r.left, l)
			}
		}
	}
	known := len(r.left)
	if _, err := os.Lstat(r.noteOfWork()); err == nil {
		r.findLeft()
		_ = os.Remove(r.noteOfWork())
	}
	for _, l := range slices.Clone(r.left[:known]) {
		if time.Since(l.Seen) >= r.unchangedFor() {
			_ = r.removeLeftLock(l)
		}
	}
	if err == nil && len(r.left) == 0 {
		_ = os.Remove(r.noteOfLeft())
	}
}

// findLeft looks which lock files of git's are there that commands of ours may
// have left: made since the note of work, and there now, when all such commands
// are dead.
func (r *repo) findLeft() {
	r.killed = false
	note, err := os.Lstat(r.noteOfWork())
	if err != nil {
		return
	}
	found := slices.DeleteFunc(r.lockFiles(), func(l leftLock) bool {
		return l.Made.Before(note.ModTime()) || slices.ContainsFunc(r.left, l.same)
	})
	if len(found) == 0 {
		return
	}
	gits, err := r.gitsAtWork()
	if err != nil {
		return
	}
	for _, l := range found {
		l.Seen, l.Boot, l.Gits = time.Now(), bootID(), gits
		r.left = append(r.left, l)
	}
	r.saveLeft()
}

func (r *repo) saveLeft() {
	if len(r.left) == 0 {
		_ = os.Remove(r.noteOfLeft())
		return
	}
	_ = writeJSON(r.noteOfLeft(), r.left) // if that fails, the locks count as the operator's, as without a note
}

// gitsAtWork lists the processes of git that are at work on the repository.
func (r *repo) gitsAtWork() ([]process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpLimit)
	defer cancel()
	all, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	dirs := []string{r.git, r.dir}
	for _, w := range all {
		dirs = append(dirs, w.path)
	}
	return gitProcesses(dirs)
}

// lockable reports whether one of our commands could make such a file.
func lockable(path string) bool {
	dir, name := slashpath.Split(path)
	dir = strings.TrimSuffix(dir, "/")
	head := slices.Contains([]string{"index.lock", "HEAD.lock", "ORIG_HEAD.lock"}, name)
	switch {
	case slashpath.Clean("/"+path) != "/"+path: // as a note may have it that is damaged
		return false
	case dir == "":
		return head || name == "packed-refs.lock" || name == "packed-refs.new"
	case strings.HasPrefix(dir, "worktrees/"):
		return head && strings.Count(dir, "/") == 1
	default:
		return strings.HasPrefix(path, "refs/heads/") && strings.HasSuffix(name, ".lock")
	}
}

// lockFiles lists those that one of our commands could have made.
func (r *repo) lockFiles() []leftLock {
	var names []string
	for _, pattern := range []string{"*.lock", "packed-refs.new", "worktrees/*/*.lock"} {
		found, _ := fs.Glob(os.DirFS(r.git), pattern)
		names = append(names, found...)
	}
	_ = fs.WalkDir(os.DirFS(r.git), "refs/heads", func(name string, _ fs.DirEntry, _ error) error {
		names = append(names, name)
		return nil
	})
	var all []leftLock
	for _, name := range names {
		if !lockable(name) {
			continue
		}
		if l, ok := r.statLock(name); ok {
			all = append(all, l)
		}
	}
	return all
}

// statLock describes a lock file, if it is there and belongs to the daemon's user.
func (r *repo) statLock(name string) (leftLock, bool) {
	info, err := os.Lstat(filepath.Join(r.git, filepath.FromSlash(name)))
	if err != nil || !info.Mode().IsRegular() {
		return leftLock{}, false
	}
	inode, mine := identify(info)
	return leftLock{Path: name, Inode: inode, Size: info.Size(), Made: info.ModTime().UTC()}, mine
}

func (r *repo) unchangedFor() time.Duration { return max(r.g.o.LockWait, r.g.unchanged) }

// clearLock removes a lock file that a command met if it was left by one of ours.
// Otherwise it tells until when to wait for it, at least, and why it stays.
func (r *repo) clearLock(c command, lock string) (removed bool, until time.Time, why error) {
	if r.killed {
		r.findLeft()
	}
	if !filepath.IsAbs(lock) {
		lock = filepath.Join(c.dir, lock)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(lock))
	if err != nil {
		return false, until, nil
	}
	name, err := filepath.Rel(r.git, filepath.Join(dir, filepath.Base(lock)))
	if err != nil {
		return false, until, nil
	}
	i := slices.IndexFunc(r.left, func(l leftLock) bool { return l.Path == filepath.ToSlash(name) })
	if i < 0 {
		return false, until, nil
	}
	until = r.left[i].Seen.Add(r.unchangedFor())
	if time.Until(until) > 0 {
		return false, until, nil
	}
	if err := r.removeLeftLock(r.left[i]); err != nil {
		return false, until, err
	}
	return true, until, nil
}

// removeLeftLock removes a lock file that was unchanged for long enough, unless somebody
// holds it: one who did so when it was found, for who came later has not made it.
func (r *repo) removeLeftLock(l leftLock) error {
	if !r.vanished(l) {
		path := filepath.Join(r.git, filepath.FromSlash(l.Path))
		if boot := bootID(); l.Boot == boot || boot == "" { // else whoever made it is dead
			if err := r.checkUnheld(l, path); err != nil {
				return err
			}
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	r.left = slices.DeleteFunc(r.left, l.same)
	r.saveLeft()
	return nil
}

// checkUnheld reports an error if somebody may hold the lock file.
func (r *repo) checkUnheld(l leftLock, path string) error {
	if err := holderOf(path, l.Gits); err != nil {
		return err
	}
	// This one alone git holds for as long as a person writes a message, and
	// never empty then.
	if filepath.Base(path) == "index.lock" && l.Size > 0 && !r.g.seesAll() {
		return errors.New("it has something in it, and who holds it may be where the daemon cannot see")
	}
	return nil
}
