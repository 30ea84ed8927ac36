package shell_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

var noop = shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })

// rawMap is how much of its file raw bbolt maps at once: as much as ours, or what
// 32 bits have room for.
const rawMap = 1 << (28 + 6*(strconv.IntSize/64))

// BenchmarkDurableActions is the way of an action from create to completed with
// a tool that does nothing: each caller creates one, waits for its end, and
// goes on with the next. Beside it, in the same run, raw bbolt does the same
// number of puts and deletes of the same sizes in the same two batches per
// action; "of-raw" is our rate as a part of raw bbolt's.
func BenchmarkDurableActions(b *testing.B) {
	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			st, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
			require.NoError(b, err)
			defer st.Close()
			e, stop := start(b, shell.Options{Store: st, Tools: tools(noop), DefaultConcurrency: 1024})
			raw := newRawBolt(b)
			b.ReportAllocs()
			b.ResetTimer()
			begin := time.Now()
			each(callers, b.N, func() error {
				a, err := e.Actions().Execute(bg(), benchmarkSpec())
				if err == nil && a.Status.Type != core.StatusCompleted {
					err = fmt.Errorf("action is %s: %s", a.Status.Type, a.Status.Reason)
				}
				return err
			}, b)
			ours := time.Since(begin)
			b.StopTimer()
			s, err := e.Stats(bg())
			require.NoError(b, err)
			require.NoError(b, stop())

			begin = time.Now()
			each(callers, b.N, raw.action, b)
			theirs := time.Since(begin)
			raw.close()
			b.ReportMetric(float64(b.N)/ours.Seconds(), "actions/s")
			b.ReportMetric(float64(b.N)/theirs.Seconds(), "raw-actions/s")
			b.ReportMetric(theirs.Seconds()/ours.Seconds(), "of-raw")
			b.ReportMetric(float64(s.Inputs)/float64(max(s.Batches, 1)), "inputs/batch")
		})
	}
}

func benchmarkSpec() core.ActionSpec {
	return core.ActionSpec{
		ToolName: "count", Label: "benchmark", Namespace: "bench", Tenant: "t",
		ToolInput: json.RawMessage(`{"to":"team@example.com","subject":"Daily Digest"}`),
	}
}

// each has the callers do n things in all.
func each(callers, n int, do func() error, b *testing.B) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// rawBolt writes what an action writes, with nothing around it but a group
// commit: create puts the record, three list entries and an outbox entry;
// complete puts the record, moves one list entry and deletes the outbox entry;
// each batch puts one journal entry.
type rawBolt struct {
	db    *bbolt.DB
	ops   chan rawOp
	ended chan struct{}
}

type rawOp struct {
	id       uuid.UUID
	complete bool
	done     chan struct{}
}

func newRawBolt(b *testing.B) *rawBolt {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, InitialMmapSize: rawMap})
	require.NoError(b, err)
	require.NoError(b, db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"records", "lists", "outbox", "journal"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}))
	r := &rawBolt{db: db, ops: make(chan rawOp, 4096), ended: make(chan struct{})}
	go r.run(b)
	return r
}

func (r *rawBolt) close() {
	close(r.ops)
	<-r.ended
}

func (r *rawBolt) action() error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	for _, complete := range []bool{false, true} {
		op := rawOp{id: id, complete: complete, done: make(chan struct{})}
		r.ops <- op
		<-op.done
	}
	return nil
}

func (r *rawBolt) run(b *testing.B) {
	defer close(r.ended)
	var seq uint64
	for op := range r.ops {
		batch := []rawOp{op}
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
		if err := r.db.Update(func(tx *bbolt.Tx) error { return rawBatch(tx, seq, batch) }); err != nil {
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

var (
	rawRecord  = make([]byte, 760)
	rawEffect  = make([]byte, 180)
	rawJournal = map[bool]int{false: 620, true: 140} // bytes of an input in the journal
)

func rawBatch(tx *bbolt.Tx, seq uint64, batch []rawOp) error {
	records, lists, outbox := tx.Bucket([]byte("records")), tx.Bucket([]byte("lists")), tx.Bucket([]byte("outbox"))
	journal := 0
	var err error
	try := func(e error) {
		if err == nil {
			err = e
		}
	}
	for _, op := range batch {
		journal += rawJournal[op.complete]
		try(records.Put(op.id[:], rawRecord))
		if op.complete {
			try(lists.Delete(rawKey("status:running", op.id)))
			try(lists.Put(rawKey("status:completed", op.id), nil))
			try(outbox.Delete(op.id[:]))
			continue
		}
		try(lists.Put(rawKey("all", op.id), nil))
		try(lists.Put(rawKey("status:running", op.id), nil))
		try(lists.Put(rawKey("scope:bench/t", op.id), nil))
		try(outbox.Put(op.id[:], rawEffect))
	}
	try(tx.Bucket([]byte("journal")).Put(binary.BigEndian.AppendUint64(nil, seq), make([]byte, journal)))
	return err
}

func rawKey(term string, id uuid.UUID) []byte {
	return append(append([]byte(term), 0), id[:]...)
}
