package httpapi_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestAPausedDaemonSaysSoAndGoesOnWhenAnAdminSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{
			engine: func(o *shell.Options) { o.StartPaused = true },
			api: func(o *httpapi.Options) {
				o.Tokens = []httpapi.Token{{Name: "root", Admin: true, SHA256: httpapi.HashToken("root-root-root-root")}, {Name: "app", SHA256: httpapi.HashToken("app-app-app-app-app")}}
			},
		})
		defer a.stop()
		root, app := bearer("root-root-root-root"), bearer("app-app-app-app-app")
		since := effects.TimeOf(time.Now()).String()
		assert.JSONEq(t, `{"status":"ok"}`, a.do("GET", "/healthz", nil).body)
		r := a.do("GET", "/readyz", nil)
		assert.Equal(t, http.StatusOK, r.status, "it takes requests")
		assert.JSONEq(t, `{"status":"paused","paused_since":"`+since+`"}`, r.body)
		assert.Equal(t, since, a.do("GET", "/v1/system", nil, app).object()["paused_since"])
		assert.Contains(t, a.do("GET", "/metrics", nil, app).body, "orrery_paused 1\n")

		made := a.do("POST", "/v1/actions", `{"tool_name":"echo"}`, app)
		assert.Equal(t, http.StatusCreated, made.status, made.body)
		path := "/v1/actions/" + made.object()["id"].(string)
		<-time.After(time.Hour)
		status := func() any { return a.do("GET", path, nil, app).object()["status"].(map[string]any)["type"] }
		assert.Equal(t, "pending", status())
		assert.Equal(t, http.StatusForbidden, a.do("POST", "/v1/system/resume", nil, app).status)
		assert.Equal(t, "pending", status())

		r = a.do("POST", "/v1/system/resume", nil, root)
		assert.Equal(t, http.StatusOK, r.status, r.body)
		assert.JSONEq(t, `{"resumed":true}`, r.body)
		synctest.Wait()
		assert.Equal(t, "completed", status())
		assert.JSONEq(t, `{"resumed":false}`, a.do("POST", "/v1/system/resume", nil, root).body)
		assert.JSONEq(t, `{"status":"ready"}`, a.do("GET", "/readyz", nil).body)
		assert.NotContains(t, a.do("GET", "/v1/system", nil, app).object(), "paused_since")
		assert.Contains(t, a.do("GET", "/metrics", nil, app).body, "orrery_paused 0\n")
		assert.Contains(t, a.logs.String(), "actor=api:root")
	})
}
