// Package workspace gives each namespace and tenant a folder of its own for repositories,
// worktrees and sessions.
package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/orrery-go/orrery/shell/confine"
)

// Roots are the folders of all tenants under one. The zero value is none. They are safe for
// concurrent use.
type Roots struct {
	dir    string
	shared bool
	user   *confine.User // whose the folders of tenants are; nil: this process's
}

// New gives the roots under a directory, which is made where it is missing. If they are
// shared, the directory itself is the root of everybody. The folders of tenants that are made
// belong to the user, if one is given, who may then enter the directory.
func New(dir string, shared bool, user *confine.User) (Roots, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(abs, 0o700)
	}
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err == nil && user != nil {
		err = os.Chmod(abs, 0o711) //nolint:gosec // the user enters it, and lists nothing
	}
	if err != nil {
		return Roots{}, fmt.Errorf("workspace: %w", err)
	}
	return Roots{dir: abs, shared: shared, user: user}, nil
}

// Dir is the directory under which all roots lie, empty if there are none.
func (r Roots) Dir() string { return r.dir }

// Shared reports whether all have one root.
func (r Roots) Shared() bool { return r.shared }

// Of gives the root of a namespace and tenant, and makes it where it is missing. It is a
// folder, and no link leads to it.
func (r Roots) Of(namespace, tenant string) (string, error) {
	if r.shared {
		return r.dir, nil
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return "", fmt.Errorf("workspace: %w", err)
	}
	defer func() { _ = root.Close() }()
	path := ""
	for _, name := range []string{namespace, tenant} {
		path = filepath.Join(path, folder(name))
		err := root.Mkdir(path, 0o700)
		if err == nil && r.user != nil {
			err = r.user.Own(root, path)
		}
		if err != nil && !os.IsExist(err) {
			return "", fmt.Errorf("workspace: %w", err)
		}
		if info, err := root.Lstat(path); err != nil || !info.IsDir() { // a link is none
			return "", fmt.Errorf("workspace: %s is no folder, or a link: the tenant %s/%s needs one there", filepath.Join(r.dir, path), namespace, tenant)
		}
	}
	return filepath.Join(r.dir, path), nil
}

// Strays lists what lies in the directory itself and is a repository, or a worktree: of a time
// when all tenants had one root. No tenant reaches it.
func (r Roots) Strays() ([]string, error) {
	if r.dir == "" || r.shared {
		return nil, nil
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	var found []string
	for _, e := range entries {
		path := filepath.Join(r.dir, e.Name())
		for _, mark := range []string{".git", "HEAD"} { // the latter is in a bare one
			if _, err := os.Lstat(filepath.Join(path, mark)); err == nil {
				found = append(found, path)
				break
			}
		}
	}
	return found, nil
}

// longest is how long an escaped name may be: a file system takes 255 bytes.
const longest = 180

// folder makes the name of a folder of any name: different ones of different names, also
// where the file system does not tell upper from lower case. Lower-case letters, digits, '-'
// and '_' stay, and a '.' that is not the first; all other bytes become %XX.
func folder(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0 && i < len(name)-1:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	if b.Len() == 0 || b.Len() > longest {
		sum := sha256.Sum256([]byte(name))
		return b.String()[:min(b.Len(), longest-2*sha256.Size)] + "%-" + hex.EncodeToString(sum[:])
	}
	return b.String()
}
