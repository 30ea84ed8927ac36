package page_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var gets = regexp.MustCompile(`<p class="get"><a href="(\?[^"]*)" download>`)

func TestJSONOpensAndClosesWithoutScriptEscapedAndIsDownloadedWhole(t *testing.T) {
	k := newKit(t)
	input := `{"who":{"<b>name</b>":"<script>x</script>"},"lines":"one\ntwo","many":[` + strings.Repeat("7,", 500) + `8]}`
	id := k.make("/v1/actions", `{"namespace":"default","tenant":"default","tool_name":"echo","tool_input":`+input+`}`)
	k.until("/v1/actions/"+id, "status.type", "completed")

	shown := k.read("/actions/" + id)
	assert.Contains(t, shown, `<code class="name">&#34;&lt;b&gt;name&lt;/b&gt;&#34;:</code> <code>&#34;&lt;script&gt;x&lt;/script&gt;&#34;</code>`)
	assert.Contains(t, shown, `<details id="tree-input-0"><summary><code class="name">&#34;who&#34;:</code> <span class="hint">1 member</span></summary>`)
	assert.Contains(t, shown, `<pre class="wrap">one
two</pre>`)
	assert.Contains(t, k.text("/actions/"+id), "Not shown: 401 more values with 802 bytes.")

	var parts []string
	for _, m := range gets.FindAllStringSubmatch(shown, -1) {
		part := html.UnescapeString(m[1])
		parts = append(parts, part)
		got := k.send("GET", "/actions/"+id+part, nil)
		require.Equal(t, http.StatusOK, got.Code, part)
		assert.Equal(t, "application/json", got.Header().Get("Content-Type"))
		assert.Regexp(t, `^attachment; filename="(in|out)put\.json"$`, got.Header().Get("Content-Disposition"))
		assert.JSONEq(t, input, got.Body.String())
	}
	assert.Equal(t, []string{"?part=Output", "?part=Input"}, parts)
	assert.Equal(t, http.StatusNotFound, k.send("GET", "/actions/"+id+"?part=other", nil).Code)
}

func TestALongTextIsDownloadedWhole(t *testing.T) {
	k := newKit(t)
	printed := strings.Repeat("x", 70_000)
	id := k.make("/v1/actions", `{"namespace":"default","tenant":"default","tool_name":"echo","tool_input":{"stdout":"`+printed+`"}}`)
	k.until("/v1/actions/"+id, "status.type", "completed")
	assert.Contains(t, k.text("/actions/"+id), "… 4,464 more bytes")
	got := k.send("GET", "/actions/"+id+"?part=Output", nil)
	assert.Equal(t, printed, got.Body.String())
	assert.Equal(t, `attachment; filename="output.txt"`, got.Header().Get("Content-Disposition"))
}
