package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/files"
)

// AddResult is what came of an [effects.WorktreeAdd].
type AddResult struct {
	State         string `json:"state"` // "created", or "existing"
	Path          string `json:"path"`  // absolute, without symbolic links
	Branch        string `json:"branch"`
	Head          string `json:"head"` // the commit that is checked out
	CreatedBranch bool   `json:"created_branch"`
}

// RemoveResult is what came of an [effects.WorktreeRemove].
type RemoveResult struct {
	State string `json:"state"` // "removed", or "gone" where it was so already
	Path  string `json:"path"`  // absolute, without symbolic links
}

const makingReason = "initializing" // with which git locks a worktree that it is making

func (g *Git) add(ctx context.Context, e effects.WorktreeAdd) (*AddResult, error) {
	op := operation{"worktree add", e.Repo, e.Branch}
	if err := cmp.Or(checkBranch("branch", e.Branch), checkBase(e.Base)); err != nil {
		return nil, op.refuse("%v", err)
	}
	path, err := g.resolve("path", e.Path)
	if err != nil {
		return nil, op.refuse("%v", err)
	}
	if g.inGitDir(path) {
		return nil, op.refuse("path: %q lies in a git directory", clip.Text(e.Path, 200))
	}
	r, err := g.open(ctx, op)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if rel, err := filepath.Rel(r.git, path); err == nil && filepath.IsLocal(rel) {
		return nil, op.refuse("path: %q lies in the repository's git directory %q", clip.Text(e.Path, 200), r.git)
	}
	if err := r.checkGitBranch(ctx, "branch", e.Branch); err != nil {
		return nil, err
	}
	if err := r.undoAdd(ctx, path); err != nil {
		return nil, err
	}
	if there, err := r.existing(ctx, path, e.Branch); there != nil || err != nil {
		return there, err
	}
	return r.create(ctx, path, e.Branch, e.Base)
}

// checkGitBranch lets git itself say whether a name is right.
func (r *repo) checkGitBranch(ctx context.Context, field, name string) error {
	_, err := r.run(ctx, "check-ref-format", "--branch", name)
	if exitCode(err) > 0 {
		return r.op.refuse("%s: %q is no name that git takes for a branch", field, clip.Text(name, 100))
	}
	return r.op.wrap(ctx, err, "check the branch's name")
}

// noteOfAdd is the file that says that a worktree is being made at a path.
func (r *repo) noteOfAdd(path string) string { return r.tmp("add-" + nameFor(path)) }

// nameFor gives a name that no other path has.
func nameFor(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// undoAdd undoes the making of a worktree that was interrupted: git has
// it locked as being made, and it is we who have begun it. Nobody was told of
// it, so nothing in it is anybody's.
func (r *repo) undoAdd(ctx context.Context, path string) error {
	note := r.noteOfAdd(path)
	text, err := os.ReadFile(note)
	if err != nil {
		return nil //nolint:nilerr // nothing was begun
	}
	_, head, _ := strings.Cut(string(text), "\n")
	all, err := r.worktrees(ctx)
	if err != nil {
		return err
	}
	listed, half := false, false
	for _, w := range all {
		if w.path == path && !w.main {
			listed = true
			half = w.locked && w.reason == makingReason
		}
	}
	if half || !listed && (onlyGitFile(path) || r.onlyFilesOf(ctx, path, strings.TrimSpace(head))) {
		if err := os.RemoveAll(path); err != nil {
			return r.op.fail(err, "remove the unfinished worktree %q", path)
		}
	}
	if half {
		if _, err := r.run(ctx, "worktree", "remove", "--force", "--force", "--", path); err != nil {
			return r.op.wrap(ctx, err, "remove the data on an unfinished worktree")
		}
	}
	if err := os.Remove(note); err != nil {
		return r.op.fail(err, "remove a note")
	}
	return nil
}

// onlyGitFile reports whether a directory has nothing but a file ".git", which
// is what the making of a worktree begins with.
func onlyGitFile(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 1 && entries[0].Name() == ".git" && entries[0].Type().IsRegular()
}

// onlyFilesOf reports whether a directory that is no worktree has nothing but
// files as a commit has them. So a git leaves it that is told to end while another
// one, which it has started, writes the files: it takes all else away.
func (r *repo) onlyFilesOf(ctx context.Context, path, commit string) bool {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() || commit == "" {
		return false
	}
	index := r.tmp("index")
	defer func() { _ = errors.Join(os.Remove(index), os.Remove(index+".lock")) }()
	for _, args := range [][]string{
		{"read-tree", commit},
		{"update-index", "-q", "--refresh"},
		{"diff-files", "--quiet", "--diff-filter=d", "--ignore-submodules"}, // d: may be missing
		{"ls-files", "--others", "-z"},
	} {
		out, err := r.exec(ctx, command{dir: path, args: args, env: []string{"GIT_DIR=" + r.git, "GIT_WORK_TREE=" + path, "GIT_INDEX_FILE=" + index}})
		refreshed := args[0] == "update-index" && exitCode(err) == 1
		if err != nil && !refreshed || out != "" {
			return false
		}
	}
	return true
}

// existing gives the result where the worktree is there already, nil where it is
// to be made, and an error where it cannot be made.
func (r *repo) existing(ctx context.Context, path, branch string) (*AddResult, error) {
	all, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if w.bare {
			continue
		}
		there := w.exists()
		if !there && !w.locked && !w.main && r.g.inside(w.path) && (w.path == path || w.branch == branch) {
			if err := r.forget(ctx, w.path); err != nil {
				return nil, err
			}
			continue
		}
		switch {
		case w.path == path && !there:
			return nil, r.op.refuse("path: the worktree at %q is missing, and locked%s: unlock it or bring it back", path, reasonText(w.reason))
		case w.path == path && w.branch == branch && w.reason == makingReason:
			return nil, r.op.fail(nil, "path: the worktree at %q is just being made by another git", path)
		case w.path == path && w.branch == branch && !isWorktree(path):
			return nil, r.op.refuse("path: the worktree at %q has lost its file .git: repair or remove it", path)
		case w.path == path && w.branch == branch:
			return &AddResult{State: "existing", Path: path, Branch: branch, Head: w.head}, nil
		case w.path == path:
			return nil, r.op.refuse("path: %q is taken by a worktree with %s", path, branchText(w))
		case w.branch == branch:
			return nil, r.op.refuse("branch: it is checked out already at %q", w.path)
		}
		if w.detached && there {
			if what, busy, err := r.unfinished(ctx, w.path); err == nil && busy == branch {
				return nil, r.op.fail(nil, "branch: %s on it is not finished at %q", what, w.path)
			}
		}
	}
	return nil, r.checkFree(path)
}

func isWorktree(path string) bool {
	_, err := os.Lstat(filepath.Join(path, ".git"))
	return err == nil
}

// checkFree reports an error unless there is nothing at the path, or an empty
// directory.
func (r *repo) checkFree(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return r.op.fail(err, "look at path %q", path)
	case !info.IsDir():
		return r.op.refuse("path: %q is taken: it is not a directory", path)
	}
	entries, err := os.ReadDir(path)
	switch {
	case err != nil:
		return r.op.fail(err, "look at path %q", path)
	case len(entries) > 0:
		return r.op.refuse("path: %q is taken: a directory that is not empty and no worktree of this repository", path)
	}
	return nil
}

// forget removes git's data on a worktree whose directory is gone.
func (r *repo) forget(ctx context.Context, path string) error {
	_, err := r.run(ctx, "worktree", "remove", "--force", "--", path)
	return r.op.wrap(ctx, err, "remove the data on a worktree that is gone")
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + clip.Text(oneLine(reason), 200) + ")"
}

func branchText(w worktree) string {
	if w.branch == "" {
		return "no branch"
	}
	return "branch \"" + w.branch + "\""
}

// create makes the worktree, and the branch where it is missing.
func (r *repo) create(ctx context.Context, path, branch, base string) (*AddResult, error) {
	refs, err := r.branches(ctx, branch)
	if err != nil {
		return nil, err
	}
	head, made := refs[0].id, false
	if head == "" {
		if head, err = r.createBranch(ctx, branch, base); err != nil {
			return nil, err
		}
		made = true
	}
	note := r.noteOfAdd(path)
	if err := os.WriteFile(note, []byte(path+"\n"+head+"\n"), 0o600); err != nil {
		return nil, r.op.fail(err, "write a note")
	}
	r.g.step("add: noted")
	if err = r.waitFor(ctx, command{dir: r.dir, args: []string{"worktree", "add", "--quiet", "--", path, branch}}); err != nil {
		err = r.op.wrap(ctx, err, "make the worktree")
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
		_ = r.undoAdd(late, path)
		if made {
			_ = r.waitFor(late, command{dir: r.dir, args: []string{"update-ref", "-d", "refs/heads/" + branch, head}})
		}
		return nil, err
	}
	r.g.step("add: made")
	if err := os.Remove(note); err != nil {
		return nil, r.op.fail(err, "remove a note")
	}
	return &AddResult{State: "created", Path: path, Branch: branch, Head: head, CreatedBranch: made}, nil
}

// createBranch makes a branch and gives its commit.
func (r *repo) createBranch(ctx context.Context, branch, base string) (string, error) {
	base = cmp.Or(base, "HEAD")
	out, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", base+"^{commit}")
	if exitCode(err) > 0 {
		if _, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); exitCode(err) > 0 && base == "HEAD" {
			return "", r.op.refuse("base: %q names no commit: the repository's present branch has none yet", base)
		}
		return "", r.op.refuse("base: %q names no commit of this repository", clip.Text(base, 100))
	}
	if err != nil {
		return "", r.op.wrap(ctx, err, "look for the base")
	}
	head := strings.TrimSpace(out)
	err = r.waitFor(ctx, command{dir: r.dir, args: []string{"update-ref", "--stdin", "-z"}, whole: true,
		stdin: "option no-deref\x00create refs/heads/" + branch + "\x00" + head + "\x00"})
	if exitCode(err) > 0 {
		e := r.op.refuse("branch: it cannot be made")
		e.Stderr = stderrText(err)
		return "", e
	}
	return head, r.op.wrap(ctx, err, "make the branch")
}

func (g *Git) remove(ctx context.Context, e effects.WorktreeRemove) (*RemoveResult, error) {
	op := operation{name: "worktree remove", repo: e.Repo}
	path, err := g.resolve("path", e.Path)
	if err != nil {
		return nil, op.refuse("%v", err)
	}
	r, err := g.open(ctx, op)
	if err != nil {
		return nil, err
	}
	defer r.close()
	r.emptyTrash(path)
	_ = r.recoverMove(ctx) // what cannot be mended shows as changes
	all, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if w.path == path {
			return r.removeTree(ctx, w, e.Force)
		}
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return &RemoveResult{State: "gone", Path: path}, nil
	}
	return nil, op.refuse("path: %q is no worktree of this repository", clip.Text(e.Path, 200))
}

func (r *repo) removeTree(ctx context.Context, w worktree, force bool) (*RemoveResult, error) {
	switch {
	case w.main:
		return nil, r.op.refuse("path: %q is the repository itself", w.path)
	case w.locked && w.reason == makingReason:
		return nil, r.op.fail(nil, "path: the worktree at %q is just being made, or its making was interrupted", w.path)
	case w.locked:
		return nil, r.op.refuse("path: the worktree at %q is locked%s: unlock it first", w.path, reasonText(w.reason))
	case !w.exists():
		if err := r.forget(ctx, w.path); err != nil {
			return nil, err
		}
		return &RemoveResult{State: "gone", Path: w.path}, nil
	}
	if !force {
		if err := r.checkDispensable(ctx, w); err != nil {
			return nil, err
		}
	}
	// All at once or not at all: what is half removed would look like changes.
	trash := trashFor(w.path)
	if err := os.Rename(w.path, trash); err != nil {
		return nil, r.op.fail(err, "move the worktree away")
	}
	if rel, err := filepath.Rel(w.path, r.dir); err == nil && filepath.IsLocal(rel) {
		r.dir = r.git // the effect names the repository by what has just gone
	}
	r.g.step("remove: moved")
	if err := r.forget(context.WithoutCancel(ctx), w.path); err != nil {
		_ = os.Rename(trash, w.path)
		return nil, err
	}
	r.g.step("remove: forgotten")
	r.emptyTrash(w.path)
	return &RemoveResult{State: "removed", Path: w.path}, nil
}

// checkDispensable reports an error where removing a worktree would lose
// something.
func (r *repo) checkDispensable(ctx context.Context, w worktree) error {
	files, err := r.changedOrNew(ctx, w.path)
	if err != nil {
		return r.op.wrap(ctx, err, "look for changes in the worktree")
	}
	if len(files) > 0 {
		return r.op.refuse("path: the worktree at %q has %d changed or untracked files: keep them or use force", w.path, len(files)).withFiles(files)
	}
	what, _, err := r.unfinished(ctx, w.path)
	if err != nil {
		return r.op.wrap(ctx, err, "look for changes in the worktree")
	}
	if what != "" {
		return r.op.refuse("path: %s is not finished in the worktree at %q: end it or use force", what, w.path)
	}
	admin, err := r.adminDir(ctx, w.path)
	if err != nil {
		return r.op.wrap(ctx, err, "look for changes in the worktree")
	}
	if _, err := os.Lstat(filepath.Join(admin, "modules")); err == nil {
		return r.op.refuse("path: the worktree at %q has submodules, whose repositories would be lost: use force", w.path)
	}
	return nil
}

// trashFor is where a worktree goes before it is deleted: beside it, so that it
// goes there at once. The name says whose it was.
func trashFor(path string) string {
	return filepath.Join(filepath.Dir(path), ".orrery-removed-"+nameFor(path))
}

// emptyTrash deletes what was moved away from a path.
func (r *repo) emptyTrash(path string) { _ = files.RemoveAll(trashFor(path)) }
