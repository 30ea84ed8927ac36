package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/files"
	"github.com/orrery-go/orrery/shell/internal/pause"
)

const (
	tmpName = "orrery-tmp"    // in the git directory: all that we leave there
	tmpTree = "orrery-merge-" // begins the names of temporary worktrees, and of git's data on them
)

// repo is a repository on which one operation is at work.
type repo struct {
	g    *Git
	op   operation
	dir  string // where git runs: the checkout or bare repository that the effect names
	git  string // the git directory that all worktrees share
	lock *os.File

	release func() // lets the next operation of this process at the repository

	noted  bool       // that commands take locks of git's
	killed bool       // one of them was ended by a signal, and may have left its locks
	left   []leftLock // that commands that died may have left
}

// open finds the repository that an effect names, waits for other operations of this
// process and for its lock file, and clears away what interrupted operations have left. close must be
// called.
func (g *Git) open(ctx context.Context, op operation) (r *repo, err error) {
	dir, err := g.resolve("repo", op.repo)
	if err != nil {
		return nil, op.refuse("%v", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, op.refuse("repo: %q is not a directory that can be read", clip.Text(op.repo, 200))
	}
	r = &repo{g: g, op: op, dir: dir}
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	if err := r.exclude(ctx); err != nil {
		return nil, op.fail(err, "stopped while another operation was at work on the repository")
	}
	if err := r.takeLock(ctx); err != nil {
		r.close()
		return nil, err
	}
	r.removeTemporary()
	r.removeLeftLocks()
	return r, nil
}

// find asks git for the shared git directory.
func (r *repo) find(ctx context.Context) error {
	dir, err := r.line(ctx, r.dir, "rev-parse", "--git-common-dir")
	if err != nil {
		if exitCode(err) > 0 {
			e := r.op.refuse("repo: %q cannot be used as a git repository", clip.Text(r.op.repo, 200))
			e.Stderr = stderrText(err)
			return e
		}
		return r.op.wrap(ctx, err, "look for the repository")
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(r.dir, dir)
	}
	if r.git, err = filepath.EvalSymlinks(dir); err != nil {
		return r.op.fail(err, "look for the git directory")
	}
	if !r.g.inside(r.git) {
		return r.op.refuse("repo: %q belongs to the git directory %q, which is not under the workspace root %q", clip.Text(r.op.repo, 200), r.git, r.g.root)
	}
	return nil
}

// exclude waits until no other operation of this process is at work on the
// repository, and keeps them away until release.
func (r *repo) exclude(ctx context.Context) (err error) {
	var ok bool
	if r.release, ok = r.g.locks.TryLock(r.git); ok {
		return nil
	}
	r.g.step("waits for another operation")
	r.release, err = r.g.locks.Lock(ctx, r.git)
	return err
}

// takeLock keeps other processes away, among them commands that an interrupted
// operation has left.
func (r *repo) takeLock(ctx context.Context) error {
	path := r.tmp("lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as git makes its directories
		return r.op.fail(err, "make a directory for the lock")
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return r.op.fail(err, "open the lock file")
	}
	deadline := time.Now().Add(r.g.o.LockWait)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		got, err := files.TryLock(f, false)
		if got {
			r.lock = f
			return r.sign(f)
		}
		switch {
		case err != nil:
			err = r.op.fail(err, "lock %q", path)
		case time.Until(deadline) <= 0:
			holder, _ := io.ReadAll(io.LimitReader(f, 32))
			err = r.op.fail(nil, "lock file %q is held by another process (daemon %q or a git command that it has left): waited %v", path, strings.TrimSpace(string(holder)), r.g.o.LockWait)
		default:
			if err = pause.For(ctx, wait); err != nil {
				err = r.op.fail(err, "stopped while another process was at work on the repository")
			}
		}
		if err != nil {
			_ = f.Close()
			return err
		}
	}
}

// sign writes into the lock file who holds it, for the reader.
func (r *repo) sign(f *os.File) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return r.op.fail(err, "write the lock file")
	}
	return nil
}

// tmp gives the path of a file of ours in the git directory.
func (r *repo) tmp(name string) string { return filepath.Join(r.git, tmpName, name) }

func (r *repo) close() {
	if r.lock != nil {
		r.endWork()
		files.Unlock(r.lock)
		_ = r.lock.Close()
	}
	r.release()
}

func (r *repo) exec(ctx context.Context, c command) (string, error) {
	c.lock = r.lock
	if c.whole && ctx.Err() == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
	}
	out, err := r.g.exec(ctx, c)
	if err != nil && exitCode(err) < 0 {
		r.killed = true
	}
	return out, err
}

// run runs git in the repository.
func (r *repo) run(ctx context.Context, args ...string) (string, error) {
	return r.exec(ctx, command{dir: r.dir, args: args})
}

// line runs git in dir and gives the line that it prints.
func (r *repo) line(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := r.exec(ctx, command{dir: dir, args: args})
	return strings.TrimSuffix(out, "\n"), err
}

// list runs git in dir and gives the elements that it prints, each with NUL at its end.
func (r *repo) list(ctx context.Context, dir string, args ...string) ([]string, error) {
	out, err := r.exec(ctx, command{dir: dir, args: args})
	if out = strings.TrimSuffix(out, "\x00"); out == "" || err != nil {
		return nil, err
	}
	return strings.Split(out, "\x00"), nil
}

// removeTemporary removes the temporary worktrees of operations that are over,
// together with git's data on them. It needs no git, so that it works whatever
// state they were left in; what cannot be removed now is so the next time.
func (r *repo) removeTemporary() {
	for _, parent := range []string{filepath.Join(r.git, tmpName), filepath.Join(r.git, "worktrees")} {
		entries, _ := os.ReadDir(parent)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), tmpTree) {
				_ = files.RemoveAll(filepath.Join(parent, e.Name()))
			}
		}
	}
	_ = os.Remove(filepath.Join(r.git, "worktrees")) // where it is empty, as git does
}

// worktree is one of a repository's, as git lists it.
type worktree struct {
	path     string // as git has it; symbolic links resolved
	branch   string // empty: none is checked out
	head     string // commit
	locked   bool
	reason   string // why it is locked
	bare     bool   // the repository itself, without a checkout
	main     bool   // the repository's own checkout
	detached bool
}

func (w worktree) exists() bool {
	_, err := os.Lstat(w.path)
	return err == nil
}

// worktrees lists them, the main one first.
func (r *repo) worktrees(ctx context.Context) ([]worktree, error) {
	args, end := []string{"worktree", "list", "--porcelain"}, "\n"
	if r.g.minor >= 36 { // older ones cannot name a path with a line feed
		args, end = append(args, "-z"), "\x00"
	}
	out, err := r.run(ctx, args...)
	if err != nil {
		return nil, r.op.wrap(ctx, err, "list the worktrees")
	}
	var all []worktree
	for line := range strings.SplitSeq(out, end) {
		key, value, _ := strings.Cut(line, " ")
		if key == "worktree" {
			if real, err := realPath(value); err == nil {
				value = real
			}
			all = append(all, worktree{path: value, main: len(all) == 0})
			continue
		}
		if len(all) == 0 {
			continue
		}
		w := &all[len(all)-1]
		switch key {
		case "HEAD":
			w.head = value
		case "branch":
			w.branch = strings.TrimPrefix(value, "refs/heads/")
		case "detached":
			w.detached = true
		case "bare":
			w.bare = true
		case "locked": // and why
			w.locked, w.reason = true, value
		}
	}
	if r.g.minor < 31 { // which do not list it
		r.readLocked(all)
	}
	return all, nil
}

// readLocked looks in git's own data which worktrees are locked.
func (r *repo) readLocked(all []worktree) {
	data := filepath.Join(r.git, "worktrees")
	entries, _ := os.ReadDir(data)
	for _, e := range entries {
		link, _ := os.ReadFile(filepath.Join(data, e.Name(), "gitdir"))
		reason, err := os.ReadFile(filepath.Join(data, e.Name(), "locked"))
		if err != nil {
			continue
		}
		path, err := realPath(filepath.Dir(strings.TrimSpace(string(link))))
		for i := range all {
			if err == nil && all[i].path == path && !all[i].main {
				all[i].locked, all[i].reason = true, strings.TrimSpace(string(reason))
			}
		}
	}
}

// ref is a branch's present value.
type ref struct {
	name string // of the branch
	id   string // of the commit; empty: there is no such branch
}

// branches reads the values of branches.
func (r *repo) branches(ctx context.Context, names ...string) ([]ref, error) {
	args := []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)"}
	for _, name := range names {
		args = append(args, "refs/heads/"+name)
	}
	out, err := r.run(ctx, args...)
	if err != nil {
		return nil, r.op.wrap(ctx, err, "read the branches")
	}
	refs := make([]ref, len(names))
	for i, name := range names {
		refs[i].name = name
		for line := range strings.SplitSeq(out, "\n") {
			f := strings.Split(line, "\x00")
			if len(f) != 3 || f[0] != "refs/heads/"+name {
				continue
			}
			if f[2] != "" {
				return nil, r.op.refuse("branch %q is another name for %q: use that", name, f[2])
			}
			refs[i].id = f[1]
		}
	}
	return refs, nil
}

// changed lists the tracked files of a worktree that differ from its commit.
// That a submodule has another commit checked out than its entry says does not
// count: so it is after every merge that moves the entry.
func (r *repo) changed(ctx context.Context, dir string) ([]string, error) {
	entries, err := r.list(ctx, dir, "status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=dirty", "--untracked-files=no")
	var files []string
	for _, entry := range entries {
		// "1 XY SUB …": six more fields, or eight after a conflict's "u".
		f := strings.SplitN(entry, " ", 9)
		if f[0] == "u" {
			f = strings.SplitN(entry, " ", 11)
		}
		if len(f) < 9 || f[1] == ".M" && strings.HasPrefix(f[2], "S") {
			continue
		}
		files = append(files, f[len(f)-1])
	}
	return files, err
}

// changedOrNew lists all files of a worktree that would be lost with it, but for
// those that git ignores.
func (r *repo) changedOrNew(ctx context.Context, dir string) ([]string, error) {
	entries, err := r.list(ctx, dir, "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=none", "--untracked-files=normal")
	var files []string
	for _, entry := range entries {
		if len(entry) > 3 {
			files = append(files, entry[3:])
		}
	}
	return files, err
}

// adminDir gives git's data on one worktree.
func (r *repo) adminDir(ctx context.Context, dir string) (string, error) {
	return r.line(ctx, dir, "rev-parse", "--absolute-git-dir")
}

// unfinished tells what a person has begun in a worktree and not ended, and on
// which branch; both are empty for nothing.
func (r *repo) unfinished(ctx context.Context, dir string) (what, branch string, err error) {
	admin, err := r.adminDir(ctx, dir)
	if err != nil {
		return "", "", err
	}
	for _, at := range []struct{ file, what string }{
		{"rebase-merge/head-name", "a rebase"},
		{"rebase-apply/head-name", "a rebase"},
		{"rebase-apply/applying", "an am"},
		{"BISECT_START", "a bisection"},
		{"MERGE_HEAD", "a merge"},
		{"CHERRY_PICK_HEAD", "a cherry-pick"},
		{"REVERT_HEAD", "a revert"},
	} {
		text, err := os.ReadFile(filepath.Join(admin, filepath.FromSlash(at.file)))
		if err == nil {
			name := strings.TrimSpace(string(text))
			return at.what, strings.TrimPrefix(name, "refs/heads/"), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", "", fmt.Errorf("read %s of worktree %q: %w", at.file, dir, err)
		}
	}
	return "", "", nil
}
