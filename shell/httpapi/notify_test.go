package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// notifier has two channels, of which "mail" cannot be reached.
type notifier struct {
	mu     sync.Mutex
	tested []string
}

func (n *notifier) Channels() []wire.Channel {
	return []wire.Channel{{Name: "mail", Events: []string{}}, {Name: "ops", Default: true, Events: []string{"*:failed"}, Told: 7, Failed: 3, Dropped: 2, Later: 1}}
}

func (n *notifier) Test(_ context.Context, channel string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tested = append(n.tested, channel)
	if channel == "mail" {
		return errors.New("mail by h:25: connection refused")
	}
	return nil
}

func TestAnAdminHasChannelsTellATestMessage(t *testing.T) {
	n := &notifier{}
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Notify = n
		o.Tokens = []httpapi.Token{{Name: "root", Admin: true, SHA256: httpapi.HashToken("root-root-root-root")}, {Name: "app", SHA256: httpapi.HashToken("app-app-app-app-app")}}
	}})
	root, app := bearer("root-root-root-root"), bearer("app-app-app-app-app")

	r := a.do("GET", "/v1/notify/channels", nil, root)
	assert.JSONEq(t, `{"channels":[{"name":"mail","default":false,"events":[],"told":0,"failed":0,"dropped":0,"later":0},
		{"name":"ops","default":true,"events":["*:failed"],"told":7,"failed":3,"dropped":2,"later":1}]}`, r.body)
	r = a.do("POST", "/v1/notify/test", nil, root)
	assert.Equal(t, http.StatusOK, r.status, "that a channel is down is the answer, not its failure")
	assert.JSONEq(t, `{"results":[{"channel":"mail","told":false,"error":"mail by h:25: connection refused"},{"channel":"ops","told":true,"error":""}]}`, r.body)
	slices.Sort(n.tested)
	assert.Equal(t, []string{"mail", "ops"}, n.tested)

	r = a.do("POST", "/v1/notify/test", `{"channel":"ops"}`, root)
	assert.JSONEq(t, `{"results":[{"channel":"ops","told":true,"error":""}]}`, r.body)
	assert.Len(t, n.tested, 3)
	r = a.do("POST", "/v1/notify/test", `{"channel":"pager"}`, root)
	assert.Equal(t, http.StatusNotFound, r.status)
	assert.JSONEq(t, `{"error":"channel: \"pager\" is none of the channels: mail, ops"}`, r.body)
	assert.Equal(t, http.StatusForbidden, a.do("POST", "/v1/notify/test", nil, app).status)
	assert.Equal(t, http.StatusForbidden, a.do("GET", "/v1/notify/channels", nil, app).status)
	assert.Len(t, n.tested, 3)

	metrics := a.do("GET", "/metrics", nil, root).body
	for _, line := range []string{
		`orrery_notifications_told_total{channel="ops"} 7`, `orrery_notifications_told_total{channel="mail"} 0`,
		`orrery_notifications_failed_total{channel="ops"} 3`, `orrery_notifications_dropped_total{channel="ops"} 2`, `orrery_notifications_later_total{channel="ops"} 1`,
	} {
		assert.Contains(t, metrics, line+"\n")
	}
}

func TestAServerWithoutChannelsSaysSo(t *testing.T) {
	a := start(t, setup{})
	for _, r := range []answer{a.do("GET", "/v1/notify/channels", nil), a.do("POST", "/v1/notify/test", nil)} {
		assert.Equal(t, http.StatusNotImplemented, r.status)
		assert.JSONEq(t, `{"error":"notify: this server has no channels"}`, r.body)
	}
	assert.NotContains(t, a.do("GET", "/metrics", nil).body, "orrery_notifications_")
}
