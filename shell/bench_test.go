package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

var noop = shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })

// BenchmarkDurableActions is the way of an action from create to completed with
// a tool that does nothing: each caller creates one, waits for its end, and
// goes on with the next. Beside it, in the same run, raw bbolt does the same
// number of puts and deletes of the same sizes in the same two batches per
// action, and a bare log gets as many bytes as ours; "of-raw" and "of-log" are our rate as parts of theirs.
func BenchmarkDurableActions(b *testing.B) {
	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			st, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
			require.NoError(b, err)
			defer st.Close()
			e, stop := start(b, shell.Options{Store: st, Tools: tools(noop), DefaultConcurrency: 1024})
			b.ReportAllocs()
			b.ResetTimer()
			begin, cpu := time.Now(), cpuTime()
			each(callers, b.N, func() error {
				a, err := e.Actions().Execute(bg(), benchmarkSpec())
				if err == nil && a.Status.Type != core.StatusCompleted {
					err = fmt.Errorf("action is %s: %s", a.Status.Type, a.Status.Reason)
				}
				return err
			}, b)
			ours := time.Since(begin)
			b.StopTimer()
			b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N)/1e3, "cpu-µs/op")
			s, err := e.Stats(bg())
			require.NoError(b, err)
			require.NoError(b, stop())
			compare(b, callers, 2, "actions", ours, rawActionBatch, s, st.LogStats())
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

var (
	rawRecord  = make([]byte, 760)
	rawEffect  = make([]byte, 180)
	rawJournal = [...]int{620, 140} // bytes of an input in the journal, by step
)

// rawActionBatch writes what an action writes: create puts the record, three list entries
// and an outbox entry; complete puts the record, moves one list entry and deletes the
// outbox entry.
func rawActionBatch(tx *bbolt.Tx, batch []rawStep, try func(error)) (journal int) {
	records, lists, outbox := tx.Bucket([]byte("records")), tx.Bucket([]byte("lists")), tx.Bucket([]byte("outbox"))
	for _, op := range batch {
		journal += rawJournal[op.step]
		try(records.Put(op.id[:], rawRecord))
		if op.step == 1 {
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
	return journal
}
