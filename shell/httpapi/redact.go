package httpapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Redaction says what holders of read-only tokens that are not admins do not see: values
// of members in JSON answers and events, shown as "(redacted)". The zero value hides
// nothing.
type Redaction struct {
	// Names hides, within what users have given or tools have answered (tool_input, result,
	// payload, headers, context, metadata and the like), the members whose names tell of a
	// secret: authorization, cookie, credential, password, secret, token, api key, private.
	Names bool
	// Paths name members to be hidden, each by the names on the way to it with dots
	// between: "result.body" is any member body in a member result, however deep; "*"
	// stands for one name. Elements of lists have no name. At most 64.
	Paths []string
}

const (
	maxRedactPaths = 64
	redactedValue  = `"(redacted)"`
)

// Validate says which path is wrong.
func (r Redaction) Validate() error {
	if len(r.Paths) > maxRedactPaths {
		return fmt.Errorf("paths: %d are more than %d", len(r.Paths), maxRedactPaths)
	}
	for i, p := range r.Paths {
		names := strings.Split(p, ".")
		if slices.Contains(names, "") || names[len(names)-1] == "*" || len(p) > 256 {
			return fmt.Errorf("paths[%d]: %q is no path such as result.body or tool_input.*.key: names with dots between, the last one not *", i, clip(p))
		}
	}
	return nil
}

// hides reports whether there is anything to hide.
func (r Redaction) hides() bool { return r.Names || len(r.Paths) > 0 }

// redacts reports whether something is hidden from a token.
func (s *Server) redacts(t *Token) bool {
	return t != nil && t.ReadOnly && !t.Admin && s.o.Redact.hides()
}

var secretName = regexp.MustCompile(`(?i)authorization|cookie|credential|passw|secret|token|api[-_]?key|private`)

// givenMembers are the members below which all is of users and tools.
var givenMembers = map[string]bool{
	"tool_input": true, "input": true, "inputs": true, "result": true, "output": true, "outputs": true,
	"payload": true, "header": true, "headers": true, "context": true, "metadata": true, "env": true,
	"data": true, "definition": true, "constraint_config": true, "action_config": true,
}

// redactor hides members of the JSON that goes through it, in whatever pieces it comes. It
// looks at the JSON as it passes and keeps the names that lead to where it is.
type redactor struct {
	paths [][]string
	names bool

	open    []container
	text    bool   // within a text,
	escaped bool   // behind a backslash of it,
	isKey   bool   // which is the name of a member
	key     []byte // as far as it has come, with quotes
	hiding  int    // 1 + how many containers were open where a value began that is hidden; 0: none
	scalar  bool   // the hidden value is a number or a word
}

type container struct {
	list  bool
	name  string // of the member that comes, or is under way
	value bool   // its value comes: the name and the colon have been
	begun bool   // it has begun
	given bool   // it, or one around it, is one of [givenMembers]
}

func (r Redaction) redactor() *redactor {
	out := &redactor{names: r.Names}
	for _, p := range r.Paths {
		out.paths = append(out.paths, strings.Split(p, "."))
	}
	return out
}

// pass gives what is to be sent of a piece.
func (r *redactor) pass(piece []byte) []byte {
	out := make([]byte, 0, len(piece)+16)
	for _, c := range piece {
		if r.scalar && strings.IndexByte(",]} \n\r\t", c) >= 0 {
			r.hiding, r.scalar = 0, false
		}
		hidden := r.hiding > 0
		if !hidden && r.begins(c) && r.hidesHere() {
			out, hidden = append(out, redactedValue...), true
			r.hiding = 1 + len(r.open)
			r.scalar = c != '"' && c != '{' && c != '['
		}
		if !hidden {
			out = append(out, c)
		}
		r.follow(c)
	}
	return out
}

// begins reports whether the byte is the first of a value of a member; null stays.
func (r *redactor) begins(c byte) bool {
	if r.text || len(r.open) == 0 {
		return false
	}
	at := &r.open[len(r.open)-1]
	if at.list || !at.value || at.begun || strings.IndexByte(" \n\r\t", c) >= 0 {
		return false
	}
	at.begun = true
	return c != 'n'
}

// follow keeps track of where in the JSON the next byte stands.
func (r *redactor) follow(c byte) {
	if r.text {
		r.followText(c)
		return
	}
	last := len(r.open) - 1
	switch c {
	case '"':
		r.text = len(r.open) > 0
		r.isKey = r.text && !r.open[last].list && !r.open[last].value
		r.key = append(r.key[:0], '"')
	case '{', '[':
		below := last >= 0 && (r.open[last].given || givenMembers[r.open[last].name])
		r.open = append(r.open, container{list: c == '[', given: below})
	case '}', ']':
		if last >= 0 {
			r.open = r.open[:last]
			r.ended()
		}
	case ':':
		if last >= 0 {
			r.open[last].value, r.open[last].begun = true, false
		}
	case ',':
		if last >= 0 {
			r.open[last].value = false
		}
	}
}

func (r *redactor) followText(c byte) {
	if r.isKey {
		r.key = append(r.key, c)
	}
	switch {
	case r.escaped:
		r.escaped = false
	case c == '\\':
		r.escaped = true
	case c == '"':
		r.text = false
		if r.isKey {
			var name string
			_ = json.Unmarshal(r.key, &name) // what the server has encoded decodes
			r.open[len(r.open)-1].name = name
			return
		}
		r.ended()
	}
}

// ended ends the hiding with the value with which it began.
func (r *redactor) ended() {
	if r.hiding == 1+len(r.open) {
		r.hiding = 0
	}
}

// hidesHere reports whether the member whose value begins is one that is hidden.
func (r *redactor) hidesHere() bool {
	at := r.open[len(r.open)-1]
	return r.names && at.given && secretName.MatchString(at.name) || slices.ContainsFunc(r.paths, r.leadsHere)
}

// leadsHere reports whether the names that lead to the member end with the path.
func (r *redactor) leadsHere(path []string) bool {
	i := len(path)
	for j := len(r.open) - 1; j >= 0 && i > 0; j-- {
		if r.open[j].list {
			continue
		}
		if i--; path[i] != "*" && path[i] != r.open[j].name {
			return false
		}
	}
	return i == 0
}
