package shell_test

import (
	"encoding/binary"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/shell"
)

// rawMap is how much of its file raw bbolt maps at once: as much as ours, or what
// 32 bits have room for.
const rawMap = 1 << (28 + 6*(strconv.IntSize/64))

// rawStore writes what the engine writes, with nothing around it but a group commit;
// each batch puts one journal entry.
type rawStore struct {
	db    *bbolt.DB
	steps int // of which each thing consists
	write rawWrite
	ops   chan rawStep
	ended chan struct{}
}

// rawWrite writes a batch, and gives the bytes of its journal entry. What try is given
// fails the batch.
type rawWrite func(tx *bbolt.Tx, batch []rawStep, try func(error)) (journal int)

// rawStep is one step of a thing; each is on the disk before the next.
type rawStep struct {
	id   uuid.UUID
	step int
	done chan struct{}
}

func newRawStore(b *testing.B, steps int, write rawWrite) *rawStore {
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
	r := &rawStore{db: db, steps: steps, write: write, ops: make(chan rawStep, 4096), ended: make(chan struct{})}
	go r.run(b)
	return r
}

// compare has the callers do the same here that took the engine as long as ours, and
// reports both.
func (r *rawStore) compare(b *testing.B, callers int, what string, ours time.Duration, s shell.Stats) {
	begin := time.Now()
	each(callers, b.N, r.do, b)
	theirs := time.Since(begin)
	close(r.ops)
	<-r.ended
	b.ReportMetric(float64(b.N)/ours.Seconds(), what+"/s")
	b.ReportMetric(float64(b.N)/theirs.Seconds(), "raw-"+what+"/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "of-raw")
	b.ReportMetric(float64(s.Inputs)/float64(max(s.Batches, 1)), "inputs/batch")
}

// do takes one thing through all of its steps.
func (r *rawStore) do() error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	for step := range r.steps {
		op := rawStep{id: id, step: step, done: make(chan struct{})}
		r.ops <- op
		<-op.done
	}
	return nil
}

func (r *rawStore) run(b *testing.B) {
	defer close(r.ended)
	var seq uint64
	for op := range r.ops {
		batch := []rawStep{op}
	drain:
		for len(batch) < 1024 {
			select {
			case op, ok := <-r.ops:
				if !ok {
					break drain
				}
				batch = append(batch, op)
			default:
				break drain
			}
		}
		seq++
		if err := r.db.Update(func(tx *bbolt.Tx) error { return r.commit(tx, seq, batch) }); err != nil {
			b.Error(err)
		}
		for _, op := range batch {
			close(op.done)
		}
	}
	if err := r.db.Close(); err != nil {
		b.Error(err)
	}
}

func (r *rawStore) commit(tx *bbolt.Tx, seq uint64, batch []rawStep) (err error) {
	try := func(e error) {
		if err == nil {
			err = e
		}
	}
	journal := r.write(tx, batch, try)
	try(tx.Bucket([]byte("journal")).Put(binary.BigEndian.AppendUint64(nil, seq), make([]byte, journal)))
	return err
}

func rawKey(term string, id uuid.UUID) []byte {
	return append(append([]byte(term), 0), id[:]...)
}
