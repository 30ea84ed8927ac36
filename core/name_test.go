package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func recurringNamed(n int, tenant, name string) core.RecurringSpec {
	return core.RecurringSpec{
		ID: id(n), Namespace: "n", Tenant: tenant, Name: name, CronExpr: "0 9 * * *", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{Provider: "http", ActionType: "get"},
	}
}

func recurringInput(n int, e core.Event) core.Input {
	return core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: id(n)}, Event: e}
}

func TestANameIsOfLettersDigitsDotsUnderscoresAndHyphensAndNoId(t *testing.T) {
	for _, row := range []struct{ name, want string }{
		{"", ""}, {"nightly", ""}, {"0.9_b-2", ""}, {"A", ""}, {strings.Repeat("n", core.MaxGivenName), ""},
		{strings.Repeat("n", core.MaxGivenName+1), "name: 129 bytes is longer than 128"},
		{"-v", `name: "-v" has '-' at byte 0: use letters, digits, ".", "_" and "-", and begin with a letter or a digit`},
		{".hidden", `has '.' at byte 0`}, {"a b", `has ' ' at byte 1`}, {"a/b", `has '/' at byte 1`}, {"größe", `has 'ö' at byte 2`}, {"a\n", `has '\n' at byte 1`},
		{"\xff", "at byte 0"},
		{"00000000-0000-4000-8000-000000000001", `is an id: give a name that cannot be taken for one`},
	} {
		assert.Equal(t, row.want == "" && row.name != "", core.IsGivenName(row.name), row.name)
		r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: recurringNamed(1, "t", row.name)}, core.Clock{Now: start})
		if row.want == "" {
			assert.Nil(t, refusal(effs), row.name)
			assert.Equal(t, row.name, r.Name)
			continue
		}
		require.NotNil(t, refusal(effs), row.name)
		assert.Contains(t, refusal(effs).Reason, row.want)
	}
}

func TestOfOneTenantNoTwoHaveTheSameName(t *testing.T) {
	w := world{}
	nightly, weekly, none := "nightly", "weekly", ""
	for _, row := range []struct {
		what    string
		in      core.Input
		refused string
	}{
		{"made with a name", recurringInput(1, core.RecurringCreate{Spec: recurringNamed(1, "t", nightly)}), ""},
		{"the name is had", recurringInput(2, core.RecurringCreate{Spec: recurringNamed(2, "t", nightly)}), `name: "nightly" is that of recurring/` + id(1).String() + " in this tenant: give another one, or change that"},
		{"another tenant's", recurringInput(3, core.RecurringCreate{Spec: recurringNamed(3, "u", nightly)}), ""},
		{"made without a name", recurringInput(2, core.RecurringCreate{Spec: recurringNamed(2, "t", none)}), ""},
		{"two without a name", recurringInput(4, core.RecurringCreate{Spec: recurringNamed(4, "t", none)}), ""},
		{"renamed to one that is had", recurringInput(2, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &nightly}}), `name: "nightly" is that of`},
		{"renamed", recurringInput(1, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &weekly}}), ""},
		{"what was let go is free", recurringInput(2, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &nightly}}), ""},
		{"what was taken is not", recurringInput(4, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &weekly}}), `name: "weekly" is that of`},
		{"the name is cleared", recurringInput(1, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &none}}), ""},
		{"and free", recurringInput(4, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &weekly}}), ""},
		{"deleted", recurringInput(4, core.RecurringDelete{}), ""},
		{"and free again", recurringInput(1, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &weekly}}), ""},
	} {
		batch := core.NewBatch(w, core.Clock{Now: start}, 1)
		res, err := batch.Apply(row.in)
		require.NoError(t, err, row.what)
		if row.refused == "" {
			require.Nil(t, res.Refused, row.what)
		} else {
			require.NotNil(t, res.Refused, row.what)
			assert.Contains(t, res.Refused.Reason, row.refused, row.what)
			assert.Equal(t, effects.CodeExists, res.Refused.Code, row.what)
			assert.Empty(t, batch.Changes(), row.what)
		}
		w.store(batch)
	}
}

func TestANameWhoseMachineWasLostIsFree(t *testing.T) {
	w := world{}
	for n := 1; n <= 2; n++ {
		batch := core.NewBatch(w, core.Clock{Now: start}, uint64(n))
		res, err := batch.Apply(recurringInput(n, core.RecurringCreate{Spec: recurringNamed(n, "t", "nightly")}))
		require.NoError(t, err)
		require.Nil(t, res.Refused)
		w.store(batch)
		delete(w, effects.Ref{Kind: core.KindRecurring, ID: id(1)}) // its record was set aside
	}
	assert.Equal(t, id(2), w.named(t, "t", "nightly").Holder)
}

// named gives the record of a name.
func (w world) named(t tb, tenant, name string) core.Named {
	s, err := w.Load(core.NamedRef(core.KindRecurring, "n", tenant, name))
	require.NoError(t, err)
	n, _ := s.(core.Named)
	return n
}

// After any inputs that make, rename and delete recurring actions, in whichever batches, each name has one record, and the record
// names the recurring action that has it.
func TestEachNameIsRecordedOnceAndIsThatOfItsHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{}
		for seq := uint64(1); seq <= 6; seq++ {
			batch := core.NewBatch(w, core.Clock{Now: start}, seq)
			var inputs []core.Input
			for range rapid.IntRange(1, 4).Draw(t, "inputs") {
				n := rapid.IntRange(1, 3).Draw(t, "id")
				name := drawGivenName(t)
				inputs = append(inputs, recurringInput(n, rapid.SampledFrom([]core.Event{
					core.RecurringCreate{Spec: recurringNamed(n, rapid.SampledFrom([]string{"t", "u"}).Draw(t, "tenant"), name)},
					core.RecurringUpdate{Patch: core.RecurringPatch{Name: &name}}, core.RecurringDelete{},
				}).Draw(t, "event")))
			}
			if rapid.Bool().Draw(t, "together") {
				_, _, err := batch.ApplyAll(inputs, nil)
				require.NoError(t, err)
			} else {
				for _, in := range inputs {
					_, err := batch.Apply(in)
					require.NoError(t, err)
				}
			}
			w.store(batch)
			names := 0
			for _, ref := range w.refs() {
				s, err := w.Load(ref)
				require.NoError(t, err)
				if r, ok := s.(core.RecurringAction); ok && r.Name != "" {
					require.Equal(t, r.ID, w.named(t, r.Tenant, r.Name).Holder)
					names++
				}
				if _, ok := s.(core.Named); ok {
					names--
				}
			}
			require.Zero(t, names, "records of names that nobody has")
		}
	})
}
