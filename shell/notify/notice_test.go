package notify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/notify"
)

// notice is that of an event with data in JSON.
func notice(category, action, data string) notify.Notice {
	return notify.NoticeOf(event(category, action, data))
}

func TestANoticeTakesOfTheDataWhatItHasAFieldFor(t *testing.T) {
	assert.Equal(t, 1, notice("queue", "dead", `{"count":0}`).Count, "a count of none is no count")
	assert.Equal(t, 2, notice("queue", "dead", `{"count":2}`).Count)
	assert.Equal(t, `Action "nightly" failed`, notice("action", "failed", `{"label":"nightly","name":"n","phase":"test"}`).What, "the label comes first, and only pipelines have phases")
	assert.Equal(t, `Queue "mail" has given up an item`, notice("queue", "dead", `{"label":null,"name":"mail"}`).What)
	assert.Equal(t, "the error", notice("action", "failed", `{"reason":"the reason","message":"the message","error":"the error"}`).Why)
	assert.Equal(t, "the reason", notice("action", "failed", `{"reason":"the reason","message":"the message","error":" "}`).Why)

	assert.Equal(t, []string{"a", "b"}, notice("deploy", "done", `{"names":["a",7,"b"]}`).Names, "what is no text is no name")
	assert.Len(t, notice("deploy", "done", `{"names":["1","2","3","4","5","6","7","8","9","10","11"]}`).Names, 10)
	facts := func(n int) []notify.Fact {
		data := map[string]string{}
		for i := range n {
			data[fmt.Sprintf("fact_%02d", i)] = "x"
		}
		text, err := json.Marshal(data)
		require.NoError(t, err)
		return notice("deploy", "done", string(text)).Facts
	}
	assert.Len(t, facts(12), 12)
	assert.Len(t, facts(13), 12)
	assert.Equal(t, notify.Fact{Name: "fact 00", Value: "x"}, facts(1)[0])
	assert.Equal(t, []notify.Fact{{Name: "version", Value: "null"}}, notice("deploy", "done", `{"tag":null,"text":" ","version":"null"}`).Facts, "a text is told whatever it says")
}

func TestTheTextsOfANoticeAreBounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	assert.Len(t, notice("action", "failed", `{"error":"`+long+`"}`).Why, 2000)
	assert.Len(t, notice("alert", "raised", alerts("late", 1, "a: "+long)).Why, 2000)
	assert.Len(t, notice("deploy", "done", `{"names":["`+long+`"]}`).Names[0], 120)
	assert.Len(t, notice("alert", "raised", alerts("late", 2, "a: x", long+": y")).Names[1], 300)
	assert.Len(t, notice("deploy", "done", `{"version":"`+strings.Repeat("v w", 100)+strings.Repeat("x", 200)+`"}`).Facts[0].Value, 300)
}

func TestOfALongOutputTheEndIsToldFromTheBeginningOfALine(t *testing.T) {
	output := func(s string) string {
		text, err := json.Marshal(map[string]string{"output": s})
		require.NoError(t, err)
		return notice("action", "failed", string(text)).Output
	}
	whole := strings.Repeat("x", 2000)
	assert.Equal(t, whole, output(whole))
	assert.Equal(t, "…\n"+strings.Repeat("z", 1900), output(strings.Repeat("y", 500)+"\n"+strings.Repeat("z", 1900)))
	parted := output(strings.Repeat("y", 1990) + "\n" + strings.Repeat("z", 500))
	assert.Len(t, parted, 2000+len("…\n"), "the end of a line that is far away is no reason to leave so much out")
	assert.Equal(t, "1 of 3\n2 of 3\n3 of 3", output("1 of 3\r2 of 3\r3 of 3\r\n"), "a line that is written over stands in a line of its own")
}

// TestNoTextReordersWhatIsBesideIt takes each character that would, and those beside them, which would not.
func TestNoTextReordersWhatIsBesideIt(t *testing.T) {
	for _, r := range []rune{0x202A, 0x202C, 0x202E, 0x2066, 0x2068, 0x2069} {
		ev := event("action", "failed", `{"label":"a`+string(r)+`b","output":"c`+string(r)+`d"}`)
		m, err := (*notify.Templates)(nil).Message(ev, notify.NoticeOf(ev))
		require.NoError(t, err)
		assert.Equal(t, `Action "a b" failed`, m.Title, "%U", r)
		assert.Contains(t, m.Text, "cd", "%U", r)
	}
	for _, r := range []rune{0x2030, 0x2065, 0x206A} {
		assert.Equal(t, "c"+string(r)+"d", notice("action", "failed", `{"output":"c`+string(r)+`d"}`).Output, "%U", r)
	}
	for _, r := range []rune{0x2028, 0x2029} {
		assert.Equal(t, `a b`, notice("action", "failed", `{"label":"a`+string(r)+`b"}`).Name, "%U ends a line", r)
	}
}

func TestANoticeOfAlertsCountsAndNamesThoseThatItKnows(t *testing.T) {
	assert.Equal(t, `Schedule "nightly" is late`, notice("alert", "raised", `{"kind":"late","name":"nightly","alerts":[]}`).What, "without a list it is one")
	assert.Equal(t, "late", notice("alert", "raised", `{"kind":"late","name":"nightly","alerts":[]}`).Data("kind"))

	two := `[{"kind":"late","name":"a","reason":"x"},{"kind":"slow","name":"b","reason":"y"}]`
	n := notice("alert", "raised", `{"alerts":`+two+`}`)
	assert.Equal(t, 2, n.Count, "of more than are counted all are listed")
	assert.Equal(t, []string{"late: a: x", "slow: b: y"}, n.Names, "of nobody knows whom")
	assert.Equal(t, "2 alerts", n.What)

	n = notice("alert", "raised", `{"count":3,"namespace":"shop","tenant":"eu","kinds":{"late":3},"alerts":[{"kind":"late","namespace":"shop","tenant":"eu","name":"a","reason":"x"}]}`)
	assert.Equal(t, "3 schedules are late", n.What, "it is not the one alone that has a name")
	assert.Equal(t, 2, n.More())
	assert.Equal(t, []string{"a (shop/eu)"}, n.Names)
	assert.Empty(t, n.Scope(), "nobody knows whose the others are")

	n = notice("alert", "raised", `{"count":2,"kinds":{"late":2},"alerts":[{"kind":"late","namespace":"shop","tenant":"eu","name":"a","reason":"x"},{"kind":"late","namespace":"shop","tenant":"us","name":"b","reason":"x"}]}`)
	assert.Empty(t, n.Scope(), "of two tenants")
	assert.Empty(t, n.Namespace)
	assert.Equal(t, []string{"a (shop/eu)", "b (shop/us)"}, n.Names)

	n = notice("alert", "raised", `{"count":2,"kinds":{"new_one":2},"alerts":[{"kind":"new_one","name":"a","reason":"x"},{"kind":"new_one","name":"b","reason":"x"}]}`)
	assert.Equal(t, "2 alerts: 2 new one", n.What, "of a kind that nobody knows here")
}

func TestAnEventOfLongAgoHasNoTime(t *testing.T) {
	for at, want := range map[effects.Time]string{0: "unknown", effects.TimeOf(noon): "2026-03-10 12:00:00 UTC"} {
		ev := event("action", "failed", "")
		ev.Timestamp = at
		m, err := templates(t, "", "{{time .At}}").Message(ev, notify.NoticeOf(ev))
		require.NoError(t, err)
		assert.Equal(t, want, m.Text)
	}
}

// TestTheNameOfAMessageFollowsFromAllThatItIs: what differs in one part has another name, and so has
// what would be the same if its parts were not kept apart.
func TestTheNameOfAMessageFollowsFromAllThatItIs(t *testing.T) {
	n := effects.Notify{Title: "ab", Message: "c"}
	seen := map[string]string{}
	for name, id := range map[string]string{
		"as it is":          notify.MessageOf(sender, n).ID,
		"of another kind":   notify.MessageOf(effects.Ref{Kind: "task", ID: sender.ID}, n).ID,
		"of another one":    notify.MessageOf(effects.Ref{Kind: sender.Kind, ID: uuid.Max}, n).ID,
		"of another title":  notify.MessageOf(sender, effects.Notify{Title: "ax", Message: "c"}).ID,
		"of another text":   notify.MessageOf(sender, effects.Notify{Title: "ab", Message: "x"}).ID,
		"parted otherwise":  notify.MessageOf(sender, effects.Notify{Title: "a", Message: "bc"}).ID,
		"of nobody at all":  notify.MessageOf(effects.Ref{}, n).ID,
		"without any words": notify.MessageOf(sender, effects.Notify{}).ID,
	} {
		assert.Empty(t, seen[id], "%s: it has the name of another one", name)
		seen[id] = name
	}
}

func TestANoticeOfAGroupHasAReasonAndWhatIsOverAndWhatWasCleared(t *testing.T) {
	late, slow := `{"kind":"late","namespace":"shop","tenant":"eu","name":"a","reason":"x"}`, `{"kind":"slow","namespace":"shop","tenant":"eu","name":"b","reason":"y","over":true}`
	n := notice("alert", "raised", `{"count":2,"kinds":{"late":1,"slow":1},"alerts":[`+late+`,`+slow+`]}`)
	assert.Equal(t, "different reasons; of a: x", n.Why)
	assert.Equal(t, []string{"late: a: x", "slow: b: y (over already)"}, n.Names)
	assert.Equal(t, "y (over already)", notice("alert", "raised", `{"count":1,"alerts":[`+slow+`]}`).Why)

	n = notice("alert", "raised", `{"count":1,"alerts":[`+late+`],"cleared":{"count":1,"namespace":"shop","tenant":"eu","alerts":[`+slow+`]}}`)
	assert.Equal(t, `Schedule "a" is late; resolved: Schedule "b" is slow`, n.What)
	assert.Equal(t, []string{"late: a: x", "no longer slow: b: y (over already)"}, n.Names)
	assert.Equal(t, 2, n.Count)
	assert.Equal(t, "shop/eu", n.Scope())
	assert.False(t, n.Resolved)
	n = notice("alert", "raised", `{"count":1,"alerts":[`+late+`],"cleared":{"count":1,"namespace":"shop","tenant":"us","alerts":[{"kind":"slow","namespace":"shop","tenant":"us","name":"b"}]}}`)
	assert.Empty(t, n.Scope())
	assert.Equal(t, "no longer slow: b (shop/us): ", n.Names[1])

	n = notice("alert", "cleared", `{"count":0,"others":3,"kinds":{},"alerts":null}`)
	assert.Equal(t, "Alerts were cleared", n.What)
	assert.Equal(t, "3 were cleared of more tenants than a message tells apart, and may be of yours", n.Why)
	assert.Empty(t, n.Facts)
	assert.Equal(t, "x\n1,200 were raised of more tenants than a message tells apart, and may be of yours", notice("alert", "raised", `{"count":1,"others":1200,"alerts":[`+late+`]}`).Why)
}

func TestTheAttemptsOfRunsAreCountedFromOneAsAllOthers(t *testing.T) {
	n := notice("run", "failed", `{"job_id":"nightly","attempt":0}`)
	assert.Equal(t, []notify.Fact{{Name: "attempt", Value: "1"}}, n.Facts)
	assert.Equal(t, "0", n.Data("attempt"), "what the event says is as it is")
	assert.Equal(t, []notify.Fact{{Name: "attempt", Value: "3"}}, notice("action", "failed", `{"label":"a","attempt":3}`).Facts)
}
