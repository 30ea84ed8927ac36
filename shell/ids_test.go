package shell_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

func TestTheIDsOfAKindAreReadFromOneOnToAnother(t *testing.T) {
	for name, open := range map[string]func(testing.TB) store.Store{"memory": inMemory, "bolt": inBolt} {
		t.Run(name, func(t *testing.T) {
			e := running(t, shell.Options{Store: open(t), Tools: tools(shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil }))})
			id := func(n byte) uuid.UUID { return uuid.UUID{0: 0xab, 6: 0x40, 8: 0x80, 15: n} }
			for _, n := range []byte{1, 2, 3, 255} {
				_, err := e.Actions().Create(bg(), core.ActionSpec{ID: id(n), ToolName: "count", Trigger: core.Scheduled(effects.MaxTime)})
				require.NoError(t, err)
				_, err = e.Tasks().Create(bg(), core.TaskSpec{ID: uuid.UUID{0: 0xab, 6: 0x40, 8: 0x80, 14: 1, 15: n}})
				require.NoError(t, err)
			}
			for _, test := range []struct {
				from, to uuid.UUID
				limit    int
				want     []uuid.UUID
			}{
				{uuid.Nil, uuid.Max, 10, []uuid.UUID{id(1), id(2), id(3), id(255)}},
				{id(2), id(3), 10, []uuid.UUID{id(2), id(3)}},
				{id(2), id(255), 2, []uuid.UUID{id(2), id(3)}},
				{id(4), id(254), 10, nil},
				{id(255), uuid.Max, 10, []uuid.UUID{id(255)}},
				{uuid.Max, uuid.Max, 10, nil},
			} {
				got, looked, last, err := e.IDs(bg(), shell.IDRange{Kind: core.KindAction, From: test.from, To: test.to, Limit: test.limit})
				require.NoError(t, err)
				assert.Len(t, test.want, looked)
				if looked > 0 {
					assert.Equal(t, test.want[looked-1], last)
				}
				assert.Equal(t, test.want, got, "%s to %s", test.from, test.to)
			}
			got, looked, last, err := e.IDs(bg(), shell.IDRange{Kind: core.KindAction, To: uuid.Max, Limit: 3, Wanted: func(state []byte) bool { return strings.Contains(string(state), id(2).String()) }})
			require.NoError(t, err)
			assert.Equal(t, []uuid.UUID{id(2)}, got)
			assert.Equal(t, 3, looked, "what is not wanted was looked at all the same")
			assert.Equal(t, id(3), last)
		})
	}
}
