package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// laterSpec is an action that is not due in this test.
func laterSpec(id uuid.UUID, tenant, key string) core.ActionSpec {
	return core.ActionSpec{
		ID: id, Namespace: "n", Tenant: tenant, ToolName: "echo", DedupKey: key,
		Trigger: core.Scheduled(effects.TimeOf(time.Now().Add(24 * time.Hour))),
	}
}

func echoing(t *testing.T) shell.Options {
	return shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"echo": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { return c.Input, nil })}}
}

// batches counts the transactions that changed something.
func batches(t *testing.T, e *shell.Engine) uint64 {
	t.Helper()
	st, err := e.Stats(t.Context())
	require.NoError(t, err)
	return st.Batches
}

// stored lists the ids of all actions.
func stored(t *testing.T, e *shell.Engine) (ids []uuid.UUID) {
	t.Helper()
	list, _, err := e.Actions().List(t.Context(), shell.ActionFilter{}, shell.Page{Limit: shell.MaxPage})
	require.NoError(t, err)
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

func TestActionsThatAreMadeTogetherAreAllMadeOrNoneInOneTransaction(t *testing.T) {
	a, b := uuid.MustParse("00000000-0000-4000-8000-00000000000a"), uuid.MustParse("00000000-0000-4000-8000-00000000000b")
	for _, row := range []struct {
		name  string
		specs []core.ActionSpec
		index int // of the one that is refused; -1: none is
		code  effects.Code
		says  string
	}{
		{"no specs", nil, -1, "", ""},
		{"two", []core.ActionSpec{laterSpec(a, "t", ""), laterSpec(b, "t", "k")}, -1, "", ""},
		{"an id twice", []core.ActionSpec{laterSpec(a, "t", ""), laterSpec(b, "t", ""), laterSpec(a, "t", "")}, 2, effects.CodeExists, "id: action " + a.String() + " exists already"},
		{"a dedup key twice", []core.ActionSpec{laterSpec(a, "t", "k"), laterSpec(b, "t", "k")}, 1, effects.CodeConflict, `dedup_key: "k" is held by action ` + a.String()},
		{"two tenants", []core.ActionSpec{laterSpec(a, "t", ""), laterSpec(b, "u", "")}, 1, effects.CodeInvalid, `tenant: "u" of namespace "n" is not that of the first action, "t" of "n"`},
		{"a tool that is none", []core.ActionSpec{laterSpec(a, "t", ""), {Namespace: "n", Tenant: "t", ToolName: "nope"}}, 1, effects.CodeInvalid, `tool_name: "nope" is unknown`},
		{"a spec that its machine refuses", []core.ActionSpec{laterSpec(a, "t", ""), laterSpec(b, "", "")}, 1, effects.CodeInvalid, "tenant"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := running(t, echoing(t))
				before := batches(t, e)
				made, err := e.Actions().CreateAll(t.Context(), row.specs)
				if row.index < 0 {
					require.NoError(t, err)
					require.Len(t, made, len(row.specs))
					for i := range made {
						assert.Equal(t, row.specs[i].ID, made[i].ID)
						assert.Equal(t, core.StatusPending, made[i].Status.Type)
					}
					assert.Len(t, stored(t, e), len(row.specs))
					assert.LessOrEqual(t, batches(t, e)-before, uint64(1), "one transaction")
					return
				}
				var of *shell.EntryError
				require.ErrorAs(t, err, &of)
				assert.Equal(t, row.index, of.Index)
				var refused *shell.Refusal
				require.ErrorAs(t, err, &refused)
				assert.Equal(t, row.code, refused.Code)
				assert.Contains(t, refused.Reason, row.says)
				assert.Empty(t, stored(t, e), "nothing is left of the others")
				_, err = e.Actions().Create(t.Context(), laterSpec(a, "t", "k"))
				require.NoError(t, err, "neither the id nor the dedup key is taken")
			})
		})
	}
}

func TestActionsThatAreDueRunAsSoonAsTheyAreMadeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, echoing(t))
		spec := core.ActionSpec{Namespace: "n", Tenant: "t", ToolName: "echo", ToolInput: json.RawMessage(`{"n":1}`)}
		made, err := e.Actions().CreateAll(t.Context(), []core.ActionSpec{spec, spec, spec})
		require.NoError(t, err)
		for _, a := range made {
			assert.Equal(t, core.StatusRunning, a.Status.Type, "as of one that is made alone")
			ended, err := e.Actions().Wait(t.Context(), a.ID)
			require.NoError(t, err)
			assert.JSONEq(t, `{"n":1}`, string(ended.Status.Result))
		}
	})
}

func TestOfManyActionsEachIsMadeOrRefusedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, echoing(t))
		a, b := uuid.New(), uuid.New()
		got, err := e.Actions().CreateEach(t.Context(), []core.ActionSpec{
			laterSpec(a, "t", "k"), {Namespace: "n", Tenant: "t", ToolName: "nope"}, laterSpec(b, "t", "k"), laterSpec(b, "u", "k"), laterSpec(a, "t", ""),
		})
		require.NoError(t, err)
		require.Len(t, got, 5)
		for i, want := range []string{"", `tool_name: "nope" is unknown`, `dedup_key: "k" is held by`, "", "id: action " + a.String() + " exists already"} {
			if want == "" {
				require.NoError(t, got[i].Err, i)
				assert.Equal(t, core.StatusPending, got[i].Action.Status.Type)
			} else {
				require.ErrorContains(t, got[i].Err, want, i)
				assert.Zero(t, got[i].Action)
			}
		}
		assert.ElementsMatch(t, []uuid.UUID{a, b}, stored(t, e))
		got, err = e.Actions().CreateEach(t.Context(), []core.ActionSpec{{ToolName: "nope"}})
		require.NoError(t, err)
		require.Error(t, got[0].Err, "nothing was asked of the engine")
	})
}

func TestItemsThatArePushedTogetherAreAllPushedOrNoneButForDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, echoing(t))
		q := e.Queues()
		_, err := q.PushAll(t.Context(), "n", "t", "mail", []shell.PushOptions{{Data: json.RawMessage(`1`)}, {Delay: -time.Second}})
		var of *shell.EntryError
		require.ErrorAs(t, err, &of)
		assert.Equal(t, 1, of.Index)
		require.ErrorContains(t, err, "entry 1: ")
		require.ErrorContains(t, err, "delay_ms")
		_, err = q.Get(t.Context(), "n", "t", "mail")
		require.ErrorIs(t, err, shell.ErrNotFound, "not even the queue is made")

		first, _, err := q.Push(t.Context(), "n", "t", "mail", shell.PushOptions{DedupKey: "k"})
		require.NoError(t, err)
		for _, push := range []func() ([]shell.PushAnswer, error){
			func() ([]shell.PushAnswer, error) {
				return q.PushAll(t.Context(), "n", "t", "mail", []shell.PushOptions{{Data: json.RawMessage(`1`)}, {DedupKey: "k"}, {DedupKey: "l"}, {DedupKey: "l"}})
			},
			func() ([]shell.PushAnswer, error) {
				return q.PushEach(t.Context(), "n", "t", "mail", []shell.PushOptions{{Data: json.RawMessage(`1`)}, {DedupKey: "k"}, {DedupKey: "m"}, {DedupKey: "m"}})
			},
		} {
			got, err := push()
			require.NoError(t, err)
			require.Len(t, got, 4)
			for i, duplicate := range []bool{false, true, false, true} {
				require.NoError(t, got[i].Err)
				assert.Equal(t, duplicate, got[i].Duplicate)
			}
			assert.Equal(t, first.ID, got[1].Item.ID, "the item that holds the key")
			assert.Equal(t, got[2].Item.ID, got[3].Item.ID)
			assert.JSONEq(t, `1`, string(got[0].Item.Data))
		}
		header, err := q.Get(t.Context(), "n", "t", "mail")
		require.NoError(t, err)
		assert.Equal(t, uint64(5), header.Pushed)
	})
}

func TestMoreThanMaxEntriesAreRefusedByTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, echoing(t))
		specs := make([]core.ActionSpec, shell.MaxEntries+1)
		for i := range specs {
			specs[i] = laterSpec(uuid.New(), "t", "")
		}
		want := fmt.Sprintf("%d entries: at most %d are taken at a time", shell.MaxEntries+1, shell.MaxEntries)
		_, err := e.Actions().CreateAll(t.Context(), specs)
		require.EqualError(t, err, want)
		_, err = e.Actions().CreateEach(t.Context(), specs)
		require.EqualError(t, err, want)
		_, err = e.Queues().PushAll(t.Context(), "n", "t", "q", make([]shell.PushOptions, shell.MaxEntries+1))
		require.EqualError(t, err, want)
		assert.Empty(t, stored(t, e))
		made, err := e.Actions().CreateAll(t.Context(), specs[:shell.MaxEntries])
		require.NoError(t, err)
		assert.Len(t, made, shell.MaxEntries)
	})
}
