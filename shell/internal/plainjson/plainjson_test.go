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
