package page

import (
	"slices"
	"strings"
)

// labelled has an error of the API call the fields of a form as the form does: who typed into "Tool" does not know a "provider".
func labelled(fields []field, text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		name, why, ok := strings.Cut(line, ": ")
		at := slices.IndexFunc(fields, func(f field) bool { return f.Name == name && f.Label != "" })
		if ok && at >= 0 {
			lines[i] = fields[at].Label + ": " + why
		}
	}
	return strings.Join(lines, "\n")
}

// inZone gives the fields, and has those that want a time say in which zone it is read. The fields are copied: a table of acts
// is read by all visitors at once.
func (q *visit) inZone(fields []field) []field {
	fields = slices.Clone(fields)
	for i, f := range fields {
		if f.Type == fieldTime {
			fields[i].Help = strings.TrimSpace(f.Help + " In " + q.zone.String() + "; another zone is chosen in the menu at the top right.")
		}
	}
	return fields
}
