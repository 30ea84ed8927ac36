package page_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnActionWithoutALabelIsCalledTheSameEverywhere(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/actions", `{"tool_name":"hold","action_type":"nightly",`+farAway+`}`)
	for _, path := range []string{"/actions", "/actions/cancel-all", "/actions/" + id, "/actions/" + id + "/cancel"} {
		assert.Contains(t, k.text(path), "hold nightly", path)
	}
	assert.Equal(t, "/ui/actions/"+id, k.send("GET", "/find?q=hold+nightly", nil).Header().Get("Location"))
}

func TestARecurringActionWithoutADescriptionIsCalledTheSameEverywhere(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"0 0 * * *","provider":"hold","action_type":"nightly"}`)
	for _, path := range []string{"/schedules", "/schedules/pause-all", "/recurring/" + id, "/recurring/" + id + "/delete", "/calendar?day=2091-02-03"} {
		shown := k.text(path)
		assert.Contains(t, shown, "nightly", path)
		assert.NotContains(t, shown, "hold nightly", path)
	}
	assert.Equal(t, "/ui/recurring/"+id, k.send("GET", "/find?q=nightly", nil).Header().Get("Location"))
}
