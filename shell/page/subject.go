package page

import (
	"strings"

	"github.com/google/uuid"
)

// subject gives the name of what an act is done to, so that nobody has to know it by its id; nothing if it has no name, or cannot be
// read.
func (q *visit) subject(a act) string {
	segments := strings.Split(a.on, "/")
	if len(segments) < 3 || !strings.HasPrefix(segments[2], "{") {
		return ""
	}
	id := q.PathValue(strings.Trim(segments[2], "{}"))
	switch segments[1] {
	case "recurring", "jobs", "runs", "actions", "pipelines", "tasks", "strategies":
		var got listed
		if err := q.get(pathOf(segments[1], id), q.scopeQuery(), &got); err != nil {
			return ""
		}
		if name := got.name(); name != "" || segments[1] != "jobs" {
			return name
		}
	}
	if _, err := uuid.Parse(id); err == nil {
		return ""
	}
	return clip(id, 200)
}
