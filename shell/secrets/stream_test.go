package secrets_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/secrets"
)

func TestAStreamMasksWhatTheMaskMasksHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{8,10}`)
		values := rapid.MapOfN(rapid.StringMatching(`[x-z]`), word, 0, 3).Draw(t, "values")
		mask := secrets.NewMask(values)
		text := ""
		for _, part := range rapid.SliceOf(rapid.OneOf(word, rapid.StringMatching(`[ab\n]{0,4}`))).Draw(t, "parts") {
			text += part
		}
		var out bytes.Buffer
		s := mask.Writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			written, err := s.Write([]byte(rest[:n]))
			require.NoError(t, err)
			require.Equal(t, n, written)
			rest = rest[n:]
			for _, v := range values {
				require.NotContains(t, out.String(), v)
			}
		}
		require.NoError(t, s.Flush())
		require.Equal(t, mask.Text(text), out.String())
	})
}

func TestTheEndOfAStreamIsMaskedByAShorterValueIfALongerOneIsNotThere(t *testing.T) {
	var out bytes.Buffer
	s := secrets.NewMask(map[string]string{"short": "hunter2-a", "long": "hunter2-and-more"}).Writer(&out)
	_, err := s.Write([]byte("hunter2-an"))
	require.NoError(t, err)
	require.Empty(t, out.String(), "the longer one may come")
	require.NoError(t, s.Flush())
	assert.Equal(t, "[secret short]n", out.String())
}

func TestAStreamHoldsBackOnlyWhatMayBeTheBeginningOfAValue(t *testing.T) {
	var out bytes.Buffer
	s := secrets.NewMask(map[string]string{"db": "hunter2-hunter2"}).Writer(&out)
	for _, step := range []struct{ piece, seen string }{
		{"loading ", "loading "},
		{"hunt", "loading "},
		{"ing\n", "loading hunting\n"},
		{"pw=hunter2-", "loading hunting\npw="},
		{"hunter2\n", "loading hunting\npw=[secret db]\n"},
		{"hunter2-hunter", "loading hunting\npw=[secret db]\n"},
	} {
		_, err := s.Write([]byte(step.piece))
		require.NoError(t, err)
		assert.Equal(t, step.seen, out.String(), step.piece)
	}
	require.NoError(t, s.Flush())
	assert.Equal(t, "loading hunting\npw=[secret db]\nhunter2-hunter", out.String(), "that was none")
	require.NoError(t, s.Flush())
}

func TestAStreamWithoutSecretsHandsOnWhatItIsGiven(t *testing.T) {
	var out bytes.Buffer
	s := secrets.Mask{}.Writer(&out)
	_, err := io.Copy(s, iotest.OneByteReader(bytes.NewReader([]byte("as it is"))))
	require.NoError(t, err)
	require.NoError(t, s.Flush())
	assert.Equal(t, "as it is", out.String())
}

func TestAStreamGivesTheErrorOfTheWriterBehindIt(t *testing.T) {
	full := errors.New("full")
	s := secrets.NewMask(map[string]string{"db": "hunter2-hunter2"}).Writer(failing{full})
	_, err := s.Write([]byte("text"))
	require.ErrorIs(t, err, full)
	_, err = s.Write([]byte("hunt"))
	require.NoError(t, err, "nothing is handed on yet")
	require.ErrorIs(t, s.Flush(), full)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
