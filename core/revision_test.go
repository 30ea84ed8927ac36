package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestARevisionChangesWithTheDefinitionAlone(t *testing.T) {
	q := core.Queue{ID: id(1), Name: "q"}
	first := core.Revision(q)
	assert.Regexp(t, "^[0-9a-f]{32}$", first)
	q.Pushed, q.Paused = 7, true
	assert.Equal(t, first, core.Revision(q))
	q.Config.Concurrency = 2
	assert.NotEqual(t, first, core.Revision(q))

	assert.Equal(t, core.NoRevision, core.Revision(nil))
	assert.Equal(t, core.NoRevision, core.Revision(core.Queue{}))
	assert.Empty(t, core.Revision(core.Action{ActionSpec: core.ActionSpec{ID: id(1)}}), "nobody edits an action")
}

func TestEachSubscriberOfTheBusHasARevisionOfItsOwn(t *testing.T) {
	a, b := core.Subscription{Name: "a"}, core.Subscription{Name: "b"}
	bus := core.Bus{ID: core.BusRef().ID, Subscribers: []core.Subscription{a, b}}
	assert.Equal(t, b.Revision(), core.RevisionBefore(bus, core.BusSubscribe{Subscriber: core.Subscription{Name: "b", Match: core.EventMatch{Category: "x"}}}))
	assert.Equal(t, a.Revision(), core.RevisionBefore(bus, core.BusUnsubscribe{Name: "a"}))
	assert.Equal(t, core.NoRevision, core.RevisionBefore(bus, core.BusUnsubscribe{Name: "c"}))
}

func TestAnEventForAnotherRevisionIsRefusedWithTheReason(t *testing.T) {
	q := core.Queue{ID: id(1), Name: "q"}
	shown := func(revision string) string { return "seen-" + revision[:2] }
	have := core.Revision(q)
	for _, row := range []struct {
		state  core.State
		want   string
		reason string // empty: it is taken
	}{
		{q, shown(have), ""},
		{q, core.AnyRevision, ""},
		{nil, core.NoRevision, ""},
		{q, "seen-x", "it was changed since revision seen-x was read, and has " + shown(have) + " now: read it again"},
		{q, core.NoRevision, "it exists already"},
		{nil, core.AnyRevision, "it does not exist"},
		{nil, "seen-x", "it does not exist any more, revision seen-x was asked for"},
		{core.Action{ActionSpec: core.ActionSpec{ID: id(1)}}, "seen-x", "it has no revision, seen-x was asked for"},
	} {
		err := core.CheckRevision(row.state, q.Ref(), core.QueueConfigure{}, row.want, shown)
		if row.reason == "" {
			require.NoError(t, err, row.want)
			continue
		}
		refused, ok := err.(*effects.Refused) //nolint:errorlint // it is not wrapped
		require.True(t, ok)
		assert.Equal(t, effects.Refused{To: q.Ref(), Event: "configure", Code: effects.CodeStale, Reason: row.reason}, *refused)
	}
}
