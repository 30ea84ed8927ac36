package core

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var hugePattern = "(" + strings.Repeat("a?", 300) + "){1000}b"

// planted lists the values of a type that have the pattern in one of its places: each field of
// the type Retry or FallbackCondition that can be reached.
func planted(t reflect.Type, depth map[reflect.Type]int) []reflect.Value {
	switch {
	case t == reflect.TypeFor[Retry]():
		return []reflect.Value{reflect.ValueOf(Retry{NoRetry: []string{"fine", hugePattern}})}
	case t == reflect.TypeFor[FallbackCondition]():
		return []reflect.Value{reflect.ValueOf(FallbackCondition{Error: hugePattern})}
	case depth[t] > 1:
		return nil
	}
	depth[t]++
	defer func() { depth[t]-- }()
	var out []reflect.Value
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if !t.Field(i).IsExported() {
				continue
			}
			for _, v := range planted(t.Field(i).Type, depth) {
				s := reflect.New(t).Elem()
				s.Field(i).Set(v)
				out = append(out, s)
			}
		}
	case reflect.Pointer:
		for _, v := range planted(t.Elem(), depth) {
			p := reflect.New(t.Elem())
			p.Elem().Set(v)
			out = append(out, p)
		}
	case reflect.Slice:
		for _, v := range planted(t.Elem(), depth) {
			out = append(out, reflect.Append(reflect.Zero(t), v))
		}
	default:
	}
	return out
}

// forEachEvent calls do with a zero event of each type that a machine takes.
func forEachEvent(t *testing.T, do func(kind string, e Event)) {
	t.Helper()
	for _, k := range kinds {
		for _, typ := range k.events {
			e, err := typ.decode([]byte("{}"))
			require.NoError(t, err, "%s %s", k.name, typ.name)
			do(string(k.name), e)
		}
	}
}

func TestNoNewInputHasAPatternThatTakesTooLongWhereverItStands(t *testing.T) {
	found := map[string]int{}
	forEachEvent(t, func(kind string, e Event) {
		for _, v := range planted(reflect.TypeOf(e), map[reflect.Type]int{}) {
			ev, ok := reflect.TypeAssert[Event](v)
			require.True(t, ok)
			name := kind + " " + ev.EventType()
			found[name]++
			_, err := bounded(ev)
			if assert.Error(t, err, "%s: %+v", name, ev) {
				assert.Contains(t, err.Error(), "has the size 602002, which is more than 256", name)
				assert.Regexp(t, `(no_retry\[1\]|fallback_on\[0\]\.error): "`, err.Error(), name)
			}
		}
	})
	assert.Equal(t, map[string]int{
		"pipeline create": found["pipeline create"], "strategy create": 1, "queue create": 1, "queue configure": 1,
		"worker configure": found["worker configure"], "bus subscribe": found["bus subscribe"],
	}, found)
	assert.Greater(t, found["pipeline create"], 3)
	assert.Greater(t, found["bus subscribe"], 3)
}

func TestThePatternsOfOneListAreBoundedTogether(t *testing.T) {
	half := strings.Repeat("a", MaxPatternSize)
	list := []string{half, half, half, half}
	_, err := bounded(QueueConfigure{Config: QueueConfig{Retry: Retry{NoRetry: list}}})
	require.NoError(t, err)
	_, err = bounded(QueueConfigure{Config: QueueConfig{Retry: Retry{NoRetry: append(list, "b")}}})
	assert.EqualError(t, err, `config.retry.no_retry[4]: with the size 1 of "b" all patterns here have the size 1025, which is more than 1024: give shorter or fewer ones`)
}

func TestAReasonFromOutsideIsCutBeforePatternsAreLookedForInIt(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, e := range []Event{PhaseFailed{Error: long}, StrategyEvaluate{Error: long}, TaskFail{Error: long}} {
		got, err := bounded(e)
		require.NoError(t, err)
		assert.LessOrEqual(t, reflect.ValueOf(got).FieldByName("Error").Len(), MaxTextBytes)
	}
}

func TestADefinitionWhosePhasesReadTheContextTooOftenIsRefused(t *testing.T) {
	deep := "${in" + strings.Repeat(".a", 128) + "}"
	def := func(phases, limit int, text string) PipelineDef {
		d := PipelineDef{ContextLimit: limit}
		for i := range phases {
			d.Phases = append(d.Phases, PhaseDef{Name: fmt.Sprint(i), Set: &SetPhase{Values: map[string]json.RawMessage{"x": json.RawMessage(`"` + text + `"`)}}})
		}
		return d
	}
	for name, c := range map[string]struct {
		def  PipelineDef
		want string
	}{
		"two thousand ordinary references":          {def(1000, 0, "${in.a}"), ""},
		"a large context that is read now and then": {def(100, MaxContextLimit, "${in.a}"), ""},
		"a deep reference in each of many phases":   {def(1000, MaxContextLimit, deep), "definition: its references have 129000 names and members, each of which may lead to a context of 1048576 bytes: together more than 268435456 bytes: lower context_limit to at most 2080, or refer to less"},
		"as conditions": {PipelineDef{ContextLimit: MaxContextLimit, Phases: []PhaseDef{{When: &When{Ref: "in" + strings.Repeat(".a", 300)}}}}, "definition: its references have 301 names"},
	} {
		_, err := bounded(PipelineCreate{Spec: PipelineSpec{Definition: c.def}})
		if c.want == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestAWorkerWhoseTextsReadTheItemTooOftenIsRefused(t *testing.T) {
	do := WorkerDo{Run: &ToolRun{Tool: "x", Input: json.RawMessage(`"` + strings.Repeat("${item.data.a}", 100) + `"`)}}
	_, err := bounded(WorkerConfigure{Spec: WorkerSpec{Do: do}})
	assert.EqualError(t, err, "do: its references have 300 names and members, each of which may lead to an item of 1048576 bytes: more than 256 are too many")
}

func TestADefinitionIsCheckedBeforeItComesIntoAnInput(t *testing.T) {
	d := PipelineDef{Phases: []PhaseDef{{Retry: Retry{NoRetry: []string{hugePattern}}}}}
	assert.ErrorContains(t, d.CheckGiven(), "phases[0].retry.no_retry[0]: ")
	assert.NoError(t, PipelineDef{}.CheckGiven())
}
