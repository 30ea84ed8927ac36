package core

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
)

func testScope() scope {
	return scope{
		context: map[string]json.RawMessage{
			"name": json.RawMessage(`"Größe <3"`), "n": json.RawMessage("1.50"), "none": json.RawMessage("null"),
			"build": json.RawMessage(`{"files":["a.go",{"b":"c"}],"ok":true}`), "phase": json.RawMessage(`"hidden"`),
		},
		system: map[string]json.RawMessage{"phase": json.RawMessage(`{"attempt":2}`)},
	}
}

func TestATemplateIsFilledInFromTheContext(t *testing.T) {
	for template, want := range map[string]string{
		"": "", "plain": "plain", "$": "$", "$$": "$$", "{}": "{}",
		"${name}": "Größe <3", "a${n}b": "a1.50b", "[${none}]": "[]", "${build.files.0}": "a.go", "${build.files.1.b}": "c",
		"${build.files.1}": `{"b":"c"}`, "${build.ok}${build.ok}": "truetrue", "$${name}": "${name}", "$$${name}": "$${name}", "${phase.attempt}": "2",
	} {
		got, err := testScope().expand(template, maxTemplateText)
		require.NoError(t, err, template)
		assert.Equal(t, want, got, template)
	}
}

func TestATemplateThatCannotBeFilledInSaysWhichReference(t *testing.T) {
	for template, want := range map[string]string{
		"${other}": `${other}: the context has no "other"`, "${build.no}": `${build.no}: there is no "no"`,
		"${build.files.2}": `there is no "2"`, "${build.files.-1}": `there is no "-1"`, "${n.a}": `there is no "a"`,
		"${": `"${" has no closing "}"`, "${name": "has no closing", "${}": "a reference is a name", "${a..b}": "a reference is a name", "${a${b}}": "a reference is a name",
	} {
		_, err := testScope().expand(template, maxTemplateText)
		require.Error(t, err, template)
		assert.Contains(t, err.Error(), want, template)
	}
}

func TestTemplatesWithinJSONStandInStringsOnly(t *testing.T) {
	for template, want := range map[string]string{
		`{"a":"${n}","b":["x ${n}","${build.files}"],"${n}":1}`: `{"a":1.50,"b":["x 1.50",["a.go",{"b":"c"}]],"${n}":1}`,
		`"${name}"`:                       `"Größe <3"`,
		`"say \"${name}\""`:               `"say \"Größe \u003c3\""`,
		`{"a" : "${none}" , "b":"$${n}"}`: `{"a" : null , "b":"${n}"}`,
		`["\\","${n}"]`:                   `["\\",1.50]`,
	} {
		got, err := testScope().expandJSON(json.RawMessage(template), MaxInputBytes)
		require.NoError(t, err, template)
		assert.Equal(t, want, string(got), template)
		assert.True(t, json.Valid(got))
	}
}

func TestATemplateCannotBlowUp(t *testing.T) {
	s := scope{context: map[string]json.RawMessage{"x": json.RawMessage(`"` + strings.Repeat("y", 1000) + `"`)}}
	_, err := s.expand(strings.Repeat("${x}", 1000), maxTemplateText)
	require.ErrorContains(t, err, "longer than 65536 bytes")
	_, err = s.expandJSON(json.RawMessage(`["`+strings.Repeat(`${x}","`, 2000)+`"]`), MaxInputBytes)
	require.ErrorContains(t, err, "longer than 1048576 bytes")
}

func FuzzTemplate(f *testing.F) {
	f.Add("${name}", []byte(`{"a":"${n}"}`))
	f.Add("$${build.files.0}", []byte(`["\"${none}\\"]`))
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		defer boundtest.Within(t, len(text)+len(value))()
		s := testScope()
		if out, err := s.expand(text, 1000); err == nil && strings.Contains(text, "${") {
			require.LessOrEqual(t, len(out), 1000)
		}
		if out, err := s.expandJSON(value, 1000); err == nil && json.Valid(value) {
			require.True(t, json.Valid(out), "%s → %s", value, out)
		}
	})
}

// A definition of half a megabyte has room for tens of thousands of references,
// and each may name a value of a megabyte.
func TestASmallDefinitionCannotAskForMoreThanThereIs(t *testing.T) {
	value := json.RawMessage(`{"x":"` + strings.Repeat("y", 60<<10) + `"}`)
	for name, ref := range map[string]string{"whole": "${v}", "a member": "${v.x}"} {
		prompt := AgentPrompt{Command: make([]string, 10_000)}
		for i := range prompt.Command {
			prompt.Command[i] = ref
		}
		x := newExpander(scope{context: map[string]json.RawMessage{"v": value}}, maxExpansion)
		prompt.rewrite(x, "task")
		require.ErrorContains(t, x.err, "all texts together are longer than 4194304 bytes", name)
		size := 0
		for _, arg := range prompt.Command {
			size += len(arg)
		}
		assert.Less(t, size, maxExpansion+maxTemplateText+10_000*len(ref), name)
	}
	x := newExpander(scope{context: map[string]json.RawMessage{"v": json.RawMessage(`{"x":1,"y":"` + strings.Repeat("y", 1<<20) + `"}`)}}, maxExpansion)
	for range 1000 {
		x.text("message", "${v.x}")
	}
	require.ErrorContains(t, x.err, "more than 134217728 bytes would be read")
	assert.Less(t, *x.scope.read, maxLookups+2<<20, "it stops at the first error")
}

func TestAPhaseAndAJobAreBoundedInWhatTheyReferTo(t *testing.T) {
	long, _ := json.Marshal(strings.Repeat("y", 60<<10))
	prompt := &AgentPrompt{Prompt: "p", Command: []string{"agent"}}
	for range 200 {
		prompt.Command = append(prompt.Command, "${item}")
	}
	def := PipelineDef{Name: "p", ContextLimit: 1 << 20, Inputs: []InputDef{{Name: "item"}}, Phases: []PhaseDef{{Name: "ask", Task: prompt}}}
	c := Clock{Now: 1_770_732_000_000}
	p, effs := Pipeline{}.Apply(PipelineCreate{Spec: PipelineSpec{ID: uuid.Max, Definition: def, Context: map[string]json.RawMessage{"item": long}}}, c)
	require.Nil(t, refusal(effs))
	p, _ = p.Apply(PipelineDue{}, c)
	assert.Equal(t, PhaseFailure, p.Phase.Type)
	assert.Contains(t, p.Phase.Error, "all texts together")

	w, effs := Worker{}.Apply(WorkerConfigure{Spec: WorkerSpec{Name: "w", Queue: "q", Do: WorkerDo{Task: prompt}}}, c)
	require.Nil(t, refusal(effs))
	_, effs = w.Apply(QueueTaken{N: w.Taking, Items: []QueueItem{{ID: uuid.Max, Attempts: 1, Data: long}}}, c)
	fail := effs[0].(effects.Send).Event.(QueueFail)
	assert.True(t, fail.Permanent)
	assert.Contains(t, fail.Error, "all texts together")
}
