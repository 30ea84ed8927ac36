package stream_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/stream"
)

var ctx = context.Background()

// filled gives a store with n records, and something of most else.
func filled(t testing.TB, n int) *memory.Store {
	t.Helper()
	s := memory.NewSession("s")
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		var writes []store.Write
		for i := range n {
			writes = append(writes, store.Write{
				Kind: "action", ID: uuid.UUID{15: byte(i), 14: byte(i >> 8), 1: 1}, State: fmt.Appendf(nil, `{"n":%d}`, i), Due: effects.Time(i + 1),
				Terms: []store.Term{{Name: "all", At: effects.Time(i), Counted: true}},
			})
		}
		return errors.Join(tx.Put(1, writes), tx.AppendJournal(1, 1, []byte(`{"a":1}`)), tx.SetMeta("m", []byte(`1`)),
			tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: writes[0].ID, N: 1}, Seq: 1, Kind: "action", Lane: "l"}),
			tx.PutRunLog(writes[0].ID, 1, []byte("said")))
	}))
	return s
}

func written(t testing.TB, from store.Exporter) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := stream.Write(ctx, &b, from, stream.Options{By: "v1", Core: "6", At: 5})
	require.NoError(t, err)
	return b.Bytes()
}

func TestAStreamSaysWhoWroteItAndWhatIsInIt(t *testing.T) {
	b := written(t, filled(t, 3))
	assert.True(t, stream.Is(b))
	sum, err := stream.Verify(ctx, bytes.NewReader(b), nil)
	require.NoError(t, err)
	assert.Equal(t, stream.Head{Program: "orrery", By: "v1", Core: "6", At: 5, Head: store.Head{Seq: 1}}, sum.Head)
	assert.Equal(t, map[string]uint64{"records": 3, "due": 3, "terms": 3, "outbox": 1, "run-logs": 1, "meta": 1, "journal": 1, "epochs": 1}, sum.Entries)
	assert.Equal(t, int64(len(b)), sum.Bytes)
}

// TestAStreamThatWasCutOrChangedIsTold cuts a stream at each byte, and flips a bit in each.
func TestAStreamThatWasCutOrChangedIsTold(t *testing.T) {
	b := written(t, filled(t, 3))
	for i := range b {
		_, err := stream.Verify(ctx, bytes.NewReader(b[:i]), nil)
		requireTold(t, err, "cut at %d", i)
		for bit := range 8 {
			flipped := bytes.Clone(b)
			flipped[i] ^= 1 << bit
			_, err := stream.Verify(ctx, bytes.NewReader(flipped), nil)
			requireTold(t, err, "bit %d of byte %d", bit, i)
			_, err = memory.Restore(bytes.NewReader(flipped), "s")
			requireTold(t, err, "bit %d of byte %d", bit, i)
		}
	}
	_, err := stream.Verify(ctx, bytes.NewReader(append(bytes.Clone(b), 0)), nil)
	requireTold(t, err, "a byte more")
	require.ErrorContains(t, err, "bytes follow its end")
}

func requireTold(t *testing.T, err error, what string, args ...any) {
	t.Helper()
	require.Error(t, err, what, args)
	told := errors.Is(err, store.ErrCorrupt) || errors.Is(err, stream.ErrForeign) || errors.Is(err, stream.ErrNewer)
	require.True(t, told, "%s: %v", fmt.Sprintf(what, args...), err)
}

// TestTwoBlocksThatChangeTheirPlacesAreTold: each of them is whole.
func TestTwoBlocksThatChangeTheirPlacesAreTold(t *testing.T) {
	b := written(t, filled(t, 3))
	blocks := split(b)
	require.Greater(t, len(blocks), 4)
	for i := range len(blocks) - 1 {
		swapped := bytes.Join([][]byte{[]byte(stream.Magic)}, nil)
		for j, block := range blocks {
			switch j {
			case i:
				block = blocks[i+1]
			case i + 1:
				block = blocks[i]
			}
			swapped = append(swapped, block...)
		}
		_, err := stream.Verify(ctx, bytes.NewReader(swapped), nil)
		requireTold(t, err, "blocks %d and %d", i, i+1)
		require.ErrorContains(t, err, "stands there", "before its end is reached")
	}
	for i := range blocks { // one is gone
		_, err := stream.Verify(ctx, bytes.NewReader(append([]byte(stream.Magic), bytes.Join(append(append([][]byte{}, blocks[:i]...), blocks[i+1:]...), nil)...)), nil)
		requireTold(t, err, "without block %d", i)
	}
}

// split takes a stream apart into its blocks.
func split(b []byte) (blocks [][]byte) {
	const head = 29
	for b = b[len(stream.Magic):]; len(b) > 0; {
		n := head + int(b[21])<<24 + int(b[22])<<16 + int(b[23])<<8 + int(b[24])
		blocks, b = append(blocks, b[:n]), b[n:]
	}
	return blocks
}

func TestABlockOfAnotherStreamIsTold(t *testing.T) {
	one, two := split(written(t, filled(t, 3))), split(written(t, filled(t, 4)))
	require.Len(t, two, len(one))
	for i := range one {
		mixed := []byte(stream.Magic)
		for j := range one {
			if j == i {
				mixed = append(mixed, two[j]...)
			} else {
				mixed = append(mixed, one[j]...)
			}
		}
		if bytes.Equal(one[i], two[i]) {
			continue
		}
		_, err := stream.Verify(ctx, bytes.NewReader(mixed), nil)
		requireTold(t, err, "block %d", i)
	}
}

// dueOnly gives nothing but entries of the due index.
type dueOnly []store.DueEntry

func (d dueOnly) Export(_ context.Context, to store.Sink) error {
	if err := to.Begin(store.Head{}); err != nil {
		return err
	}
	for _, e := range d {
		if err := to.Due(e); err != nil {
			return err
		}
	}
	return nil
}

// dueSink keeps the entries of the due index.
type dueSink struct {
	store.Sink
	got []store.DueEntry
}

func (s *dueSink) Begin(store.Head) error { return nil }

func (s *dueSink) Due(e store.DueEntry) error {
	s.got = append(s.got, e)
	return nil
}

func TestDueEntriesHaveTheirSharesAndThoseOfAnEarlierVersionHaveNone(t *testing.T) {
	id := uuid.UUID{1: 1}
	entries := dueOnly{
		{Key: store.NewDueKey(5, id), Kind: "action", Share: 1<<32 - 1}, {Key: store.NewDueKey(5, id), Kind: "job"},
		{Key: store.NewDueKey(6, id), Kind: "action", Share: 7},
	}
	read := func(b []byte) []store.DueEntry {
		r, err := stream.NewReader(bytes.NewReader(b))
		require.NoError(t, err)
		var sink dueSink
		require.NoError(t, r.Export(ctx, &sink))
		return sink.got
	}
	assert.Equal(t, []store.DueEntry(entries), read(written(t, entries)))

	var old dueOnly
	for _, e := range entries {
		old = append(old, store.DueEntry{Key: e.Key, Kind: e.Kind})
	}
	assert.Equal(t, []store.DueEntry(old), read(stream.Format1(entries)))
}

func TestWhatIsNoStreamIsRefused(t *testing.T) {
	_, err := stream.NewReader(strings.NewReader("orrery stream 3\nmore"))
	require.ErrorIs(t, err, stream.ErrNewer)
	for _, b := range []string{"", "orrery", "something else that is long enough"} {
		_, err := stream.NewReader(strings.NewReader(b))
		require.ErrorIs(t, err, stream.ErrForeign, b)
	}
	reason := errors.New("the cable was cut")
	_, err = stream.Verify(ctx, io.MultiReader(bytes.NewReader(written(t, filled(t, 3))[:100]), failing{reason}), nil)
	require.ErrorIs(t, err, reason)
}

// TestAConnectionThatBreaksIsToldWithItsPlace: an HTTP body ends with io.ErrUnexpectedEOF then, or
// with an error of the network.
func TestAConnectionThatBreaksIsToldWithItsPlace(t *testing.T) {
	b, reset := written(t, filled(t, 3)), errors.New("connection reset by peer")
	for n := len(stream.Magic); n < len(b); n++ {
		at := fmt.Sprintf("the backup stream at byte %d", n)
		_, err := stream.Verify(ctx, io.MultiReader(bytes.NewReader(b[:n]), failing{io.ErrUnexpectedEOF}), nil)
		require.ErrorIs(t, err, store.ErrCorrupt, n)
		require.ErrorContains(t, err, at)
		require.ErrorContains(t, err, "it is cut off there")
		_, err = stream.Verify(ctx, io.MultiReader(bytes.NewReader(b[:n]), failing{reset}), nil)
		require.ErrorIs(t, err, reset, n)
		require.ErrorContains(t, err, at)
	}
}

// TestWhatIsNoEntryOfTheJournalIsRefused: a batch of which the first byte is another.
func TestWhatIsNoEntryOfTheJournalIsRefused(t *testing.T) {
	const journal = 11 // the section
	batch := "\x01\x00\x02{}\x00"
	for what := range byte(4) {
		_, err := stream.Verify(ctx, bytes.NewReader(stream.Forge(journal, append([]byte{what}, batch...))), nil)
		if what == 1 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.ErrorContains(t, err, "entry 1 of 1 of the journal is none")
	}
	_, err := stream.Verify(ctx, bytes.NewReader(stream.Forge(journal, []byte("\x01"+batch+"more"))), nil)
	require.ErrorContains(t, err, "4 bytes are left behind the journal of the block")
}

// TestABlockTakesNoMoreRoomThanItsHeadSays: 100 KiB that unpack to 1 GiB would do so first.
func TestABlockTakesNoMoreRoomThanItsHeadSays(t *testing.T) {
	b := stream.Forge(10, bytes.Repeat([]byte{0}, 64<<20)) // it is far beyond a block
	blocks := split(b)
	lying := blocks[1]
	copy(lying[17:21], []byte{0, 0, 1, 0}) // 256 bytes
	binary.BigEndian.PutUint32(lying, crc32.Checksum(lying[4:29], crc32.MakeTable(crc32.Castagnoli)))
	b = append([]byte(stream.Magic), bytes.Join(blocks, nil)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := stream.Verify(ctx, bytes.NewReader(b), nil)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "the block cannot be unpacked to 256 bytes: it says that it has 67108864")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestAWriterThatFailsOrAContextThatEndsEndsTheStream(t *testing.T) {
	reason := errors.New("no room")
	_, err := stream.Write(ctx, failing{reason}, filled(t, 3), stream.Options{})
	require.ErrorIs(t, err, reason)
	ended, cancel := context.WithCancelCause(ctx)
	cancel(reason)
	_, err = stream.Write(ended, io.Discard, filled(t, 3), stream.Options{})
	require.ErrorIs(t, err, reason)
	_, err = stream.Verify(ended, bytes.NewReader(written(t, filled(t, 3))), nil)
	require.ErrorIs(t, err, reason)
}

func TestProgressGrowsToTheEnd(t *testing.T) {
	var told []stream.Progress
	var b bytes.Buffer
	sum, err := stream.Write(ctx, &b, filled(t, 20_000), stream.Options{Progress: func(p stream.Progress) { told = append(told, p) }})
	require.NoError(t, err)
	require.Greater(t, len(told), 10)
	last := told[len(told)-1]
	assert.Equal(t, sum.Bytes, last.Bytes)
	for i, p := range told[1:] {
		assert.GreaterOrEqual(t, p.Entries, told[i].Entries)
		assert.Greater(t, p.Bytes, told[i].Bytes)
	}
	var read []stream.Progress
	_, err = stream.Verify(ctx, &b, func(p stream.Progress) { read = append(read, p) })
	require.NoError(t, err)
	assert.Equal(t, last.Entries, read[len(read)-1].Entries)
}

// lacking is an exporter of something damaged.
type lacking struct{ *memory.Store }

func (l lacking) Export(ctx context.Context, to store.Sink) error {
	return l.Store.Export(ctx, telling{to})
}

type telling struct{ store.Sink }

func (s telling) Record(r store.Record) error {
	return errors.Join(s.Omitted(store.Omission{What: "record", Name: r.ID.String(), Reason: "bad"}), s.Sink.Record(r))
}

func TestWhatIsLeftOutIsToldToWhoWritesAndToWhoReads(t *testing.T) {
	var b bytes.Buffer
	sum, err := stream.Write(ctx, &b, lacking{filled(t, 150)}, stream.Options{})
	require.NoError(t, err)
	assert.Equal(t, uint64(150), sum.Left)
	assert.Len(t, sum.Omitted, stream.MaxOmitted)
	read, err := stream.Verify(ctx, bytes.NewReader(b.Bytes()), nil)
	require.NoError(t, err)
	assert.Equal(t, sum.Omitted, read.Omitted)
	assert.Equal(t, sum.Left, read.Left)
	assert.Equal(t, uint64(150), read.Entries["records"])
}

func TestAValueFarBeyondABlockGoesThrough(t *testing.T) {
	s := filled(t, 3)
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		return tx.PutWebhook(store.Webhook{ID: uuid.UUID{1}, Route: "r", Header: []byte(`{}`), Body: body})
	}))
	restored, err := memory.Restore(bytes.NewReader(written(t, s)), "s")
	require.NoError(t, err)
	require.NoError(t, restored.View(ctx, func(tx store.ReadTx) error {
		hooks, err := tx.Webhooks(9)
		require.Len(t, hooks, 1)
		assert.True(t, bytes.Equal(body, hooks[0].Body))
		return err
	}))
}

// FuzzReadingAStream gives the reader anything: what stands in blocks gets right checksums, so that
// what reads the entries is reached.
func FuzzReadingAStream(f *testing.F) {
	b := written(f, filled(f, 3))
	f.Add(b, byte(0))
	for section := range byte(16) {
		f.Add([]byte("\x06action0123456789abcdef\x01\x01\x07{\"n\":1}"), section)
	}
	f.Fuzz(func(t *testing.T, in []byte, section byte) {
		defer boundtest.Within(t, len(in))()
		for _, b := range [][]byte{in, append([]byte(stream.Magic), in...), stream.Forge(section, in)} {
			sum, err := stream.Verify(ctx, bytes.NewReader(b), nil)
			if err == nil {
				_, err := json.Marshal(sum)
				require.NoError(t, err)
			}
			_, _ = memory.Restore(bytes.NewReader(b), "s")
		}
	})
}
