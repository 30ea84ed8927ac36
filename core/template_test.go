package core

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		s := testScope()
		if out, err := s.expand(text, 1000); err == nil && strings.Contains(text, "${") {
			require.LessOrEqual(t, len(out), 1000)
		}
		if out, err := s.expandJSON(value, 1000); err == nil && json.Valid(value) {
			require.True(t, json.Valid(out), "%s → %s", value, out)
		}
	})
}
