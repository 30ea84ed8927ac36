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

func TestTheIDsOfAKindAreReadAfterOneAndUpToAnother(t *testing.T) {
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
				after, to uuid.UUID
				limit     int
				want      []uuid.UUID
				next      uuid.UUID
			}{
				{uuid.Nil, uuid.Max, 10, []uuid.UUID{id(1), id(2), id(3), id(255)}, uuid.Nil},
				{id(1), id(3), 10, []uuid.UUID{id(2), id(3)}, uuid.Nil},
				{id(1), id(255), 2, []uuid.UUID{id(2), id(3)}, id(3)},
				{id(1), id(3), 2, []uuid.UUID{id(2), id(3)}, uuid.Nil},
				{id(3), id(254), 10, nil, uuid.Nil},
				{id(254), uuid.Max, 10, []uuid.UUID{id(255)}, uuid.Nil},
				{id(255), uuid.Max, 10, nil, uuid.Nil},
			} {
				got, next, err := e.IDs(bg(), shell.IDRange{Kind: core.KindAction, After: test.after, To: test.to, Limit: test.limit})
				require.NoError(t, err)
				assert.Equal(t, test.want, got, "%s to %s", test.after, test.to)
				assert.Equal(t, test.next, next, "%s to %s", test.after, test.to)
			}
			got, next, err := e.IDs(bg(), shell.IDRange{Kind: core.KindAction, To: uuid.Max, Limit: 3, Wanted: func(state []byte) bool { return strings.Contains(string(state), id(2).String()) }})
			require.NoError(t, err)
			assert.Equal(t, []uuid.UUID{id(2)}, got)
			assert.Equal(t, id(3), next, "what is not wanted was looked at all the same")
		})
	}
}
