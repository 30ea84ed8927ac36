package jobs

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell"
)

// An attempt began to wait while nobody knew that the runner holds it, and takes no second place.
func TestWhatBeganToWaitAndIsHeldHasItsPlaceAndItsTurn(t *testing.T) {
	tenant := shell.Scope{Namespace: "default", Tenant: "a"}
	held, other := Attempt{Run: uuid.New()}, Attempt{Run: uuid.New()}
	p := newPlaces(newRoom(), 1, 1, nil)
	assert.True(t, p.await(held, tenant))
	assert.True(t, p.await(other, tenant))
	assert.Equal(t, []Attempt{held}, p.learn(map[Attempt]shell.Scope{held: tenant}))
	assert.True(t, p.waits(held), "its turn lasts")
	assert.False(t, p.await(held, tenant), "it has a place")
	assert.True(t, p.take(held, tenant))
	assert.Equal(t, 1, p.room.living)
	_, ok := p.next()
	assert.False(t, ok, "there is one place")

	p.served(held)
	p.free(held)
	assert.Zero(t, p.room.living)
	a, ok := p.next()
	assert.True(t, ok)
	assert.Equal(t, other, a)
}

func TestWhatWasSeenToEndBeforeItWasLearnedHasNoPlace(t *testing.T) {
	ended := Attempt{Run: uuid.New()}
	p := newPlaces(newRoom(), 1, 1, nil)
	p.free(ended)
	assert.Empty(t, p.learn(map[Attempt]shell.Scope{ended: {}}))
	assert.Zero(t, p.room.living)
}

// The next turn may come before the goroutine of the first one goes on: so that has nothing left to say of it.
func TestWhoWaitsForAnotherTurnHasNoneMeanwhile(t *testing.T) {
	a := Attempt{Run: uuid.New()}
	p := newPlaces(newRoom(), 1, 1, nil)
	p.learn(nil)
	assert.True(t, p.await(a, shell.Scope{Namespace: "default", Tenant: "a"}))
	got, ok := p.next()
	assert.True(t, ok)
	p.again(got)
	assert.Empty(t, p.turn)
	assert.True(t, p.waits(a))
	assert.Zero(t, p.room.living)
	_, ok = p.next()
	assert.True(t, ok)
	assert.Contains(t, p.turn, a)
}
