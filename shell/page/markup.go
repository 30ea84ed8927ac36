package page

import (
	"fmt"
	"html/template"
	"strings"
)

// markup collects HTML or SVG of escaped parts.
type markup struct{ strings.Builder }

// add writes markup; the strings among its values are escaped.
func (m *markup) add(format string, values ...any) {
	for i, v := range values {
		if s, ok := v.(string); ok {
			values[i] = template.HTMLEscapeString(s)
		}
	}
	_, _ = fmt.Fprintf(m, format, values...)
}

func (m *markup) html() template.HTML {
	return template.HTML(m.String()) //nolint:gosec // add escapes all texts
}
