package httpapi

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestATokenIsToldOfMachinesOfItsTenantAndToolsAlone(t *testing.T) {
	action := core.Action{ActionSpec: core.ActionSpec{Namespace: "n", Tenant: "a", ToolName: "echo"}}
	recurring := core.RecurringAction{RecurringSpec: core.RecurringSpec{Namespace: "n", Tenant: "a"}}
	recurring.ActionTemplate.Provider = "echo"
	lock := core.Lock{Namespace: "n", Tenant: "a"}
	for name, test := range map[string]struct {
		token Token
		sees  [4]bool // the action, the recurring action, the lock, the bus
	}{
		"not bound":            {Token{}, [4]bool{true, true, true, true}},
		"its tenant":           {Token{Tenants: []string{"a"}}, [4]bool{true, true, true, false}},
		"another tenant":       {Token{Tenants: []string{"b"}}, [4]bool{}},
		"its tool":             {Token{Tools: []string{"echo"}}, [4]bool{true, true, false, false}},
		"another tool":         {Token{Tools: []string{"command"}}, [4]bool{}},
		"its tool, not tenant": {Token{Tools: []string{"echo"}, Tenants: []string{"b"}}, [4]bool{}},
	} {
		for i, machine := range []core.State{action, recurring, lock, core.Bus{}} {
			assert.Equal(t, test.sees[i], test.token.seesMachine(machine), "%s: %T", name, machine)
		}
	}
}
