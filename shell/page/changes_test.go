package page_test

import (
	"html"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheJournalOfABusyQueueHasPagesAndLeavesOutItsItems(t *testing.T) {
	k := newKit(t)
	k.write("PUT", "/v1/queues/q", `{}`)
	k.write("POST", "/v1/queues/q/pause", `{"reason":"night"}`)
	for range 60 {
		k.write("POST", "/v1/queues/q/items", `{"data":1}`)
	}
	_, rest, ok := strings.Cut(k.read("/queues/q"), `href="/ui/changes/queue/`)
	require.True(t, ok)
	id, rest, ok := strings.Cut(rest, "?asked=true\"")
	require.True(t, ok, "the link leads to what somebody asked for: %s", rest[:min(len(rest), 100)])

	asked := k.text("/changes/queue/" + id + "?asked=true")
	assert.Contains(t, asked, "night")
	assert.Contains(t, asked, "create")
	assert.NotContains(t, asked, `{"type":"push"`)

	at := "/changes/queue/" + id
	first := k.read(at)
	assert.NotContains(t, words(first), "night")
	_, next, ok := strings.Cut(first, `<a rel="next" href="/ui`)
	require.True(t, ok)
	next, _, _ = strings.Cut(next, `"`)
	second := k.text(html.UnescapeString(next))
	assert.Contains(t, second, "night")
	assert.Contains(t, second, "First page")
	assert.NotContains(t, second, "Next page")
}

func TestTheJournalShowsWhichToolRanAndWasAnswered(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/actions", `{"namespace":"default","tenant":"default","tool_name":"echo"}`)
	k.until("/v1/actions/"+id, "status.type", "completed")
	shown := k.text("/changes/action/" + id)
	assert.Contains(t, shown, `answered run tool: {"type":"run_tool","run":1,"tool":"echo"}`)
	assert.Contains(t, shown, `requested run tool: {"type":"run_tool","run":1,"tool":"echo"}`)
}
