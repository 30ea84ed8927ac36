package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// move is a change of a branch from one commit to another.
type move struct {
	branch, from, to string
}

// checkout is a worktree whose files follow a branch that moves.
type checkout struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// reversed is the way back.
func (c checkout) reversed() checkout {
	c.From, c.To = c.To, c.From
	return c
}

// noteOfMove is the file that says which checkouts are to follow, from before
// the branches move until the files have followed.
func (r *repo) noteOfMove() string { return r.tmp("move.json") }

// publish moves branches, all or none and only if they are what they were, and
// lets their checkouts follow. The error is errMoved where they are not.
//
// The branches move first: from then on an interruption is mended by going on,
// up to then by doing nothing.
func (r *repo) publish(ctx context.Context, moves []move) error {
	trees, err := r.checkouts(ctx, moves)
	if err != nil {
		return err
	}
	for _, t := range trees {
		if err := r.rehearse(ctx, t); err != nil {
			return err
		}
	}
	if len(trees) > 0 {
		if err := writeJSON(r.noteOfMove(), trees); err != nil {
			return r.op.fail(err, "write a note")
		}
	}
	r.g.step("publish: noted")
	if err := r.moveRefs(ctx, moves); err != nil {
		_ = os.Remove(r.noteOfMove())
		return err
	}
	r.g.step("publish: moved")
	// There is no turning back for a cancellation any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	for i, t := range trees {
		if err := r.follow(ctx, t); err != nil {
			return r.takeBack(ctx, moves, trees[:i+1], err)
		}
		r.g.step("publish: followed")
	}
	if len(trees) > 0 {
		if err := os.Remove(r.noteOfMove()); err != nil {
			return r.op.fail(err, "the merge is done, but remove a note")
		}
	}
	return nil
}

// takeBack undoes a publication whose files could not follow.
func (r *repo) takeBack(ctx context.Context, moves []move, trees []checkout, cause error) error {
	undo := make([]move, len(moves))
	for i, m := range moves {
		undo[i] = move{m.branch, m.to, m.from}
	}
	err := r.moveRefs(ctx, undo)
	for _, t := range trees {
		if err == nil {
			err = errors.Join(r.bringTo(ctx, t.reversed()), r.removeMade(ctx, t))
		}
	}
	if err != nil {
		return r.op.fail(errors.Join(cause, err), "the files of a checkout could not follow, nor could the branches be taken back: the next merge in this repository tries again")
	}
	_ = os.Remove(r.noteOfMove())
	return r.op.wrap(ctx, cause, "update a checkout")
}

// removeMade removes the files that a checkout which failed has made, now that
// it is back at t.From, where they are none of git's.
func (r *repo) removeMade(ctx context.Context, t checkout) error {
	files, err := r.inTheWay(ctx, t)
	if err != nil {
		return err
	}
	moved, err := r.movedFiles(ctx, t)
	for _, name := range files {
		ours, explainErr := r.explained(ctx, t.Path, name, moved[name])
		err = errors.Join(err, explainErr)
		if ours {
			err = errors.Join(err, os.Remove(filepath.Join(t.Path, filepath.FromSlash(name))))
		}
	}
	return err
}

// writeJSON writes v as JSON, which is on the disk when it returns.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// moveRefs moves the branches in one transaction that compares them with what
// they were.
func (r *repo) moveRefs(ctx context.Context, moves []move) error {
	var in strings.Builder
	names := make([]string, len(moves))
	for i, m := range moves {
		fmt.Fprintf(&in, "update refs/heads/%s\x00%s\x00%s\x00", m.branch, m.to, m.from)
		names[i] = m.branch
	}
	err := r.waitFor(ctx, command{dir: r.dir, args: []string{"update-ref", "-m", "orrery: merge", "--stdin", "-z"}, whole: true, stdin: in.String()})
	if exitCode(err) > 0 {
		refs, readErr := r.branches(ctx, names...)
		if readErr == nil && slices.ContainsFunc(moves, func(m move) bool {
			return !slices.Contains(refs, ref{m.branch, m.from})
		}) {
			return errMoved
		}
	}
	return r.op.wrap(ctx, err, "move the branches")
}

// checkouts finds the worktrees that must follow, and reports an error if one of
// them cannot.
func (r *repo) checkouts(ctx context.Context, moves []move) ([]checkout, error) {
	all, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	var trees []checkout
	for _, w := range all {
		if w.bare || strings.HasPrefix(filepath.Base(w.path), tmpTree) {
			continue
		}
		if !w.exists() {
			if w.locked && slices.ContainsFunc(moves, func(m move) bool { return m.branch == w.branch }) {
				return nil, r.op.fail(nil, "branch %q is checked out at %q, which is missing, and locked%s", w.branch, w.path, reasonText(w.reason))
			}
			continue
		}
		if err := r.checkIdle(ctx, w, moves); err != nil {
			return nil, err
		}
		for _, m := range moves {
			if w.branch == m.branch {
				trees = append(trees, checkout{Path: w.path, Branch: m.branch, From: m.from, To: m.to})
			}
		}
	}
	for _, t := range trees {
		if err := r.checkClean(ctx, t); err != nil {
			return nil, err
		}
	}
	return trees, nil
}

// checkIdle reports an error where a person is in the middle of something with
// one of the branches.
func (r *repo) checkIdle(ctx context.Context, w worktree, moves []move) error {
	if !w.detached && !slices.ContainsFunc(moves, func(m move) bool { return m.branch == w.branch }) {
		return nil
	}
	what, busy, err := r.unfinished(ctx, w.path)
	if err != nil {
		if w.detached {
			return nil // another worktree's damage is not ours
		}
		return r.op.wrap(ctx, err, "look at a checkout")
	}
	for _, m := range moves {
		if what != "" && (w.branch == m.branch || busy == m.branch) {
			return r.op.fail(nil, "dirty worktree at %q: %s with branch %q is not finished", w.path, what, m.branch)
		}
	}
	return nil
}

func (r *repo) checkClean(ctx context.Context, t checkout) error {
	top, err := r.line(ctx, t.Path, "rev-parse", "--show-toplevel")
	if err != nil {
		return r.op.wrap(ctx, err, "look at a checkout")
	}
	real, err := realPath(filepath.FromSlash(top))
	if err != nil {
		return r.op.fail(err, "look at a checkout")
	}
	if !r.g.inside(real) {
		return r.op.refuse("branch %q is checked out at %q, which is not under the workspace root %q", t.Branch, real, r.g.root)
	}
	files, err := r.changed(ctx, t.Path)
	if err != nil {
		return r.op.wrap(ctx, err, "look for changes in a checkout")
	}
	if len(files) > 0 {
		return r.op.fail(nil, "dirty worktree at %q, where branch %q is checked out: %d changed files", t.Path, t.Branch, len(files)).withFiles(files)
	}
	return nil
}

var untrackedPattern = regexp.MustCompile(`(?m)^error: Untracked working tree file '(.+)' would be`)

// rehearse reports an error where the files of a checkout could not follow.
func (r *repo) rehearse(ctx context.Context, t checkout) error {
	// A file that was touched but is the same would be in the way.
	if err := r.waitFor(ctx, command{dir: t.Path, args: []string{"update-index", "--refresh"}}); err != nil && exitCode(err) != 1 {
		return r.op.wrap(ctx, err, "look at the files of a checkout")
	}
	files, err := r.inTheWay(ctx, t)
	if err != nil {
		return r.op.wrap(ctx, err, "look at the files of a checkout")
	}
	if len(files) == 0 {
		err = r.waitFor(ctx, command{dir: t.Path, args: []string{"read-tree", "-n", "-m", "-u", t.From, t.To}})
		if exitCode(err) <= 0 {
			return r.op.wrap(ctx, err, "look at the files of a checkout")
		}
		for _, m := range untrackedPattern.FindAllStringSubmatch(stderrOf(err), -1) {
			files = append(files, m[1])
		}
	}
	if len(files) == 0 {
		return r.op.fail(err, "dirty worktree at %q, where branch %q is checked out", t.Path, t.Branch)
	}
	return r.op.fail(nil, "dirty worktree at %q, where branch %q is checked out: untracked files are in the way", t.Path, t.Branch).withFiles(files)
}

// maxInTheWay bounds the arguments of one command.
const maxInTheWay = 200

// inTheWay lists files that git does not know where a move is to make some. Git
// itself would overwrite those that it ignores.
func (r *repo) inTheWay(ctx context.Context, t checkout) ([]string, error) {
	moved, err := r.movedFiles(ctx, t)
	if err != nil {
		return nil, err
	}
	var there []string
	for _, name := range slices.Sorted(maps.Keys(moved)) {
		if strings.Trim(moved[name][0], "0") != "" || len(there) == maxInTheWay {
			continue
		}
		if _, err := os.Lstat(filepath.Join(t.Path, filepath.FromSlash(name))); err == nil {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return nil, nil
	}
	return r.list(ctx, t.Path, append([]string{"--literal-pathspecs", "ls-files", "--others", "-z", "--"}, there...)...)
}

// follow brings files and index of a clean checkout to the branch's new commit.
func (r *repo) follow(ctx context.Context, t checkout) error {
	return r.waitFor(ctx, command{dir: t.Path, args: []string{"read-tree", "-m", "-u", t.From, t.To}})
}
