package page_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// movedClock is ahead of the system's.
type movedClock struct {
	shell.SystemClock
	by atomic.Int64
}

func (c *movedClock) Now() time.Time { return c.SystemClock.Now().Add(time.Duration(c.by.Load())) }

func TestEventsAppearWhileSomebodyLooksFilteredByCategory(t *testing.T) {
	clock := new(movedClock)
	k := newKitWith(t, func(o *httpapi.Options) { o.Clock = clock })
	publish := func(action string) {
		k.write("POST", "/v1/events", `{"kind":{"category":"deploy","action":"`+action+`"},"data":{"to":"<b>here</b>"}}`)
	}
	heard := k.engine.Subscribe(nil, 8)
	defer heard.Close()
	publish("before") // answered when it is committed, which is before it is announced
	require.Equal(t, "before", (<-heard.C).Kind.Action)
	shown := k.read("/events")
	assert.Contains(t, shown, `data-every="2"`, "it is loaded anew while it is looked at")
	assert.Contains(t, words(shown), "Nothing was announced since then.")

	publish("first")
	k.make("/v1/actions", `{"namespace":"default","tenant":"default","tool_name":"echo"}`)
	require.Eventually(t, func() bool { return strings.Contains(k.text("/events"), "action:completed") }, 20*time.Second, 20*time.Millisecond)
	all := k.text("/events")
	assert.Contains(t, all, `deploy:first`)
	assert.Contains(t, all, `{"to":"<b>here</b>"}`)
	assert.NotContains(t, all, "deploy:before", "events are not kept for who did not look")
	deploys := k.text("/events?category=deploy")
	assert.Contains(t, deploys, "deploy:first")
	assert.NotContains(t, deploys, "action:completed")

	for range 1300 {
		publish("many")
	}
	many := k.text("/events")
	assert.LessOrEqual(t, strings.Count(many, "deploy:many"), 200)
	assert.Contains(t, many, "events more are not shown")

	clock.by.Store(int64(time.Minute))
	assert.NotContains(t, k.text("/events"), "deploy:many", "who comes back after a minute begins anew")
}

func TestEventsOfAllTenantsAreNotShownToATokenThatIsBound(t *testing.T) {
	k := newKit(t, token("a", func(t *httpapi.Token) { t.Tenants = []string{"a"} }))
	k.as = "a-secret"
	assert.Equal(t, http.StatusForbidden, k.send("GET", "/events", nil).Code)
}
