package git

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// MergeResult is what came of an [effects.Merge].
type MergeResult struct {
	Strategy    effects.MergeStrategy `json:"strategy"`
	Branch      string                `json:"branch"`
	Into        string                `json:"into"`
	Before      string                `json:"before"`       // the target's commit until then
	After       string                `json:"after"`        // and from then on
	FastForward bool                  `json:"fast_forward"` // the target moved on to the branch as it was
	UpToDate    bool                  `json:"up_to_date"`   // the target has all of the branch already: nothing was done
}

// maxTries is how often a merge begins anew where others move the branches.
const maxTries = 5

// errMoved says that a branch is not what it was when the merge began.
var errMoved = errors.New("somebody else moved a branch meanwhile")

func (g *Git) merge(ctx context.Context, e effects.Merge) (*MergeResult, error) {
	op := operation{"merge", e.Repo, e.Branch}
	if err := cmp.Or(checkBranch("branch", e.Branch), checkBranch("into", e.Into)); err != nil {
		return nil, op.refuse("%v", err)
	}
	switch {
	case e.Branch == e.Into:
		return nil, op.refuse("into: %q is the branch itself", clip.Text(e.Into, 100))
	case e.Strategy == effects.MergeAgent:
		return nil, op.refuse("strategy: %q is not for git: a strategy or a pipeline runs it as a task with a session", e.Strategy)
	case e.Strategy != effects.MergeFastForward && e.Strategy != effects.MergeRebase:
		return nil, op.refuse("strategy: %q is unknown: use %q or %q", clip.Text(string(e.Strategy), 100), effects.MergeFastForward, effects.MergeRebase)
	}
	r, err := g.open(ctx, op)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := cmp.Or(r.checkGitBranch(ctx, "branch", e.Branch), r.checkGitBranch(ctx, "into", e.Into), r.recoverMove(ctx)); err != nil {
		return nil, err
	}
	for range maxTries {
		result, err := r.tryMerge(ctx, e)
		if !errors.Is(err, errMoved) {
			return result, err
		}
	}
	return nil, op.fail(errMoved, "tried %d times", maxTries)
}

func (r *repo) tryMerge(ctx context.Context, e effects.Merge) (*MergeResult, error) {
	refs, err := r.branches(ctx, e.Branch, e.Into)
	if err != nil {
		return nil, err
	}
	for i, field := range []string{"branch", "into"} {
		if refs[i].id == "" {
			return nil, r.op.refuse("%s: there is no branch %q", field, refs[i].name)
		}
	}
	branch, into := refs[0], refs[1]
	result := &MergeResult{Strategy: e.Strategy, Branch: e.Branch, Into: e.Into, Before: into.id, After: branch.id}
	merged, err := r.isAncestor(ctx, branch.id, into.id)
	if err != nil {
		return nil, err
	}
	if merged {
		result.After, result.UpToDate = into.id, true
		return result, nil
	}
	if result.FastForward, err = r.isAncestor(ctx, into.id, branch.id); err != nil {
		return nil, err
	}
	r.g.step("merge: read")
	switch {
	case result.FastForward:
		return result, r.publish(ctx, []move{{into.name, into.id, branch.id}})
	case e.Strategy == effects.MergeFastForward:
		return nil, r.diverged(ctx, branch, into)
	}
	if result.After, err = r.rebase(ctx, branch, into); err != nil {
		return nil, err
	}
	moves := []move{{branch.name, branch.id, result.After}, {into.name, into.id, result.After}}
	if result.After == into.id { // all of the branch is there already, as other commits
		moves, result.UpToDate = moves[:1], true
	}
	return result, r.publish(ctx, moves)
}

func (r *repo) isAncestor(ctx context.Context, old, later string) (bool, error) {
	_, err := r.run(ctx, "merge-base", "--is-ancestor", old, later)
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, r.op.wrap(ctx, err, "compare the branches")
}

// diverged is the error of a fast-forward that is none. Its text is what the
// chain of 003 falls back on.
func (r *repo) diverged(ctx context.Context, branch, into ref) error {
	shallow := ""
	if answer, err := r.line(ctx, r.dir, "rev-parse", "--is-shallow-repository"); err == nil && answer == "true" {
		shallow = " (as far as this shallow repository knows)"
	}
	return r.op.refuse("not a fast-forward: %q has commits that %q lacks%s", into.name, branch.name, shallow)
}

// rebase rebases a branch in a temporary worktree and gives the new commit. No
// branch moves.
func (r *repo) rebase(ctx context.Context, branch, into ref) (string, error) {
	// Look now rather than after the work.
	if _, err := r.checkouts(ctx, []move{{branch.name, branch.id, branch.id}, {into.name, into.id, into.id}}); err != nil {
		return "", err
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	dir := r.tmp(tmpTree + hex.EncodeToString(random[:]))
	defer r.removeTemporary()
	if err := r.waitFor(ctx, command{dir: r.dir, args: []string{"worktree", "add", "--quiet", "--detach", "--", dir, branch.id}}); err != nil {
		return "", r.op.wrap(ctx, err, "make a temporary worktree")
	}
	r.g.step("rebase: worktree made")
	_, err := r.exec(ctx, command{dir: dir, env: r.identity(ctx), args: []string{
		"rebase", "--quiet", "--merge", "--no-stat", "--no-fork-point", "--no-verify", "--no-autostash", "--empty=drop", into.id,
	}})
	r.g.step("rebase: done")
	if err != nil {
		return "", r.rebaseFailed(ctx, dir, branch, into, err)
	}
	id, err := r.line(ctx, dir, "rev-parse", "--verify", "HEAD^{commit}")
	return id, r.op.wrap(ctx, err, "read what the rebase made")
}

// rebaseFailed tells a conflict from all else. Its text is what the chain of 003
// falls back on.
func (r *repo) rebaseFailed(ctx context.Context, dir string, branch, into ref, err error) error {
	if ctx.Err() != nil {
		return r.op.fail(context.Cause(ctx), "stopped while it was rebased onto %q: nothing was changed", into.name)
	}
	if files, _ := r.list(ctx, dir, "diff", "--name-only", "--diff-filter=U", "-z"); len(files) > 0 {
		e := r.op.refuse("conflict with %q in %d files when it is rebased", into.name, len(files)).withFiles(files)
		e.Stderr = ""
		return e
	}
	return r.op.fail(err, "rebase %q onto %q", branch.name, into.name)
}

// identity gives the committer where the user has configured none.
func (r *repo) identity(ctx context.Context) []string {
	var env []string
	for _, field := range []struct{ key, variable, value string }{
		{"name", "GIT_COMMITTER_NAME", r.g.o.Author},
		{"email", "GIT_COMMITTER_EMAIL", r.g.o.Email},
	} {
		out, _ := r.run(ctx, "config", "--get-regexp", `^(user|committer)\.`+field.key+"$")
		if strings.TrimSpace(out) == "" {
			env = append(env, field.variable+"="+field.value)
		}
	}
	return env
}
