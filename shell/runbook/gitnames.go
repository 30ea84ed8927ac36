package runbook

import (
	slashes "path"
	"strings"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// path reads a path within the workspace. One that leaves it would be refused when
// its turn comes; what a reference makes of it nobody knows before.
func (t *table) path(key string) string {
	s := t.text(key)
	if clean := slashes.Clean(s); !strings.Contains(s, "${") && (clean == ".." || strings.HasPrefix(clean, "../")) {
		t.say(t.get(key), key, "%q leaves the workspace: want a path within it", clip.Text(s, maxQuoted))
	}
	return s
}

// branch reads the name of a branch, or of another commit.
func (t *table) branch(key string) string {
	s := t.text(key)
	if strings.HasPrefix(s, "-") {
		t.say(t.get(key), key, "%q begins with '-', like an option", clip.Text(s, maxQuoted))
	}
	return s
}
