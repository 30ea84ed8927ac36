package page

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestAnActOnManyKnowsTheStatusesOfItsThings(t *testing.T) {
	checked := 0
	for _, a := range manyActs() {
		for _, of := range kindPages {
			if a.on == "/"+of.path {
				assert.Subset(t, core.Statuses(of.kind), a.many.statuses, a.pattern())
				checked++
			}
		}
	}
	assert.Equal(t, 9, checked)
}

func TestEveryRunThatIsNotAboutToEndIsAmongThoseThatMayBeCancelled(t *testing.T) {
	var live []string
	for _, s := range core.OrchestratorStatuses() {
		if !s.Terminal() && s != core.OrchestratorTerminating {
			live = append(live, string(s))
		}
	}
	for _, a := range manyActs() {
		if a.pattern() == "/runs/cancel-all" {
			assert.ElementsMatch(t, live, a.many.statuses)
		}
	}
}
