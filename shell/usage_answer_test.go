package shell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

func TestWhatIsAnsweredIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(newGate()), Limits: shell.Limits{Count: true}})
		synctest.Wait() // what there was is counted
		for n := range 1000 {
			a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
			require.NoError(t, err)
			u, err := e.Usage(bg(), shell.Scope{Namespace: a.Namespace, Tenant: a.Tenant})
			require.NoError(t, err)
			require.EqualValues(t, n+1, u.LiveActions)
		}
	})
}
