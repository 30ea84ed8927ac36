package httpapi

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What quotes what was sent stays out of the log of requests, also when it is answered again.
func TestRefusalsOfEntriesAreKeptAsTheyWere(t *testing.T) {
	quoting := failf(403, "entries[1].v: \"secret\" is not allowed")
	quoting.quotes = true
	first := many[int]{c: &call{}, retry: 60, refused: []*failure{nil, quoting, nil, failf(429, "entries[3]: full")}}
	kept, err := first.toKeep()
	require.NoError(t, err)
	again := many[int]{c: &call{}, refused: []*failure{failf(409, "it is there already"), nil, nil, nil}}
	require.NoError(t, again.noted(kept))
	assert.Equal(t, first.refused, again.refused)
	assert.Equal(t, 60, again.retry)
	assert.Equal(t, map[int]string{403: "", 429: "entries[3]: full"}, again.c.entries)

	short := many[int]{c: &call{}, refused: []*failure{nil}}
	require.NoError(t, short.noted(kept), "of another length: it is refused by what it asks for")
	assert.Equal(t, []*failure{nil}, short.refused)
	require.ErrorContains(t, short.noted([]byte("{")), "the entries that were refused before")
}
