package shell_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

// BenchmarkDurableQueue is the way of an item through a queue: each worker
// pushes one, takes the first one, and completes it, each step on the disk before
// the next. Beside it, in the same run, raw bbolt does the same puts and deletes
// of the same sizes in the same three batches per item, and a bare log gets as many bytes as
// ours; "of-raw" and "of-log" are our rate as parts of theirs.
func BenchmarkDurableQueue(b *testing.B) {
	for _, workers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			st, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
			require.NoError(b, err)
			defer st.Close()
			e, stop := start(b, shell.Options{Store: st})
			queue := core.QueueRef("bench", "t", "mail")
			data := json.RawMessage(`{"to":"team@example.com","subject":"Daily Digest"}`)
			b.ReportAllocs()
			b.ResetTimer()
			begin := time.Now()
			each(workers, b.N, func() error {
				if _, _, err := e.Queues().Push(bg(), "bench", "t", "mail", shell.PushOptions{Data: data}); err != nil {
					return err
				}
				items, err := e.Queues().Take(bg(), queue, shell.TakeOptions{Holder: "bench"})
				if err != nil {
					return err
				}
				if len(items) != 1 {
					return errors.New("there is always one for who has pushed one")
				}
				return e.Queues().Complete(bg(), shell.HoldOf(items[0]), nil)
			}, b)
			ours := time.Since(begin)
			b.StopTimer()
			s, err := e.Stats(bg())
			require.NoError(b, err)
			require.NoError(b, stop())
			compare(b, workers, 3, "items", ours, rawQueueBatch, s, st.LogStats())
		})
	}
}

var (
	rawItem   = make([]byte, 520)
	rawHeader = make([]byte, 900)
	rawInput  = [...]int{360, 210, 250} // bytes in the journal, by step
)

// rawQueueBatch writes what an item writes: push puts the record and its place in the
// line, take puts the record, removes the place and puts one among what has a time,
// complete deletes both; each batch puts the queue's record and its due entry.
func rawQueueBatch(tx *bbolt.Tx, batch []rawStep, try func(error)) (journal int) {
	records, lists, due := tx.Bucket([]byte("records")), tx.Bucket([]byte("lists")), tx.Bucket([]byte("due"))
	const queue = "9c5b94b1-35ad-49bb-b118-8e8fc24abf80"
	for _, op := range batch {
		journal += rawInput[op.step]
		switch op.step {
		case 0:
			try(records.Put(op.id[:], rawItem))
			try(lists.Put(rawKey("ready:"+queue, op.id), nil))
		case 1:
			try(records.Put(op.id[:], rawItem))
			try(lists.Delete(rawKey("ready:"+queue, op.id)))
			try(lists.Put(rawKey("timed:"+queue, op.id), nil))
		case 2:
			try(records.Delete(op.id[:]))
			try(lists.Delete(rawKey("timed:"+queue, op.id)))
		}
	}
	try(records.Put([]byte(queue), rawHeader))
	try(due.Delete([]byte("a due entry of 24 bytes.")))
	try(due.Put([]byte("a due entry of 24 bytes."), nil))
	return journal
}
