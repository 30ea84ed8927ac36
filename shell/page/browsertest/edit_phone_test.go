package browsertest_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// beyond gives the fields of the form that a window has at its right or that are too small for a finger.
const beyond = `[...document.querySelectorAll("main input:not([type=hidden]), main select, main textarea, main summary, main button")].filter((n) => {
	const r = n.getBoundingClientRect();
	return n.checkVisibility() && (r.right > innerWidth || r.left < 0 || r.height < 24 && n.type !== "checkbox");
}).map((n) => n.name || n.textContent)`

func TestOnATelephoneARecurringActionIsEditedInEachOfItsGroups(t *testing.T) {
	d := startDaemon(t)
	f := fill(d, plain)
	b := telephone(t, d)
	b.open("/ui/recurring/" + f.recurring)
	before := d.object("/v1/recurring/" + f.recurring)
	b.follow("Edit")
	groups := js[[]string](b, `[...document.querySelectorAll("details.group:not([open]) > summary")].map((n) => n.textContent)`)
	require.NotEmpty(t, groups, "groups that are closed")
	for _, name := range groups {
		x, y := b.find("details.group > summary", name)
		b.do(chromedp.MouseClickXY(x, y))
	}
	b.eventually(`document.querySelectorAll("details.group:not([open])").length === 0`, promised, "that each group is open")
	assert.True(t, js[bool](b, `document.documentElement.scrollWidth <= innerWidth`), "the form is wider than the telephone")
	assert.Empty(t, js[[]string](b, beyond), "fields that do not fit")
	assert.Equal(t, "datetime-local", js[string](b, `document.querySelector("[name=starts_at]").type`))

	b.fill("[name=description]", "Close all the books")
	b.put("starts_at", "2090-01-31T09:00")
	b.fill(`[name="policy.timeout_ms"]`, "5m")
	b.follow("Edit")

	assert.Equal(t, "The recurring action was changed.", b.text("[data-done]"))
	after := d.object("/v1/recurring/" + f.recurring)
	assert.Equal(t, "Close all the books", after["description"])
	assert.Equal(t, "2090-01-31T09:00:00.000Z", after["starts_at"])
	assert.EqualValues(t, 300000, after["policy"].(map[string]any)["timeout_ms"])
	for _, name := range []string{"cron_expr", "timezone", "action_template", "labels", "overlap", "ends_at", "enabled"} {
		assert.Equal(t, before[name], after[name], "%s, which nobody has changed", name)
	}
	b.follow("Edit")
	assert.Equal(t, []string{"2090-01-31T09:00:00Z", "5m0s"}, js[[]string](b, `["starts_at", "policy.timeout_ms"].map((n) => document.getElementsByName(n)[0].value)`), "what the form shows next")
	assert.Empty(t, b.complained())
}
