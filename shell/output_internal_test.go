package shell

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/headtail"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// outputOfRun is one of so many bytes.
func outputOfRun(run uint32, bytes int) Output {
	return Output{Attempt: 1, Run: run, Written: int64(bytes), Head: []byte(strings.Repeat("x", bytes))}
}

// TestNoEarlierOutputTakesThePlaceOfALaterOne stores outputs in an order in which they should not come.
func TestNoEarlierOutputTakesThePlaceOfALaterOne(t *testing.T) {
	for name, row := range map[string]struct {
		stored, next Output
		want         Output
	}{
		"an earlier run that wrote more": {outputOfRun(2, 5), outputOfRun(1, 50), outputOfRun(2, 5)},
		"a later run that wrote less":    {outputOfRun(1, 50), outputOfRun(2, 5), outputOfRun(2, 5)},
		"less of the same run":           {outputOfRun(2, 50), outputOfRun(2, 5), outputOfRun(2, 50)},
		"more of the same run":           {outputOfRun(2, 5), outputOfRun(2, 50), outputOfRun(2, 50)},
	} {
		st, id := memory.New(), uuid.Max
		put := func(o Output) {
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return storing(o, id).Put(tx) }))
		}
		put(row.stored)
		put(row.next)
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			text, err := tx.RunLog(id, 1)
			require.NoError(t, err)
			got, err := decodeOutput(1, text)
			require.NoError(t, err)
			assert.Equal(t, row.want.Run, got.Run, name)
			assert.Equal(t, row.want.Written, got.Written, name)
			return nil
		}))
		require.NoError(t, st.Close())
	}
}

func TestTheOutputOfAnActionThatIsGoneIsNotStored(t *testing.T) {
	w := storing(outputOfRun(1, 5), uuid.Max)
	require.NoError(t, w.Check(core.Action{}))
	require.ErrorIs(t, w.Check(nil), ErrNotFound)
	require.ErrorIs(t, w.Check(core.Pipeline{}), ErrNotFound)
	assert.Len(t, encodeOutput(outputOfRun(1, 5)), w.Size)
}

func TestAStoredOutputThatCannotBeIsCorrupt(t *testing.T) {
	for text, want := range map[string]string{
		"x\nabc":                            "",
		`{"written":3,"head":-1}` + "\nabc": "3 bytes, of which -1 are the head and 3 were written",
		`{"written":3,"head":4}` + "\nabc":  "3 bytes, of which 4 are the head and 3 were written",
		`{"written":2,"head":2}` + "\nabc":  "3 bytes, of which 2 are the head and 2 were written",
	} {
		_, err := decodeOutput(7, []byte(text))
		require.ErrorIs(t, err, store.ErrCorrupt, text)
		require.ErrorContains(t, err, "output of attempt 7: "+want)
	}
	o, err := decodeOutput(7, []byte(`{"cycle":2,"run":4,"written":9,"head":3}`+"\nabcde"))
	require.NoError(t, err)
	assert.Equal(t, Output{Attempt: 7, Cycle: 2, Run: 4, Written: 9, Head: []byte("abc"), Tail: []byte("de")}, o)
	assert.EqualValues(t, 4, o.Dropped())
}

// TestWhatIsReadOnBeginsAtItsOffset reads "abc….fgh" of nine bytes, of which three are dropped, from each place.
func TestWhatIsReadOnBeginsAtItsOffset(t *testing.T) {
	for offset, want := range map[int64]string{
		-1: "0 abc|ghi 3", 0: "0 abc|ghi 3", 2: "2 c|ghi 3", 3: "3 |ghi 3", 5: "5 |ghi 1", 6: "6 |ghi 0", 8: "8 |i 0", 9: "9 | 0", 12: "9 | 0",
	} {
		o := Output{Written: 9, Head: []byte("abc"), Tail: []byte("ghi")}.from(offset)
		assert.Equal(t, want, strings.Join([]string{fmt.Sprint(o.Offset), string(o.Head) + "|" + string(o.Tail), fmt.Sprint(o.Dropped())}, " "), "from %d", offset)
	}
}

// TestWhatIsCutIsCutAtLinesAndElseBetweenCharacters cuts before and behind what was dropped.
func TestWhatIsCutIsCutAtLinesAndElseBetweenCharacters(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for head, want := range map[string]string{
		"": "", "abc": "abc", "one\n": "one\n", "one\ntw": "one\n",
		"one\n" + long(maxCut): "one\n", "one\n" + long(maxCut+1): "one\n" + long(maxCut+1), // a line that is long is not left out
		"é": "é", "aé"[:2]: "a", "a€": "a€", "a€"[:2]: "a", "a€"[:3]: "a", "a😀": "a😀", "a😀"[:2]: "a", "a😀"[:3]: "a", "a😀"[:4]: "a",
		"a\x80\x80\x80\x80\x80": "a\x80\x80\x80\x80\x80", // no text at all
	} {
		assert.Equal(t, want, string(headtail.CutHead([]byte(head), maxCut)), "the head %.20q of %d bytes", head, len(head))
	}
	for tail, want := range map[string]string{
		"": "", "abc": "abc", "ne\ntwo\n": "two\n", "one\n": "one\n", // its only line
		long(maxCut-1) + "\ntwo": "two", long(maxCut) + "\ntwo": long(maxCut) + "\ntwo",
		"é": "é", "é"[1:] + "a": "a", "€"[1:] + "a": "a", "€"[2:] + "a": "a", "😀"[1:] + "a": "a", "😀"[2:] + "a": "a", "😀"[3:] + "a": "a", "😀a": "😀a",
		"\x80\x80\x80\x80a": "\x80a", "\x80": "",
	} {
		assert.Equal(t, want, string(headtail.CutTail([]byte(tail), maxCut)), "the tail %.20q of %d bytes", tail, len(tail))
	}
}
