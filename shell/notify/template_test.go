package notify_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest" // properties draw from fixed seeds
	"github.com/orrery-go/orrery/shell/notify"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/messages.txt")

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// event is one of a kind, with data in JSON.
func event(category, action, data string) effects.Event {
	return effects.Event{
		ID: uuid.MustParse("00000000-0000-4000-8000-00000000000e"), Kind: effects.Custom(category, action), Timestamp: effects.TimeOf(noon),
		Source: effects.EventSource{Component: category, ID: uuid.MustParse("00000000-0000-4000-8000-000000000001")}, Data: json.RawMessage(data),
	}
}

func templates(t require.TestingT, title, text string) *notify.Templates {
	got, err := notify.NewTemplates(title, text)
	require.NoError(t, err)
	return got
}

// told are events as people are told of them.
var told = []struct {
	category, action, data string
	commands               []notify.Hint
}{
	{"action", "failed", `{"namespace":"shop","tenant":"eu","label":"nightly","tool":"command","attempt":3,"error":"exit status 1","output":"copying\r\n\u001b[31mno space left\u001b[0m\n"}`, []notify.Hint{{Does: "show it", Line: "orreryd actions show 01"}, {Does: "try it again", Line: "orreryd actions retry 01"}}},
	{"action", "failed", ``, nil},
	{"action", "cancelled", `{"label":"nightly","reason":"by hand"}`, nil},
	{"pipeline", "failed", `{"label":"release","pipeline":"build","phase":"test","error":"exit status 2"}`, []notify.Hint{{Does: "show it", Line: "orreryd pipeline show 01"}}},
	{"pipeline", "approval", `{"label":"release","phase":"gate","message":"Merge?"}`, []notify.Hint{{Does: "approve", Line: "orreryd pipeline approve 01"}}},
	{"task", "stuck", `{"label":"review","reason":"no heartbeat for 1m"}`, nil},
	{"task", "recovered", `{"label":"review"}`, nil},
	{"task", "input_lost", `{"label":"review","reason":"the session has ended"}`, nil},
	{"strategy", "exhausted", `{"label":"merge","approach":"agent","error":"conflict"}`, nil},
	{"queue", "dead", `{"name":"mail","reason":"no luck"}`, nil},
	{"job", "missed", `{"job_id":"nightly","scheduled_at":"2026-03-10T03:00:00.000Z","count":7,"reason":"outage"}`, nil},
	{"recurring", "missed", `{"namespace":"shop","tenant":"eu","name":"nightly","due_at":"2026-03-10T03:00:00.000Z","until":"2026-03-10T04:00:00.000Z","count":2,"reason":"outage"}`, nil},
	{"recurring", "missed", `{"name":"nightly","due_at":"2026-03-10T03:00:00.000Z","count":1,"reason":"outage"}`, nil},
	{"recurring", "no_next", `{"label":"nightly"}`, nil},
	{"run", "orphaned", `{"job_id":"nightly","run_id":"r1"}`, nil},
	{"run", "cleanup_abandoned", `{}`, nil},
	{"system", "escalate", `{"message":"task review: what it could do itself has not helped"}`, nil},
	{"alert", "raised", alerts("late", 1, "nightly: its time has not begun"), nil},
	{"alert", "cleared", alerts("late", 1, "nightly: it has begun"), nil},
	{"alert", "raised", alerts("missed", 1, "report: an outage"), nil},
	{"alert", "raised", alerts("stale", 1, "only: nothing has succeeded for 26h"), nil},
	{"alert", "raised", alerts("failing", 1, "nightly: 3 in a row: exit status 1"), nil},
	{"alert", "raised", alerts("late", 10000, "a: an outage of 2h", "b: an outage of 2h", "c: an outage of 2h"), nil},
	{"alert", "cleared", alerts("slow", 2, "a: it has ended", "b: it was cancelled"), nil},
	{"alert", "raised", `{"count":3,"kinds":{"late":1,"stale":2},"alerts":[{"kind":"late","namespace":"shop","tenant":"eu","name":"a","reason":"x"},{"kind":"stale","namespace":"shop","tenant":"us","name":"b","reason":"y"},{"kind":"stale","namespace":"shop","tenant":"us","name":"c","reason":"z"}],"message":"3 alerts"}`, nil},
	{"alert", "raised", alerts("something_new", 1, "nightly: why"), nil},
	{"alert", "undelivered", `{"title":"late: nightly","error":"HTTP 503"}`, nil},
	{"deploy", "done", `{"version":"1.2"}`, nil},
	{"deploy", "done", `[1,2]`, nil},
	{"run", "something_new", `{"name":"x"}`, nil},
}

// alerts is the data of an event of alerts, of which each has a name and a reason.
func alerts(kind string, count int, each ...string) string {
	var list []string
	for _, a := range each {
		name, reason, _ := strings.Cut(a, ": ")
		list = append(list, fmt.Sprintf(`{"kind":%q,"schedule":{"kind":"recurring","id":"00000000-0000-4000-8000-000000000001"},"namespace":"shop","tenant":"eu","name":%q,"since":"2026-03-10T12:00:00Z","reason":%q}`, kind, name, reason))
	}
	return fmt.Sprintf(`{"channel":"ops","count":%d,"kinds":{%q:%d},"alerts":[%s],"message":"…"}`, count, kind, count, strings.Join(list, ","))
}

// TestEachKindOfEventReadsWell compares what people are told with testdata/messages.txt.
func TestEachKindOfEventReadsWell(t *testing.T) {
	var out strings.Builder
	plain, slack := templates(t, notify.DefaultTitle, notify.DefaultText), templates(t, notify.DefaultTitle, notify.SlackText)
	for i, e := range told {
		ev := event(e.category, e.action, e.data)
		m, err := plain.Message(ev, notify.NoticeOf(ev, e.commands...))
		require.NoError(t, err)
		fmt.Fprintf(&out, "=== %s %s\nSubject: %s\n\n%s\n", ev.Kind, e.data, m.Title, m.Text)
		if i == 0 || e.category == "alert" && strings.Contains(e.data, "10000") {
			m, err := slack.Message(ev, notify.NoticeOf(ev, e.commands...))
			require.NoError(t, err)
			fmt.Fprintf(&out, "--- in Slack: %s\n\n%s\n", m.Title, m.Text)
		}
	}
	const file = "testdata/messages.txt"
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), out.String(), "after a change that is wanted: go test ./shell/notify -run EachKind -rewrite")
}

func TestEachEventThatMachinesAnnounceHasASentence(t *testing.T) {
	for _, kind := range effects.Announced() {
		n := notify.NoticeOf(effects.Event{Kind: kind, Data: json.RawMessage(`{"label":"x"}`)})
		assert.NotContains(t, n.What, "_")
		if kind.Category != "system" && kind.Category != "scheduler" && kind.Category != "alert" {
			assert.Contains(t, n.What, `"x" `, kind)
			assert.NotContains(t, n.What, ":")
		}
	}
}

func TestATemplateThatNamesWhatNoNoticeHasIsRefusedWhenItIsRead(t *testing.T) {
	for text, want := range map[string]string{
		`{{.Wat}}`: "text: .Wat is unknown: use .ID, .Kind, ",
		`{{if eq .Kind "never:heard"}}{{.Wat}}{{end}}`:             ".Wat is unknown",
		`{{range .Facts}}{{$.Wat}}{{end}}`:                         ".Wat is unknown",
		`{{define "x"}}{{.Wat}}{{end}}`:                            ".Wat is unknown",
		`{{with $x := .Why}}{{(index $.Facts 0).Wat}}{{end}}`:      ".Wat is unknown",
		`{{index .Facts 0}}`:                                       "index out of range",
		`{{.Data}}`:                                                "wrong number of args for Data",
		`{{.What`:                                                  "unclosed action",
		`{{wat .What}}`:                                            `function "wat" not defined`,
		`{{range .What}}x{{end}}`:                                  "range can't iterate over",
		`{{range $i, $x := .Names}}{{.Does}}{{end}}`:               "can't evaluate field Does in type string",
		`{{range 1000000}}0123456789{{end}}`:                       "it gives more than 65536 bytes",
		`{{if eq .Kind "action:failed"}}{{index .Names 9}}{{end}}`: "for action:failed: ",
	} {
		_, err := notify.NewTemplates(notify.DefaultTitle, text)
		require.ErrorContains(t, err, want, text)
		var of *notify.TemplateError
		require.ErrorAs(t, err, &of)
		assert.Equal(t, "text", of.Which)
	}
	_, err := notify.NewTemplates("{{.A}}", "{{.B}}")
	require.ErrorContains(t, err, "title: .A is unknown")
	require.ErrorContains(t, err, "text: .B is unknown")
}

func TestATemplateMayUseAllOfANotice(t *testing.T) {
	m, err := templates(t, `[{{.Namespace}}] {{.What}}`,
		`{{.Kind}} {{.Data "phase"}}|{{.Data "none"}}|{{.Why | clip 6}}|{{range .Facts}}{{.Name}}={{.Value}};{{end}}{{range .Commands}}{{.Line}}{{end}} {{.At.Year}} {{if .Resolved}}well{{else}}bad{{end}} {{join ", " .Names}}`).
		Message(event("pipeline", "failed", ""), notify.NoticeOf(event("pipeline", "failed", `{"namespace":"a","tenant":"b","phase":"x","error":"long error","tool":"t","names":["p","q"]}`), notify.Hint{Does: "x", Line: "line"}))
	require.NoError(t, err)
	assert.Equal(t, `[a] Pipeline "00000000-0000-4000-8000-000000000001" failed in phase "x"`, m.Title)
	assert.Equal(t, `pipeline:failed x||lon…|tool=t;line 2026 bad p, q`, m.Text)
}

func TestATemplateMayGive64KiBAndClipToNothing(t *testing.T) {
	ev := event("action", "failed", `{"error":"long error","names":["a","b"]}`)
	most := "{{range 64}}" + strings.Repeat("x", 1<<10) + "{{end}}"
	m, err := templates(t, "", most).Message(ev, notify.NoticeOf(ev))
	require.NoError(t, err)
	assert.Len(t, m.Text, 64<<10)
	_, err = notify.NewTemplates("", most+"x")
	require.ErrorContains(t, err, "it gives more than 65536 bytes")

	m, err = templates(t, "", `[{{.Why | clip -1}}{{.Why | clip 0}}]{{with .More}}and {{.}} more{{end}}`).Message(ev, notify.NoticeOf(ev))
	require.NoError(t, err)
	assert.Equal(t, "[……]", m.Text, "that more have names than are counted is no more")
}

func TestWhatIsRightAgainIsToldWithoutASound(t *testing.T) {
	for action, sound := range map[string]bool{"raised": true, "cleared": false} {
		ev := event("alert", action, alerts("late", 1, "a: x"))
		m, err := (*notify.Templates)(nil).Message(ev, notify.NoticeOf(ev))
		require.NoError(t, err)
		assert.Equal(t, sound, m.Sound, action)
	}
}

func TestWhatCannotBeRenderedIsToldAllTheSame(t *testing.T) {
	got := templates(t, "{{.What}}", `{{if eq .Kind "deploy:broken"}}{{index .Names 5}}{{end}}mine`)
	ev := event("deploy", "broken", `{"error":"no"}`)
	m, err := got.Message(ev, notify.NoticeOf(ev))
	require.ErrorContains(t, err, "text: ")
	assert.Contains(t, m.Text, "Why: no")
	ev = event("deploy", "well", `{"error":"no"}`)
	m, err = got.Message(ev, notify.NoticeOf(ev))
	require.NoError(t, err)
	assert.Equal(t, "mine", m.Text)
}

func TestAMessageOfAnEventIsTheSameEachTime(t *testing.T) {
	ev := event("action", "failed", "")
	one, err := (*notify.Templates)(nil).Message(ev, notify.NoticeOf(ev))
	require.NoError(t, err)
	two, err := templates(t, "{{.Kind}}", "").Message(ev, notify.NoticeOf(ev))
	require.NoError(t, err)
	assert.Equal(t, one.ID, two.ID)
	assert.Equal(t, noon, one.At)
	ev.ID = uuid.Max
	other, err := (*notify.Templates)(nil).Message(ev, notify.NoticeOf(ev))
	require.NoError(t, err)
	assert.NotEqual(t, one.ID, other.ID)

	again := stuck
	again.N = 7
	assert.Equal(t, notify.MessageOf(sender, stuck).ID, notify.MessageOf(sender, again).ID)
	again.Message = "x"
	assert.NotEqual(t, notify.MessageOf(sender, stuck).ID, notify.MessageOf(sender, again).ID)
}

// TestAnyEventCanBeTold: whatever its data is, what is told is text without control characters,
// of a bounded length.
func TestAnyEventCanBeTold(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x1b[31m", "\u202e", "a\r\nb", strings.Repeat("x", 5000), "```", "\xff"}))
	value := rapid.OneOf(text.AsAny(), rapid.Int().AsAny(), rapid.SliceOf(text).AsAny(), rapid.Just[any](nil))
	both := []*notify.Templates{templates(t, notify.DefaultTitle, notify.DefaultText), templates(t, notify.DefaultTitle, notify.SlackText)}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom([]string{"label", "error", "output", "names", "count", "kind", "phase", "namespace", "alerts", "kinds"}), text)
		data, err := json.Marshal(rapid.MapOf(name, value).Draw(rt, "data"))
		require.NoError(rt, err)
		ev := event(rapid.OneOf(rapid.SampledFrom([]string{"alert", "queue", "action"}), text).Draw(rt, "category"), text.Draw(rt, "action"), string(data))
		for _, of := range both {
			m, err := of.Message(ev, notify.NoticeOf(ev))
			require.NoError(rt, err)
			assert.NotRegexp(rt, "[\x00-\x1f\u202e]", m.Title)
			assert.NotRegexp(rt, "[\x00-\x08\x0b-\x1f\u202e]", m.Text)
			assert.LessOrEqual(rt, len(m.Title), 300)
			assert.LessOrEqual(rt, len(m.Text), 16<<10)
		}
	})
}
