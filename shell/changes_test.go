package shell_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

func TestWhoShowsWhatIsStoredIsToldOnceThatSomethingHasChanged(t *testing.T) {
	e, stop := start(t, shell.Options{Store: inMemory(t)})
	defer func() { require.NoError(t, stop()) }()
	all := e.Changes(nil)
	defer all.Close()
	other := e.Changes(func(s core.State) bool { return core.ScopeOf(s).Tenant == "other" })
	defer other.Close()
	lock := func(tenant string) {
		_, err := e.Locks().Send(t.Context(), shell.Scope{Namespace: "ns", Tenant: tenant}, "door", core.LockAcquire{Name: "door", Namespace: "ns", Tenant: tenant, Holder: "h"})
		require.NoError(t, err)
	}
	told := func(c *shell.Changes) bool {
		select {
		case <-c.C:
			return true
		default:
			return false
		}
	}
	lock("one")
	<-all.C // told after the answer
	assert.False(t, told(all), "a change is told once")
	assert.False(t, told(other), "a tenant is not told of another's changes")
	lock("other")
	<-other.C
	assert.True(t, told(all))
}
