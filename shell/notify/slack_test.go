package notify_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
)

// posts answers requests without a network, and keeps their bodies.
type posts struct {
	bodies [][]byte
	answer func() *http.Response
}

func (p *posts) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	p.bodies = append(p.bodies, body)
	if p.answer != nil {
		return p.answer(), err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("ok"))}, err
}

const slackURL = "https://hooks.slack.com/services/T000/B000/s3cret"

func slack(t testing.TB, p *posts) *notify.Slack {
	t.Helper()
	s, err := notify.NewSlack(notify.SlackOptions{URL: slackURL, Transport: p})
	require.NoError(t, err)
	return s
}

// schema has the limits that Slack publishes.
func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	b, err := os.ReadFile("testdata/slack.schema.json")
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("slack.json", doc))
	s, err := c.Compile("slack.json")
	require.NoError(t, err)
	return s
}

// shown is what Slack shows of a body: the header, and the text of all sections.
func shown(t interface {
	require.TestingT
	Helper()
}, body []byte) (header, text string, sections []string) {
	t.Helper()
	var m struct {
		Blocks []struct {
			Type string
			Text struct{ Type, Text string }
		}
	}
	require.NoError(t, json.Unmarshal(body, &m))
	for _, b := range m.Blocks {
		if b.Type == "header" {
			header = b.Text.Text
			continue
		}
		sections = append(sections, b.Text.Text)
	}
	unescape := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
	return header, unescape.Replace(strings.Join(sections, "\n")), sections
}

func TestSlackShowsTitleAndTextAsTheyAre(t *testing.T) {
	p := &posts{}
	require.NoError(t, slack(t, p).Notify(t.Context(), effects.Notify{Title: "Stuck: <!channel> & more", Message: "see <https://evil|here> & <@U1>\n> no quote"}))
	require.Len(t, p.bodies, 1)
	assert.JSONEq(t, `{"text":"Stuck: &lt;!channel&gt; &amp; more","mrkdwn":false,"blocks":[
		{"type":"header","text":{"type":"plain_text","emoji":false,"text":"Stuck: <!channel> & more"}},
		{"type":"section","text":{"type":"plain_text","emoji":false,"text":"see <https://evil|here> & <@U1>\n> no quote"}}]}`, string(p.bodies[0]))
}

// What a program prints comes into the reason, the output and the names.
func TestSlackShowsNoMarkupFromOutside(t *testing.T) {
	const hostile = "*on* _x_ ~y~ `z` https://evil.example <https://evil.example|here> <!channel> :bomb: ```"
	p, s := &posts{}, schema(t)
	ev := event("action", "failed", `{"namespace":"shop","tenant":"eu","label":"*nightly*","error":"stderr ends with \"*on* _x_ `+"`z`"+`\"","output":"one\n`+"```"+`\n*on* <!here>\n`+"```"+` two","tool":"_x_"}`)
	m, err := templates(t, notify.DefaultTitle, notify.SlackText).Message(ev, notify.NoticeOf(ev, notify.Hint{Does: "show it", Line: "orreryd actions show 01"}))
	require.NoError(t, err)
	require.NoError(t, slack(t, p).Tell(t.Context(), m))
	require.NoError(t, slack(t, p).Notify(t.Context(), effects.Notify{Title: hostile, Message: hostile}))
	require.NoError(t, slack(t, p).Notify(t.Context(), effects.Notify{Title: hostile, Message: hostile + "\n" + hostile + "\n```\n" + hostile + "\n``` " + hostile}))
	for _, body := range p.bodies {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, s.Validate(doc))
		assertNoMarkup(t, body)
	}
	assert.Contains(t, string(p.bodies[0]), `*on* \u0026lt;!here`, "the output is there, as code")
}

// assertNoMarkup holds that each text is plain, or one block of code out of which nothing leads.
func assertNoMarkup(t require.TestingT, body []byte) {
	var m struct {
		Mrkdwn bool
		Blocks []struct {
			Text struct {
				Type, Text string
				Verbatim   bool
			}
		}
	}
	m.Mrkdwn = true // as Slack has it where nothing is said
	require.NoError(t, json.Unmarshal(body, &m))
	assert.False(t, m.Mrkdwn)
	for _, b := range m.Blocks {
		if b.Text.Type == "plain_text" {
			continue
		}
		code, begins := strings.CutPrefix(b.Text.Text, "```\n")
		code, ends := strings.CutSuffix(code, "\n```")
		assert.True(t, begins && ends && b.Text.Verbatim, "%q", b.Text.Text)
		assert.NotContains(t, code, "```")
	}
}

func TestSlackGetsNoMoreThanItTakes(t *testing.T) {
	s := schema(t)
	piece := rapid.SampledFrom([]string{"a", "word ", "\n", "&", "<!here>", "```", "```\n", "*", "😀", "é", "\x00", "\r\n", "\xff", strings.Repeat("x", 3100), strings.Repeat("&", 1500), strings.Repeat("line\n", 700), strings.Repeat("😀", 1600)})
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(rt, "text"), "")
		title := strings.Join(rapid.SliceOfN(piece, 0, 10).Draw(rt, "title"), "")
		p := &posts{}
		require.NoError(rt, slack(t, p).Tell(t.Context(), notify.Message{Title: title, Text: text}))
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(p.bodies[0]))
		require.NoError(rt, err)
		require.NoError(rt, s.Validate(doc))
		header, _, sections := shown(rt, p.bodies[0])
		assert.LessOrEqual(rt, len(utf16.Encode([]rune(header))), 150, "in the units of JavaScript, too")
		assertNoMarkup(rt, p.bodies[0])
		all := 0
		for _, section := range sections {
			n := len(utf16.Encode([]rune(section)))
			assert.LessOrEqual(rt, n, 3000)
			all += n
			assert.NotContains(rt, section, "\uFFFD\uFFFD\uFFFD\uFFFD", "no character is parted")
		}
		assert.Less(rt, all, 9500, "of all blocks together, Slack refuses more than some 10,000")
	})
}

func TestABlockOfCodeThatIsPartedIsClosedAndOpenedAgain(t *testing.T) {
	p := &posts{}
	require.NoError(t, slack(t, p).Tell(t.Context(), notify.Message{Title: "x", Text: "before\n```\n" + strings.Repeat("0123456789\n", 500) + "```\nafter"}))
	_, text, sections := shown(t, p.bodies[0])
	require.Len(t, sections, 4, "the text before it, two of code, and the text after it")
	for _, section := range sections[1:3] {
		assert.Equal(t, 2, strings.Count(section, "```"), "%q", section)
	}
	assert.Equal(t, 500, strings.Count(text, "0123456789"))
	assert.True(t, strings.HasSuffix(text, "after"))

	require.NoError(t, slack(t, p).Tell(t.Context(), notify.Message{Title: "x", Text: "the word ```x``` and ```\nno code"}))
	_, _, sections = shown(t, p.bodies[1])
	assert.Equal(t, []string{"the word ```x``` and ```\nno code"}, sections, "what merely ends with the marks begins no block")
}

func TestALongTextForSlackIsPartedAtItsLinesAndSaysThatItIsCut(t *testing.T) {
	p := &posts{}
	require.NoError(t, slack(t, p).Tell(t.Context(), notify.Message{Title: "x", Text: strings.Repeat("0123456789\n", 2000)}))
	_, _, sections := shown(t, p.bodies[0])
	require.Greater(t, len(sections), 2)
	for _, section := range sections[:2] {
		assert.True(t, strings.HasPrefix(section, "0123456789\n") && strings.HasSuffix(section, "\n0123456789"))
	}
	assert.Contains(t, sections[len(sections)-1], "8,000 characters are shown")
}

func TestSlackIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	for status, row := range map[int]struct {
		permanent bool
		wait      time.Duration
	}{
		http.StatusTooManyRequests: {false, 30 * time.Second}, http.StatusServiceUnavailable: {false, 30 * time.Second}, http.StatusNotFound: {true, 0}, http.StatusBadRequest: {true, 0}, http.StatusGone: {true, 0},
	} {
		p := &posts{answer: func() *http.Response {
			return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"30"}}, Body: io.NopCloser(strings.NewReader("no_service"))}
		}}
		err := slack(t, p).Notify(t.Context(), stuck)
		require.ErrorContains(t, err, `https://hooks.slack.com answered `)
		require.ErrorContains(t, err, `"no_service"`)
		assert.NotContains(t, err.Error(), "s3cret")
		assert.Equal(t, row.permanent, shell.IsPermanent(err), "%d", status)
		wait, _ := notify.RetryDelay(err)
		assert.Equal(t, row.wait, wait, "%d", status)
	}
	_, err := notify.NewSlack(notify.SlackOptions{URL: "hooks.slack.com/s3cret"})
	require.ErrorContains(t, err, "URL: ")
	assert.NotContains(t, err.Error(), "s3cret")
}

// TestASectionAndAMessageForSlackAreAsLongAsTheyMayBe: what just fits stands there whole.
func TestASectionAndAMessageForSlackAreAsLongAsTheyMayBe(t *testing.T) {
	told := func(title, text string) (header string, sections []string) {
		p := &posts{}
		require.NoError(t, slack(t, p).Tell(t.Context(), notify.Message{Title: title, Text: text}))
		header, _, sections = shown(t, p.bodies[0])
		return header, sections
	}
	header, _ := told(strings.Repeat("x", 150), "x")
	assert.Equal(t, strings.Repeat("x", 150), header)
	header, _ = told(strings.Repeat("x", 151), "x")
	assert.Equal(t, strings.Repeat("x", 149)+"…", header)

	// A section has room for the two ends of a block of code, of four characters each.
	const room = 3000 - 8
	_, sections := told("x", strings.Repeat("x", room-1))
	assert.Len(t, sections, 1)
	_, sections = told("x", strings.Repeat("x", room/2-1)+"\n"+strings.Repeat("y", room/2-1))
	assert.Len(t, sections, 1)
	_, sections = told("x", strings.Repeat("x", room/2-1)+"\n"+strings.Repeat("y", room/2))
	assert.Equal(t, []string{strings.Repeat("x", room/2-1), strings.Repeat("y", room/2)}, sections)
	_, sections = told("x", strings.Repeat("😀", room/2+1))
	require.Len(t, sections, 2, "a picture counts as two")
	assert.Equal(t, strings.Repeat("😀", room/2), sections[0])
	assert.Equal(t, "😀", sections[1])

	_, sections = told("x", strings.Repeat(strings.Repeat("x", 99)+"\n", 80))
	assert.Equal(t, 80*99, strings.Count(strings.Join(sections, ""), "x"), "8,000 with the ends of the lines")
	assert.NotContains(t, sections[len(sections)-1], "more")
	_, sections = told("x", strings.Repeat(strings.Repeat("x", 99)+"\n", 79)+strings.Repeat("x", 100))
	assert.Equal(t, "… and more: 8,000 characters are shown at most", sections[len(sections)-1])
	assert.Equal(t, 80*99+1, strings.Count(strings.Join(sections, ""), "x"))
}

func TestAMessageForSlackHasFiftyBlocksAtMost(t *testing.T) {
	told := func(blocks int) []string {
		p := &posts{}
		require.NoError(t, slack(t, p).Tell(t.Context(), notify.Message{Title: "x", Text: strings.Repeat("```\ncode\n```\n", blocks)}))
		_, _, sections := shown(t, p.bodies[0])
		return sections
	}
	assert.Equal(t, slices.Repeat([]string{"```\ncode\n```"}, 48), told(48), "with the header one fewer than there may be")
	sections := told(49)
	require.Len(t, sections, 49, "with the header it is 50")
	assert.Contains(t, sections[48], "and more")
}
