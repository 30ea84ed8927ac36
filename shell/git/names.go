package git

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

const (
	maxBranchBytes    = 255
	maxComponentBytes = 240 // a file's name has 255, of which git needs some for ".lock"
	maxPathBytes      = 4096
)

// checkBranch holds a branch's name against the rules of git check-ref-format,
// and some of our own: whatever passes can stand in an argument of git and means
// that branch and nothing else.
func checkBranch(field, name string) error {
	bad := func(what string) error {
		return fmt.Errorf("%s: %q %s", field, clip.Text(name, 100), what)
	}
	switch {
	case name == "":
		return fmt.Errorf("%s: must name a branch, is empty", field)
	case len(name) > maxBranchBytes:
		return bad(fmt.Sprintf("is longer than %d bytes", maxBranchBytes))
	case !utf8.ValidString(name):
		return bad("is not valid UTF-8")
	case strings.HasPrefix(name, "-"):
		return bad("begins with '-', like an option")
	case name == "@" || name == "HEAD":
		return bad("means the present commit: give a branch's name")
	case strings.Contains(name, ".."):
		return bad(`has "..", which stands for a range`)
	case strings.Contains(name, "@{"):
		return bad(`has "@{", which stands for an earlier value`)
	case strings.HasSuffix(name, "."):
		return bad("ends with '.'")
	case looksLikeID(name):
		return bad("looks like a commit's id, for which git would take it")
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }); i >= 0 {
		return bad(fmt.Sprintf("has the character %q, which git forbids in names", name[i]))
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return bad("begins or ends with '/', or has \"//\"")
		case len(part) > maxComponentBytes:
			return bad(fmt.Sprintf("has a part of more than %d bytes", maxComponentBytes))
		case strings.HasPrefix(part, "."):
			return bad("has a part that begins with '.'")
		case strings.HasSuffix(part, ".lock"):
			return bad(`has a part that ends with ".lock"`)
		}
	}
	return nil
}

// looksLikeID reports whether a name has the form of a whole SHA-1 or SHA-256.
func looksLikeID(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && (len(name) == 40 || len(name) == 64)
}

// checkBase checks what a new branch starts from: any revision, as long as it
// cannot be read as an option.
func checkBase(base string) error {
	switch {
	case len(base) > maxBranchBytes:
		return fmt.Errorf("base: %q is longer than %d bytes", clip.Text(base, 100), maxBranchBytes)
	case !utf8.ValidString(base):
		return fmt.Errorf("base: %q is not valid UTF-8", clip.Text(base, 100))
	case strings.HasPrefix(base, "-"):
		return fmt.Errorf("base: %q begins with '-', like an option", clip.Text(base, 100))
	case strings.ContainsFunc(base, isControl):
		return fmt.Errorf("base: %q has a control character", clip.Text(base, 100))
	}
	return nil
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// checkPath checks the text of a path.
func checkPath(field, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("%s: must be a path under the workspace root, is empty", field)
	case len(value) > maxPathBytes:
		return fmt.Errorf("%s: %q is longer than %d bytes", field, clip.Text(value, 100), maxPathBytes)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s: %q is not valid UTF-8", field, clip.Text(value, 100))
	case strings.ContainsFunc(value, isControl):
		return fmt.Errorf("%s: %q has a control character", field, clip.Text(value, 100))
	case slices.Contains(strings.Split(filepath.ToSlash(value), "/"), ".."):
		return fmt.Errorf("%s: %q has \"..\": give the path without it", field, clip.Text(value, 200))
	}
	return nil
}

// resolve gives the place under the root that a path means, with all symbolic
// links resolved. What does not exist yet is taken as it is written.
func (g *Git) resolve(field, value string) (string, error) {
	if err := checkPath(field, value); err != nil {
		return "", err
	}
	path := filepath.Clean(value)
	if !filepath.IsAbs(path) {
		path = filepath.Join(g.root, path)
	}
	real, err := realPath(path)
	if err != nil {
		return "", fmt.Errorf("%s: %q cannot be used: %w", field, clip.Text(value, 200), err)
	}
	if real == g.root {
		return "", fmt.Errorf("%s: %q is the workspace root itself: give a path under it", field, clip.Text(value, 200))
	}
	if !g.inside(real) {
		return "", fmt.Errorf("%s: %q is not under the workspace root %q", field, clip.Text(value, 200), g.root)
	}
	return real, nil
}

// inside reports whether a real path lies under the root.
func (g *Git) inside(path string) bool {
	rel, err := filepath.Rel(g.root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// realPath resolves the links of the part of an absolute path that exists. A
// link that leads nowhere is an error: it cannot be told where it will lead.
func realPath(path string) (string, error) {
	_, err := os.Lstat(path) //nolint:gosec // it is looked at to be checked
	switch parent := filepath.Dir(path); {
	case err == nil:
		return filepath.EvalSymlinks(path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case parent == path:
		return path, nil
	default:
		real, err := realPath(parent)
		return filepath.Join(real, filepath.Base(path)), err
	}
}

// inGitDir reports whether a path under the root leads through a directory
// ".git", where a worktree would damage a repository.
func (g *Git) inGitDir(path string) bool {
	rel, err := filepath.Rel(g.root, path)
	return err != nil || slices.ContainsFunc(strings.Split(filepath.ToSlash(rel), "/"), func(part string) bool {
		return strings.EqualFold(part, ".git")
	})
}
