package core

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest" // its seed
)

// memberByDecoding is what memberOf was before version 4: what it gives is in journals.
func memberByDecoding(v json.RawMessage, name string) (json.RawMessage, bool) {
	v = trimJSON(v)
	switch {
	case len(v) > 0 && v[0] == '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(v, &members) != nil {
			return nil, false
		}
		m, ok := members[name]
		return m, ok
	case len(v) > 0 && v[0] == '[':
		var elements []json.RawMessage
		i, err := strconv.ParseUint(name, 10, 31)
		if err != nil || json.Unmarshal(v, &elements) != nil || i >= uint64(len(elements)) {
			return nil, false
		}
		return elements[i], true
	}
	return nil, false
}

func drawJSON(t *rapid.T, depth int) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "}).Draw(t, "space") }
	kinds := []string{"plain", "object", "array"}
	if depth == 0 {
		kinds = kinds[:1]
	}
	name := rapid.SampledFrom([]string{`"a"`, `"b"`, `"\u0061"`, `"a\"}"`, `"é"`, `"\\"`, `"x,y:[{"`, "\"\xff\"", `""`, `"\ud800"`, `"0"`})
	var b strings.Builder
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "plain":
		return rapid.SampledFrom([]string{"null", "true", "-1.5e+3", "0", `"x"`, `"}"`, `"\\"`, `"a\"]"`, `"\\\""`, "\"\xff\"", "{}", "[]"}).Draw(t, "value")
	case "object":
		b.WriteString("{" + space())
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			if i > 0 {
				b.WriteString("," + space())
			}
			b.WriteString(name.Draw(t, "name") + space() + ":" + space() + drawJSON(t, depth-1) + space())
		}
		return b.String() + "}"
	}
	b.WriteString("[" + space())
	for i := range rapid.IntRange(0, 4).Draw(t, "elements") {
		if i > 0 {
			b.WriteString("," + space())
		}
		b.WriteString(drawJSON(t, depth-1) + space())
	}
	return b.String() + "]"
}

func TestAMemberIsTheOneThatDecodingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := json.RawMessage(drawJSON(t, 3))
		require.True(t, json.Valid(v), "%q", v)
		for _, name := range []string{"a", "b", `a"}`, "é", `\`, "x,y:[{", "\uFFFD", "", "0", "1", "3", "4", "01", "-1", "99999999999"} {
			want, ok := memberByDecoding(v, name)
			got, found := memberOf(v, name)
			assert.Equal(t, ok, found, "%q of %q", name, v)
			assert.Equal(t, string(want), string(got), "%q of %q", name, v)
		}
	})
}

func FuzzMembersOfAnythingAreFoundWithoutPanic(f *testing.F) {
	for _, seed := range []string{`{"a":`, `{"a"`, `[1,`, `[`, `{`, `{"a":1}x`, `{"a":"\`, `[[[[`, `{"a" 1}`, `]`} {
		f.Add([]byte(seed), "a")
		f.Add([]byte(seed), "1")
	}
	f.Fuzz(func(t *testing.T, v []byte, name string) {
		got, found := memberOf(v, name)
		if want, ok := memberByDecoding(v, name); json.Valid(v) {
			assert.Equal(t, ok, found)
			assert.Equal(t, string(want), string(got))
		}
	})
}
