package plainjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

func TestJSONIsWrittenAsPeopleReadIt(t *testing.T) {
	b, err := plainjson.Marshal(map[string]string{"cmd": "a > b && c <d\n"})
	require.NoError(t, err)
	assert.Equal(t, `{"cmd":"a > b && c <d\n"}`, string(b)) //nolint:testifylint // the bytes, not what they mean
	_, err = plainjson.Marshal(func() {})
	require.Error(t, err)
}

func TestTextIsWhatAnyStoreTakes(t *testing.T) {
	assert.Equal(t, "a\ufffdb\ufffdü", plainjson.Text("a\x00b\xffü"))
}

func TestCompactIsWhatMarshalWrites(t *testing.T) {
	for _, in := range []string{`{}`, `{"a b":"c \\\" d","e":[1,{"f":" "}]}`, "{ \"a\" :\n[ 1 ,\t2 ]}", `"\\"`, `"\\\\" `, ` 1`, `null`} {
		want, err := plainjson.Marshal(json.RawMessage(in))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(plainjson.Compact([]byte(in))))
	}
	assert.Equal(t, `{ "a"`, string(plainjson.Compact([]byte(`{ "a"`))), "what is no JSON stays as it is")
}

func TestReadableJSONHasTheSameValue(t *testing.T) {
	for raw, want := range map[string]string{
		`"\u003cb\u003e \u0026 x"`:   `"<b> & x"`,
		`"a \\u003c b"`:              `"a \\u003c b"`,
		`"a \\\u003c b"`:             `"a \\< b"`,
		`"\"\u003c\" \n \u00e9"`:     `"\"<\" \n \u00e9"`,
		`{"a":[1.50,null,"\u003e"]}`: `{"a":[1.50,null,">"]}`,
		`\`:                          `\`,
		`"\u003`:                     `"\u003`,
		`"\u003C \u0000"`:            `"< \u0000"`,
	} {
		got := string(plainjson.Readable(json.RawMessage(raw)))
		assert.Equal(t, want, got)
		if json.Valid([]byte(raw)) {
			assert.JSONEq(t, raw, got)
		}
	}
}
