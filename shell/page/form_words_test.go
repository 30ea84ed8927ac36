package page_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/shell/httpcall"
)

func TestTheFormOfAFirstScheduleSaysWhatToTypeIntoIt(t *testing.T) {
	shown := newKit(t).text("/schedules/new")
	assert.Contains(t, shown, "command runs a program, http sends a request.")
	assert.Contains(t, shown, "A word for what it does, such as backup")
	for _, want := range []string{"(default: allow)", "(default: skip)", "(default: once shifted)", "(default: either)", "(default: fail)"} {
		assert.Contains(t, shown, want)
	}
}

func TestTheToolsTakeThePayloadsThatTheFormShows(t *testing.T) {
	help := newKit(t).text("/schedules/new")
	_, help, ok := strings.Cut(help, "as the tool wants it. ")
	require.True(t, ok)
	runs, err := command.New(command.Options{})
	require.NoError(t, err)
	sends, err := httpcall.New(httpcall.Options{})
	require.NoError(t, err)
	checks := map[string]func(json.RawMessage) error{"argv": runs.ValidateInput, "url": sends.ValidateInput}
	examples := regexp.MustCompile(`\{"(\w+)": [^}]*\}`).FindAllStringSubmatch(help, -1)
	require.Len(t, examples, 3)
	for _, e := range examples {
		assert.NoError(t, checks[e[1]](json.RawMessage(e[0])), e[0])
	}
}

func TestAnErrorCallsTheFieldsOfAFormAsTheFormDoes(t *testing.T) {
	k := newKit(t)
	refused := func(fields url.Values) string {
		w := k.try("/schedules/new", fields)
		assert.Equal(t, http.StatusBadRequest, w.Code)
		return words(w.Body.String())
	}
	assert.Contains(t, refused(url.Values{"cron_expr": {"every day"}, "provider": {"echo"}, "action_type": {"x"}}), `Cron expression: "every day" has 2 fields`)
	assert.Contains(t, refused(url.Values{"cron_expr": {"@daily"}, "provider": {"bash"}, "action_type": {"x"}}), `Tool: "bash" is unknown: use one of`)
	assert.Contains(t, refused(url.Values{"cron_expr": {"@daily"}, "timezone": {"Berlin"}, "provider": {"echo"}, "action_type": {"x"}}), `Time zone: "Berlin" is not`)
	assert.Contains(t, k.text("/schedules/preview?cron_expr=@daily&timezone=Berlin"), `Time zone: "Berlin" is not`)
	assert.Contains(t, k.text("/schedules/preview?cron_expr=every+day"), `Cron expression: "every day" has 2 fields`)
}

func TestAFieldThatWantsATimeSaysInWhichZone(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"0 12 1 1 *","provider":"echo","action_type":"x"}`)
	for range 2 { // what one visitor is shown is not left in the form of the next
		for _, at := range []string{"/recurring/" + id + "/pause", "/recurring/" + id + "/backfill", "/schedules/new", "/actions/new", "/schedules/pause-all"} {
			form := k.text(at)
			assert.Contains(t, form, "In UTC; another zone is chosen in the menu at the top right.", at)
			assert.NotContains(t, form, "top right. In UTC", at)
		}
	}
}

func TestAPolicyThatTriesNothingAgainNamesNoAttempts(t *testing.T) {
	k := newKit(t)
	shown := func(policy string) string {
		return k.text("/recurring/" + k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"0 12 1 1 *","provider":"echo","action_type":"x"`+policy+`}`))
	}
	once := shown("")
	assert.Contains(t, once, "After a failure fail")
	assert.NotContains(t, once, "Attempts at most")
	assert.Contains(t, shown(`,"policy":{"on_failure":"retry"}`), "After a failure retry After an interruption fail Attempts at most 3")
	assert.Contains(t, shown(`,"policy":{"on_interrupt":"retry"}`), "After a failure fail After an interruption retry Attempts at most 3")
}

func TestTheJournalShowsOfWhatWasMadeOnlyWhatItHas(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"0 12 1 1 *","provider":"echo","action_type":"x"}`)
	made := k.text("/changes/recurring/" + id)
	assert.Contains(t, made, "cron_expr: nothing → 0 12 1 1 *")
	assert.NotContains(t, made, "nothing → nothing")
	assert.NotContains(t, made, "disabled_reason")
}
