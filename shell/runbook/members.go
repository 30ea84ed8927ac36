package runbook

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// givenMembers are the members of what Orrery gives each pipeline: there are no others.
var givenMembers = map[string][]string{
	"pipeline": {"id", "name"},
	"phase":    {"name", "attempt"},
	"item":     {"id", "data", "attempt"},
}

// givenMember finds a reference to one of them; a dollar before it makes it plain text.
var givenMember = regexp.MustCompile(`(\$*)\$\{(pipeline|phase|item)\.([^.}]*)`)

// members warns of references to members that are never there.
func (c *compiler) members(n *node, field string) {
	switch n.kind {
	case kindTable:
		for _, e := range n.keys {
			if e.name != "shell" { // nothing is filled in there
				c.members(e.value, join(field, e.name))
			}
		}
	case kindArray:
		for i, item := range n.items {
			c.members(item, fmt.Sprintf("%s[%d]", field, i))
		}
	case kindText:
		for _, m := range givenMember.FindAllStringSubmatch(n.text, -1) {
			if known := givenMembers[m[2]]; m[1] == "" && !slices.Contains(known, m[3]) {
				c.warn(n.off, field, "${%s.%s}: %s has no %q%s", m[2], clip.Text(m[3], maxQuoted), m[2], clip.Text(m[3], maxQuoted), didYouMean(m[3], known, true))
			}
		}
	case kindInteger, kindFloat, kindBoolean, kindDate:
	}
}
