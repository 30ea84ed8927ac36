package effects_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// sameAsJSON checks AppendString against encoding/json, behind other bytes.
func sameAsJSON(t require.TestingT, s string) {
	want, err := json.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, "before:"+string(want), string(effects.AppendString([]byte("before:"), s)))
}

func TestAppendStringGivesTheBytesOfEncodingJSON(t *testing.T) {
	for b := range 256 {
		sameAsJSON(t, string([]byte{byte(b)}))
		sameAsJSON(t, string([]byte{'a', byte(b), 'z'}))
	}
	for _, s := range []string{"", "plain", `quo"te`, `back\slash`, "<&>", "\u2028\u2029", "\ufffd", "☃🪐", "\xed\xa0\x80", "tail \xe2\x82", strings.Repeat("x", 10_000) + "\n"} {
		sameAsJSON(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		sameAsJSON(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		sameAsJSON(t, rapid.String().Draw(t, "text"))
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\xff<\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		defer boundtest.Within(t, len(s))()
		sameAsJSON(t, s)
	})
}

func TestAPlainStringIsAppendedWithoutAllocating(t *testing.T) {
	buf := make([]byte, 0, 64)
	assert.Zero(t, testing.AllocsPerRun(100, func() { buf = effects.AppendString(buf[:0], "a plain string") }))
}

func TestAnOuterEffectReadsBackAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := effects.RunTool{Run: rapid.Uint32().Draw(t, "run"), Tool: rapid.String().Draw(t, "tool")}
		b := e.AppendJSON(nil)
		require.True(t, json.Valid(b))
		back, err := effects.DecodeOuter(b)
		require.NoError(t, err)
		require.Equal(t, effects.Outer(e), back)
		require.Equal(t, e.Run, back.Number())
		require.Equal(t, e.Tool, back.Lane())
	})
}

func TestWhatIsNoOuterEffectIsRefusedWithTheType(t *testing.T) {
	for in, want := range map[string]string{
		``:                                     "decode outer effect: ",
		`null`:                                 `unknown type ""`,
		`{}`:                                   `unknown type ""`,
		`[]`:                                   "decode outer effect: ",
		`{"type":"run_pod"}`:                   `decode outer effect: unknown type "run_pod"`,
		`{"type":"run_tool","run":-1}`:         "decode outer effect: ",
		`{"type":"run_tool","run":4294967296}`: "decode outer effect: ",
		`{"type":"run_tool","run":1.5}`:        "decode outer effect: ",
		`{"type":"run_tool","run":1`:           "decode outer effect: ",
		`{"type":"` + strings.Repeat("x", 10_000) + `"}`:       "unknown type",
		strings.Repeat("[", 20_000) + strings.Repeat("]", 100): "decode outer effect: ",
	} {
		e, err := effects.DecodeOuter([]byte(in))
		require.Error(t, err, in)
		assert.Nil(t, e)
		assert.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 300)
	}
	max, err := effects.DecodeOuter([]byte(`{"type":"run_tool","run":4294967295,"tool":"http"}`))
	require.NoError(t, err)
	assert.Equal(t, effects.RunTool{Run: math.MaxUint32, Tool: "http"}, max)
}

func FuzzDecodeOuter(f *testing.F) {
	f.Add(effects.RunTool{Run: 1, Tool: "http"}.AppendJSON(nil))
	f.Add([]byte(`{"type":"run_tool","run":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer boundtest.Within(t, len(b))()
		e, err := effects.DecodeOuter(b)
		if err != nil {
			require.Nil(t, e)
			return
		}
		again, err := effects.DecodeOuter(e.AppendJSON(nil))
		require.NoError(t, err)
		require.Equal(t, e, again)
	})
}

func TestARefNamesOneMachine(t *testing.T) {
	id := uuid.MustParse("00000000-0000-4000-8000-000000000001")
	ref := effects.Ref{Kind: "action", ID: id}
	assert.Equal(t, "action/00000000-0000-4000-8000-000000000001", ref.String())
	assert.False(t, ref.IsZero())
	assert.True(t, effects.Ref{}.IsZero())
	b, err := json.Marshal(ref)
	require.NoError(t, err)
	assert.JSONEq(t, `{"kind":"action","id":"00000000-0000-4000-8000-000000000001"}`, string(b))
}

func TestARefusalIsAnErrorThatSaysWhy(t *testing.T) {
	var err error = &effects.Refused{Code: effects.CodeConflict, Reason: "action x is running"}
	assert.EqualError(t, err, "action x is running")
}
