package constraints

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnExpressionWaitsForAProcessorAsLongAsItsRunWaits(t *testing.T) {
	env, err := newEnv()
	require.NoError(t, err)
	program, refused, err := compile(env, "attempt == 0")
	require.NoError(t, err)
	require.NoError(t, refused)
	e := &expression{text: "attempt == 0", program: program}
	for range cap(busy) {
		busy <- struct{}{}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.Check(gone, &Input{})
	require.ErrorIs(t, err, context.Canceled)
	for range cap(busy) {
		<-busy
	}
	_, _, err = compile(env, "attempt == 0")
	require.NoError(t, err)
	assert.Empty(t, busy, "its place is given back")
}
