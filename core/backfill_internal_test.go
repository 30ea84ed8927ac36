package core

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
)

func TestADueEventWhoseDispatchIsRefusedIsAppliedAgainWithTheRefusal(t *testing.T) {
	full := &effects.Refused{Code: effects.CodeLimited, Reason: "full"}
	taken := &effects.Refused{Code: effects.CodeExists, Reason: "it exists"}
	assert.Equal(t, BackfillDue{Refusal: "full", Limited: true}, insteadOf(BackfillDue{}, full))
	assert.Equal(t, BackfillDue{Refusal: "it exists"}, insteadOf(BackfillDue{}, taken))
	assert.Equal(t, RecurringDue{Refusal: "full"}, insteadOf(RecurringDue{}, full))
	assert.Nil(t, insteadOf(RecurringTrigger{}, full))
}
