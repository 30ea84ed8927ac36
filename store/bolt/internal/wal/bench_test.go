package wal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// BenchmarkCommit is one Append and one Sync, at work: the segments have their size and
// are used anew. Beside it, in turns, as many bytes are written to a zero-filled file and
// synced: of-bare is the ratio of the medians, 1 if the log is as fast.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 64 << 10} {
		for _, nosync := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/nosync=%t", size, nosync), func(b *testing.B) {
				commits(b, size, nosync)
			})
		}
	}
}

func commits(b *testing.B, size int, nosync bool) {
	dir := b.TempDir()
	l, err := wal.Create(filepath.Join(dir, "log"), id, 1, wal.Options{NoSync: nosync, SegmentSize: 8 << 20})
	require.NoError(b, err)
	defer l.Close()
	payload := make([]byte, size)
	commit := func() {
		if _, err := l.Append(payload[:size/3], payload[size/3:]); err != nil {
			b.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			b.Fatal(err)
		}
		if l.Size() > 24<<20 {
			if err := l.Drop(l.Last()); err != nil {
				b.Fatal(err)
			}
		}
	}
	for range (64 << 20) / max(size, 64<<10) {
		_, err := l.Append(make([]byte, 64<<10)) // up to the greatest segments
		require.NoError(b, err)
	}
	require.NoError(b, l.Sync())
	require.NoError(b, l.Drop(l.Last()))

	f, err := disk.OS.OpenFile(filepath.Join(dir, "bare"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(b, err)
	defer f.Close()
	const room = 8 << 20
	_, err = f.WriteAt(make([]byte, room), 0)
	require.NoError(b, err)
	require.NoError(b, f.Sync())
	off := int64(0)
	same := make([]byte, (size+40+7)&^7)
	bare := func() {
		if off+int64(len(same)) > room {
			off = 0
		}
		if _, err := f.WriteAt(same, off); err != nil {
			b.Fatal(err)
		}
		off += int64(len(same))
		if !nosync {
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	var took [2][]time.Duration
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for i := range took { // in turns, and each first as often as the other
			which := (n + i) % 2
			begin := time.Now()
			if which == 0 {
				commit()
			} else {
				bare()
			}
			took[which] = append(took[which], time.Since(begin))
		}
	}
	ours, theirs := median(took[0]), median(took[1])
	b.ReportMetric(float64(ours.Nanoseconds()), "ns/commit")
	b.ReportMetric(float64(theirs.Nanoseconds()), "ns/bare")
	b.ReportMetric(float64(theirs)/float64(ours), "of-bare")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkOpen reads, recovers and replays a log of 64 MiB.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "log")
	l, err := wal.Create(dir, id, 1, wal.Options{})
	require.NoError(b, err)
	for l.Size() < 64<<20 {
		_, err := l.Append(make([]byte, 4<<10))
		require.NoError(b, err)
	}
	require.NoError(b, l.Sync())
	require.NoError(b, l.Close())
	b.SetBytes(64 << 20)
	for b.Loop() {
		l, err := wal.Open(dir, id, wal.Options{})
		require.NoError(b, err)
		require.NoError(b, l.Replay(1, func(uint64, []byte) error { return nil }))
		require.NoError(b, l.Close())
	}
}
