package git

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// recoverMove finishes what an interrupted merge has left: checkouts whose
// branch has moved and whose files have not, or not all.
func (r *repo) recoverMove(ctx context.Context) error {
	b, err := os.ReadFile(r.noteOfMove())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return r.op.fail(err, "read a note")
	}
	var trees []checkout
	if err := json.Unmarshal(b, &trees); err != nil {
		trees = nil // it was not written to its end, so nothing has moved
	}
	for _, t := range trees {
		if err := r.recoverTree(ctx, t); err != nil {
			return err
		}
	}
	if err := os.Remove(r.noteOfMove()); err != nil {
		return r.op.fail(err, "remove a note")
	}
	return nil
}

func (r *repo) recoverTree(ctx context.Context, t checkout) error {
	all, err := r.worktrees(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.path != t.Path || w.branch != t.Branch || !w.exists() {
			continue // a person has moved on
		}
		files, err := r.changed(ctx, t.Path)
		switch {
		case err != nil:
			return r.op.wrap(ctx, err, "look at a checkout")
		case len(files) == 0:
			return nil
		case w.head == t.To:
			return r.op.wrap(ctx, r.bringTo(ctx, t), "finish an interrupted merge")
		case w.head == t.From:
			// Nothing had moved, or all was on its way back: what else there is is a
			// person's, so do no more than what harms no change.
			_ = r.follow(ctx, t.reversed())
		}
	}
	return nil
}

// bringTo brings a checkout to the commit t.To of its branch, wherever between
// t.From and there its files are. It touches nothing where there is something
// else in them.
func (r *repo) bringTo(ctx context.Context, t checkout) error {
	if files, err := r.changed(ctx, t.Path); err == nil && len(files) == 0 {
		return nil // the branch is at t.To already, and so are the files
	}
	if r.follow(ctx, t) == nil {
		return r.restore(ctx, t)
	}
	foreign, err := r.foreign(ctx, t)
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		return r.op.fail(nil, "dirty worktree at %q: a merge into branch %q was interrupted there, and files have changed since: put them aside", t.Path, t.Branch).withFiles(foreign)
	}
	return r.waitFor(ctx, command{dir: t.Path, args: []string{"reset", "--quiet", "--hard", t.To}})
}

// restore writes those files anew that a checkout which was killed has left on
// their way between the two commits, where the index is at t.To: git then takes
// them for changed. What else has changed is a person's.
func (r *repo) restore(ctx context.Context, t checkout) error {
	differ, err := r.list(ctx, t.Path, "diff-files", "--name-only", "--ignore-submodules", "-z")
	if err != nil || len(differ) == 0 {
		return err
	}
	moved, err := r.movedFiles(ctx, t)
	if err != nil {
		return err
	}
	var half strings.Builder
	for _, name := range differ {
		blobs, ok := moved[name]
		if !ok {
			continue
		}
		ours, err := r.explained(ctx, t.Path, name, blobs)
		if err != nil {
			return err
		}
		if ours {
			half.WriteString(name + "\x00")
		}
	}
	if half.Len() == 0 {
		return nil
	}
	return r.waitFor(ctx, command{dir: t.Path, args: []string{"checkout-index", "--force", "--index", "-z", "--stdin"}, stdin: half.String()})
}

// foreign lists files of a checkout that a move between its two commits cannot
// explain.
func (r *repo) foreign(ctx context.Context, t checkout) ([]string, error) {
	var foreign []string
	staged := false
	for _, id := range []string{t.From, t.To} {
		names, err := r.list(ctx, t.Path, "diff-index", "--cached", "--name-only", "--no-renames", "-z", id)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			staged = true
		} else if !staged {
			foreign = names
		}
	}
	if !staged {
		return foreign, nil
	}
	_ = r.waitFor(ctx, command{dir: t.Path, args: []string{"update-index", "--refresh"}})
	differ, err := r.list(ctx, t.Path, "diff-files", "--name-only", "--ignore-submodules", "-z")
	if err != nil {
		return nil, err
	}
	moved, err := r.movedFiles(ctx, t)
	if err != nil {
		return nil, err
	}
	foreign = slices.DeleteFunc(differ, func(name string) bool {
		_, ok := moved[name]
		return ok
	})
	for name, blobs := range moved {
		ok, err := r.explained(ctx, t.Path, name, blobs)
		if err != nil {
			return nil, err
		}
		if !ok {
			foreign = append(foreign, name)
		}
	}
	slices.Sort(foreign)
	return foreign, nil
}

// movedFiles gives the blobs, before and after, of each file that a move
// changes.
func (r *repo) movedFiles(ctx context.Context, t checkout) (map[string][2]string, error) {
	fields, err := r.list(ctx, t.Path, "diff-tree", "-r", "-z", "--no-renames", t.From, t.To)
	moved := map[string][2]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		if f := strings.Fields(fields[i]); len(f) == 5 {
			moved[fields[i+1]] = [2]string{f[2], f[3]}
		}
	}
	return moved, err
}

// explained reports whether a file is as one of two blobs, missing, or the
// beginning of the second one, as a checkout leaves it that is killed.
func (r *repo) explained(ctx context.Context, dir, name string, blobs [2]string) (bool, error) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	}
	link, cat := "", []string{"cat-file", "blob"}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		if link, err = os.Readlink(path); err != nil {
			return false, err
		}
	case info.Mode().IsRegular():
		id, err := r.line(ctx, dir, "hash-object", "--", path)
		if err != nil {
			return false, err
		}
		if slices.Contains(blobs[:], id) {
			return true, nil
		}
		cat = []string{"cat-file", "--filters", "--path=" + name} // as it was written
	default:
		return false, nil
	}
	for _, id := range blobs {
		if strings.Trim(id, "0") == "" {
			continue
		}
		if begins, err := r.begins(ctx, dir, append(cat, id), path, link); begins || err != nil {
			return begins, err
		}
	}
	return false, nil
}

// begins reports whether what a command prints begins with a link's target, or
// with what is in a file where that is empty.
func (r *repo) begins(ctx context.Context, dir string, args []string, path, link string) (bool, error) {
	begin := &beginning{of: strings.NewReader(link)}
	if link == "" {
		f, err := os.Open(path)
		if err != nil {
			return false, err
		}
		defer func() { _ = f.Close() }()
		begin.of = f
	}
	_, err := r.exec(ctx, command{dir: dir, args: args, to: begin})
	return err == nil && begin.matches(), nil // a blob that is missing explains nothing
}

// beginning compares what is written to it with a text that may end earlier.
type beginning struct {
	of      io.Reader
	ended   bool
	differs bool
}

func (b *beginning) Write(p []byte) (int, error) {
	if b.ended || b.differs {
		return len(p), nil
	}
	have := make([]byte, len(p))
	n, err := io.ReadFull(b.of, have)
	b.ended = err != nil
	b.differs = !bytes.Equal(have[:n], p[:n])
	return len(p), nil
}

// matches reports, when all is written, whether it began with the text.
func (b *beginning) matches() bool {
	n, err := b.of.Read(make([]byte, 1))
	return !b.differs && n == 0 && errors.Is(err, io.EOF)
}
