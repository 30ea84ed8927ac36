package httpapi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARouterKnowsWhereTheRequestsOfEachRouteGo(t *testing.T) {
	known := map[string]bool{}
	for _, rt := range idleServer(t).routes() {
		name := rt.method + " " + rt.path
		known[name] = true
		p, ok := placings[name]
		require.True(t, ok, "%s: say in placings where its requests go", name)
		assert.NotZero(t, p.how, name)
		assert.Equal(t, p.how == ofID, p.kind != "", "%s: the path at which its machine is asked for", name)
		if rt.access.who() == webhookSender || rt.access.who() == anyone {
			assert.Contains(t, []way{here, ofHook}, p.how, "%s: it comes without a token, by which others are placed", name)
		}
		if rt.access&lists != 0 && p.how == ofTenant {
			assert.NotNil(t, p.merge, "%s: a list over several tenants", name)
		}
	}
	for name := range placings {
		assert.True(t, known[name], "%s: there is no such route", name)
	}
}

func TestWhatIsRememberedOfMachinesIsBounded(t *testing.T) {
	f := found{most: 8}
	for i := range 100 {
		f.put(fmt.Sprint(i), i)
		_, ok := f.get("0") // it is asked for all the time
		assert.True(t, ok, i)
		assert.LessOrEqual(t, len(f.newer)+len(f.older), 8)
	}
	_, ok := f.get("1")
	assert.False(t, ok)
	f.forget("0")
	_, ok = f.get("0")
	assert.False(t, ok)
}

func TestOfThePartsOfRequestsAsManyAsPartitionsCountAsOne(t *testing.T) {
	var p parts
	counted := 0
	for range 10 {
		if p.counts(&Token{Name: "a"}, 4) {
			counted++
		}
	}
	assert.Equal(t, 3, counted, "the first, the fifth and the ninth")
	assert.True(t, p.counts(&Token{Name: "b"}, 4))
}
