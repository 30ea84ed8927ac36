package browsertest_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// put gives a field a value, as the browser's own calendar and clock do.
func (b *tab) put(name, value string) {
	b.t.Helper()
	assert.Equal(b.t, value, js[string](b, fmt.Sprintf(`(() => {
		const n = document.querySelector('[name="%s"]');
		n.value = %q;
		n.dispatchEvent(new Event("input", {bubbles: true}));
		return n.value;
	})()`, name, value)), name)
}

// object gives what the API answers of one thing.
func (d *daemon) object(path string) (got map[string]any) {
	d.t.Helper()
	status, answer := d.ask("GET", path, "")
	require.Equal(d.t, 200, status, "%s", answer)
	require.NoError(d.t, json.Unmarshal(answer, &got))
	return got
}

func TestAJobIsEdited(t *testing.T) {
	d := startDaemon(t)
	fill(d, plain)
	b := newTab(t, d)
	const path = "/v1/jobs/works-report" + inDefault
	before := d.object(path)
	b.open("/ui/jobs/works-report" + inDefault)
	b.follow("Edit")
	whole := js[string](b, `document.querySelector("[name=rest]").value`)

	b.put("rest", "{")
	b.follow("Edit")
	assert.Contains(t, b.text("[role=alert]"), "is not JSON")
	assert.Equal(t, "{", js[string](b, `document.querySelector("[name=rest]").value`), "what was typed")
	var spec map[string]any
	require.NoError(t, json.Unmarshal([]byte(whole), &spec))
	spec["name"], spec["schedule"] = "Report of the morning", "0 5 * * *"
	changed, err := json.Marshal(spec)
	require.NoError(t, err)
	b.put("rest", string(changed))
	b.follow("Edit")

	assert.Equal(t, "The job has its new configuration.", b.text("[data-done]"))
	after := d.object(path)
	assert.Equal(t, []any{"Report of the morning", "0 5 * * *"}, []any{after["name"], after["schedule"]})
	for _, name := range []string{"pod_spec", "runner", "overlap", "timezone"} {
		assert.Equal(t, before[name], after[name], "%s, which nobody has changed", name)
	}
	assert.Equal(t, "0 5 * * *", js[string](b, fmt.Sprintf(`[...document.querySelectorAll("main code")].map((n) => n.textContent).find((s) => s === %q) ?? ""`, "0 5 * * *")), "the schedule that the page shows")
}
