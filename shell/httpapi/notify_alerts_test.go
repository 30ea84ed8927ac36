package httpapi_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestTheListOfChannelsTellsWhatAlertsWaitForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{
			engine: func(o *shell.Options) { o.Channels = []string{"mail", "ops"} },
			api:    func(o *httpapi.Options) { o.Notify = &notifier{} },
		})
		channels := func() map[string]*wire.ChannelAlerts {
			var list wire.ChannelList
			require.NoError(t, json.Unmarshal([]byte(a.do("GET", "/v1/notify/channels", nil).body), &list))
			out := map[string]*wire.ChannelAlerts{}
			for _, c := range list.Channels {
				out[c.Name] = c.Alerts
			}
			return out
		}
		assert.Nil(t, channels()["ops"], "no alert has told anything")
		made := a.do("POST", "/v1/recurring", `{"namespace":"ns","tenant":"t1","name":"nightly","cron_expr":"* * * * *","provider":"fail","action_type":"x","payload":{},"alerts":{"failing":1,"channel":"ops"}}`)
		require.Equal(t, http.StatusCreated, made.status, made.body)

		<-time.After(70 * time.Second) // it has failed, and what there is to tell gathers
		got := channels()
		require.NotNil(t, got["ops"])
		assert.Nil(t, got["mail"])
		assert.Equal(t, core.AlertCounts{Failing: 1}, got["ops"].Raised)
		assert.Equal(t, []string{"nightly"}, got["ops"].Names)
		assert.False(t, got["ops"].Since.IsZero(), "since when it waits")
		assert.Empty(t, got["ops"].Message)

		<-time.After(time.Minute) // nothing here can send it
		got = channels()
		assert.Zero(t, got["ops"].Raised)
		assert.Zero(t, got["ops"].Since)
		assert.Empty(t, got["ops"].Names)
		assert.EqualValues(t, 1, got["ops"].Lost+uint64(got["ops"].Tries), "the message is tried, or was given up: %+v", got["ops"])
	})
}
