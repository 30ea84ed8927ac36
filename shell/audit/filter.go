package audit

import (
	"regexp"
	"strconv"
	"strings"
)

// Filter chooses entries by what they say; nil and "" choose all.
type Filter struct {
	// Token, Actor, Operation, Namespace and Tenant are those of the entry to the letter: "" is
	// an entry that has none.
	Token, Actor, Operation, Namespace, Tenant *string
	// Status is that of the answer, such as 403, or 4xx for all of them.
	Status string
}

var statuses = regexp.MustCompile(`^([1-5](xx|[0-9][0-9]))?$`)

// Valid reports whether the status is one.
func (f Filter) Valid() bool { return statuses.MatchString(f.Status) }

// Keep reports whether the filter chooses an entry.
func (f Filter) Keep(e *Entry) bool {
	is := func(want *string, v string) bool { return want == nil || *want == v }
	return is(f.Token, e.Token) && is(f.Actor, e.Actor) && is(f.Operation, e.Operation) && is(f.Namespace, e.Namespace) && is(f.Tenant, e.Tenant) &&
		strings.HasPrefix(strconv.Itoa(e.Status), strings.TrimSuffix(f.Status, "xx"))
}
