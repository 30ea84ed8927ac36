package plainjson_test

import (
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
