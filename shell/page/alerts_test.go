package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestAnAlertThatIsOpenStandsOnTheOverviewAndOnItsSchedule(t *testing.T) {
	k := newKit(t)
	quiet := k.make("/v1/recurring", bodyOfDefault+`"cron_expr":"0 2 1 1 *","provider":"echo","action_type":"x","name":"quiet","alerts":{"stale_seconds":86400}}`)
	assert.NotContains(t, words(k.read("/")), "alerts open", "none is")
	failing := k.make("/v1/recurring", bodyOfDefault+`"cron_expr":"0 2 1 1 *","provider":"fail","action_type":"x","name":"books","alerts":{"failing":1,"slow_factor":2.5}}`)
	k.write("POST", "/v1/recurring/"+failing+"/trigger", "")
	k.until("/v1/recurring/"+failing+"/alerts", "status", core.AlertOpen)

	shown := k.read("/")
	assert.Contains(t, words(shown), "1 alerts open")
	open := section(shown, "Open alerts")
	assert.Contains(t, open, "books failing")
	assert.Contains(t, open, "action ")
	assert.NotContains(t, open, "quiet")

	list := words(k.read("/alerts"))
	assert.Contains(t, list, "books open failing failing=1, slow=2.5x")
	assert.Contains(t, list, "quiet quiet")
	assert.NotContains(t, words(k.read("/alerts?status=open")), "quiet quiet")

	one := k.read("/recurring/" + failing)
	assert.Contains(t, section(one, "Alerts"), "Rule: failing 1 Rule: slow 2.5x")
	assert.Contains(t, one, "/recurring/"+failing+"/silence")
	assert.Contains(t, section(k.read("/recurring/"+quiet), "Alerts"), "No alert is open.")
}

func TestAlertsAreSilencedFromThePage(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", bodyOfDefault+`"cron_expr":"0 2 1 1 *","provider":"echo","action_type":"x","name":"books","alerts":{"failing":1}}`)
	w := k.send("POST", "/recurring/"+id+"/silence", url.Values{"proof": {k.proof()}, "until": {"2090-01-01T00:00:00Z"}, "reason": {"the database moves"}})
	assert.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	shown := k.read("/recurring/" + id)
	assert.Contains(t, words(shown), "Its alerts are silenced until 2090-01-01 00:00:00 UTC by api:loopback: the database moves")
	assert.NotContains(t, shown, `/silence"`)
	assert.Contains(t, words(k.read("/alerts")), "2090-01-01 00:00:00 UTC")
	w = k.send("POST", "/recurring/"+id+"/unsilence", url.Values{"proof": {k.proof()}})
	assert.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	assert.NotContains(t, words(k.read("/recurring/"+id)), "silenced until")
}

func TestTheOverviewShowsTheFirstOpenAlertsAndHowManyThereAre(t *testing.T) {
	k := newKit(t)
	fails := func(n int) {
		id := k.make("/v1/recurring", fmt.Sprintf(`%s"cron_expr":"0 2 1 1 *","provider":"fail","action_type":"x","name":"books-%02d","alerts":{"failing":1}}`, bodyOfDefault, n))
		k.write("POST", "/v1/recurring/"+id+"/trigger", "")
		k.until("/v1/recurring/"+id+"/alerts", "status", core.AlertOpen)
	}
	for n := range 10 {
		fails(n)
	}
	shown := k.read("/")
	assert.Contains(t, words(shown), "10 alerts open")
	assert.Equal(t, 10, strings.Count(section(shown, "Open alerts"), "books-"))
	assert.NotContains(t, section(shown, "Open alerts"), "The first 10")
	fails(10)
	shown = k.read("/")
	assert.Contains(t, words(shown), "11 alerts open")
	assert.Equal(t, 10, strings.Count(section(shown, "Open alerts"), "books-"))
	assert.Contains(t, section(shown, "Open alerts"), "The first 10; the number above leads to all.")
}

func TestTheAlertsOfWhatRestsAndOfWhatIsSilencedSaySo(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", bodyOfDefault+`"cron_expr":"0 2 1 1 *","provider":"fail","action_type":"x","name":"books","alerts":{"failing":1}}`)
	k.write("POST", "/v1/recurring/"+id+"/trigger", "")
	k.until("/v1/recurring/"+id+"/alerts", "status", core.AlertOpen)
	assert.NotContains(t, section(k.read("/"), "Open alerts"), "silenced")
	k.write("POST", "/v1/recurring/"+id+"/silence", `{"until":"2090-01-01T00:00:00Z"}`)
	assert.Contains(t, section(k.read("/"), "Open alerts"), "failing silenced", "nobody is told of it")
	page := k.read("/recurring/" + id)
	assert.Less(t, strings.Index(page, "/"+id+"/unsilence"), strings.Index(page, "/"+id+"/delete"), "the act that deletes is the last one")
	k.write("POST", "/v1/recurring/"+id+"/pause", `{"reason":"the weekend"}`)
	alerts := section(k.read("/recurring/"+id), "Alerts")
	assert.Contains(t, alerts, "They rest: ")
	assert.Contains(t, alerts, "the weekend")
}

func TestTheFormOfARecurringActionHasItsRulesForAlertsOneALine(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", bodyOfDefault+`"cron_expr":"0 2 1 1 *","provider":"echo","action_type":"x","alerts":{"failing":1,"late_seconds":600}}`)
	form := k.read("/recurring/" + id + "/edit")
	assert.Contains(t, form, "late=10m\nfailing=1")
	send := func(text string) string {
		w := k.send("POST", "/recurring/"+id+"/edit", url.Values{"proof": {k.proof()}, "cron_expr": {"0 2 1 1 *"}, "provider": {"echo"}, "action_type": {"x"}, "alerts": {text}})
		return w.Body.String()
	}
	assert.Contains(t, words(send("late=soon")), `Alerts: late: "soon" is no length of time`)
	send("stale = 2d\r\nmissed\r\n")
	assert.Equal(t, map[string]any{"stale_seconds": float64(172_800), "missed": true}, k.write("GET", "/v1/recurring/"+id, "")["alerts"])
	send("")
	assert.Nil(t, k.write("GET", "/v1/recurring/"+id, "")["alerts"], "emptied, it has none")
}
