package core

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/boundtest"
)

// soundSamples are texts of every part of the grammar; true: soundJSON knows them to be sound.
var soundSamples = map[string]bool{
	`{"to":"team@example.com","n":1.50,"html":"<b>"}`:                                        true,
	` [ 1 , -0 , 0.5e+3 , 1E-2 , true , false , null , "" , { } , [ ] , {"a":{"b":[{}]}} ] `: true,
	`"Größe \n \\ \" \/"`: true,
	`""`:                  true, `0`: true, `-12`: true, "\t\r\n null \n": true,
	`"\u00e4\uD83D"`: true, `"\u00g4"`: false, `"\u00e"`: false, `"\u`: false, `"\uBEEF`: false,
	``: false, ` `: false, `{`: false, `}`: false, `[1`: false, `[1,]`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1,}`: false,
	`{a:1}`: false, `01`: false, `-`: false, `1.`: false, `.5`: false, `1e`: false, `1e+`: false, `tru`: false, `nullx`: false, `1 2`: false,
	`"`: false, `"\`: false, `"\x"`: false, "\"\n\"": false, `+1`: false, `--1`: false, "\v1": false, "\ufeff1": false, `[1 2]`: false, `{"a" 1}`: false,
	strings.Repeat("[", MaxJSONDepth) + strings.Repeat("]", MaxJSONDepth):     true,
	strings.Repeat("[", MaxJSONDepth+1) + strings.Repeat("]", MaxJSONDepth+1): false,
}

func TestWhatIsTakenForSoundJSONIsSoundByEncodingJSONToo(t *testing.T) {
	for v, want := range soundSamples {
		sound, ascii := soundJSON([]byte(v))
		require.Equal(t, want, sound, v)
		if sound {
			require.Equal(t, strings.IndexFunc(v, func(r rune) bool { return r >= utf8.RuneSelf }) < 0, ascii, v)
		}
		checkSound(t, []byte(v))
	}
}

// checkSound holds that soundJSON says no more than what is so.
func checkSound(t *testing.T, v []byte) {
	sound, ascii := soundJSON(v)
	if !sound {
		return
	}
	require.True(t, json.Valid(v), "%q", v)
	require.False(t, tooDeep(v), "%q", v)
	if ascii {
		require.True(t, utf8.Valid(v), "%q", v)
	}
}

func FuzzSoundJSON(f *testing.F) {
	for v := range soundSamples {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		defer boundtest.Within(t, len(in))()
		checkSound(t, in)
	})
}
