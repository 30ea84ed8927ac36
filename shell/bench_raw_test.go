package shell_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// rawStep is one step of a thing; each is on the disk before the next.
type rawStep struct {
	id   uuid.UUID
	step int
	done chan struct{}
}

// yardstick has things go through as many steps, durable each, with a group commit.
type yardstick struct {
	steps int
	write func(seq uint64, batch []rawStep) error // durable when it returns
}

// took gives the time in which that many callers take n things through all of their steps.
func (y yardstick) took(b *testing.B, callers, n int) time.Duration {
	ops, ended := make(chan rawStep, 4096), make(chan struct{})
	go func() {
		defer close(ended)
		y.commit(b, ops)
	}()
	begin := time.Now()
	each(callers, n, func() error {
		id, err := uuid.NewV7()
		for step := range y.steps {
			op := rawStep{id: id, step: step, done: make(chan struct{})}
			ops <- op
			<-op.done
		}
		return err
	}, b)
	took := time.Since(begin)
	close(ops)
	<-ended
	return took
}

// commit writes what it is sent, all at once that waits.
func (y yardstick) commit(b *testing.B, ops <-chan rawStep) {
	var seq uint64
	for op := range ops {
		batch := []rawStep{op}
	drain:
		for len(batch) < 1024 {
			select {
			case op, ok := <-ops:
				if !ok {
					break drain
				}
				batch = append(batch, op)
			default:
				break drain
			}
		}
		seq++
		if err := y.write(seq, batch); err != nil {
			b.Error(err)
		}
		for _, op := range batch {
			close(op.done)
		}
	}
}

// compare has the callers do the same with raw bbolt, and with a bare log that gets as many bytes as
// the engine's, and reports the rates of all three. ours is what the engine took.
func compare(b *testing.B, callers, steps int, what string, ours time.Duration, put rawWrite, s shell.Stats, st store.LogStats) {
	raw := yardstick{steps, newRawStore(b, put).write}.took(b, callers, b.N)
	log := yardstick{steps, newBareLog(b, int(st.Written)/(b.N*steps)).write}.took(b, callers, b.N)
	n := float64(b.N)
	b.ReportMetric(n/ours.Seconds(), what+"/s")
	b.ReportMetric(n/raw.Seconds(), "raw-"+what+"/s")
	b.ReportMetric(n/log.Seconds(), "log-"+what+"/s")
	b.ReportMetric(raw.Seconds()/ours.Seconds(), "of-raw")
	b.ReportMetric(log.Seconds()/ours.Seconds(), "of-log")
	b.ReportMetric(float64(st.Written)/n, "log-B/op")
	b.ReportMetric(float64(s.Inputs)/float64(max(s.Batches, 1)), "inputs/batch")
}

// bareLog appends so many bytes for each step to a zero-filled file, with one sync for a batch: no
// log can do with less.
type bareLog struct {
	f     *os.File
	bytes int // of a step
	off   int64
}

const bareLogRoom = 32 << 20

func newBareLog(b *testing.B, bytes int) *bareLog {
	f, err := os.Create(filepath.Join(b.TempDir(), "bare.log"))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, f.Close()) })
	_, err = f.Write(make([]byte, bareLogRoom))
	require.NoError(b, err)
	require.NoError(b, f.Sync())
	return &bareLog{f: f, bytes: bytes}
}

func (l *bareLog) write(_ uint64, batch []rawStep) error {
	frame := make([]byte, l.bytes*len(batch))
	if l.off+int64(len(frame)) > bareLogRoom {
		l.off = 0
	}
	if _, err := l.f.WriteAt(frame, l.off); err != nil {
		return err
	}
	l.off += int64(len(frame))
	return syncData(l.f)
}

// rawMap is how much of its file raw bbolt maps at once: as much as ours, or what
// 32 bits have room for.
const rawMap = 1 << (28 + 6*(strconv.IntSize/64))

// rawStore writes what the engine writes, with nothing around it but a group commit;
// each batch puts one journal entry.
type rawStore struct {
	db  *bbolt.DB
	put rawWrite
}

// rawWrite writes a batch, and gives the bytes of its journal entry. What try is given
// fails the batch.
type rawWrite func(tx *bbolt.Tx, batch []rawStep, try func(error)) (journal int)

func newRawStore(b *testing.B, put rawWrite) *rawStore {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, InitialMmapSize: rawMap})
	require.NoError(b, err)
	require.NoError(b, db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"records", "lists", "due", "outbox", "journal"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}))
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	return &rawStore{db: db, put: put}
}

// write commits a batch.
func (r *rawStore) write(seq uint64, batch []rawStep) error {
	return r.db.Update(func(tx *bbolt.Tx) error { return r.commit(tx, seq, batch) })
}

func (r *rawStore) commit(tx *bbolt.Tx, seq uint64, batch []rawStep) (err error) {
	try := func(e error) {
		if err == nil {
			err = e
		}
	}
	journal := r.put(tx, batch, try)
	try(tx.Bucket([]byte("journal")).Put(binary.BigEndian.AppendUint64(nil, seq), make([]byte, journal)))
	return err
}

func rawKey(term string, id uuid.UUID) []byte {
	return append(append([]byte(term), 0), id[:]...)
}
