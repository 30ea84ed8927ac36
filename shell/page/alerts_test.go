package page_test

import (
	"net/http"
	"net/url"
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
