package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// MaxFindings is how many findings a Check gives at most.
const MaxFindings = 1000

// Finding is one thing that is wrong in a file.
type Finding struct {
	Where string // the bucket, or "pages" for bbolt's own structure
	What  string
}

// String gives "where: what".
func (f Finding) String() string { return f.Where + ": " + f.What }

// Check reads the whole database in one read transaction and gives what is
// wrong in it, at most [MaxFindings]: bbolt's pages; values whose checksum is
// wrong; due and list entries without a record; counts that are not what the
// lists hold; gaps in the journal; an outbox that disagrees with its waiting
// index. It reads the archive with the journal, too. An empty result says that the file is sound. The error is about the
// reading itself, which is ended as a [Store.View] is, with [store.ErrViewTooOld].
//
// It takes memory for the ids of all records, and it must not run beside an
// Update in a process that needs the memory. Updates wait while it looks at the
// pages, unless the file is open for reading only.
func (s *Store) Check(ctx context.Context) (_ []Finding, err error) {
	// bbolt's look at the pages reads the free list of the last writer: one that
	// writes meanwhile is a data race, one since the transaction began a false
	// finding.
	if err := s.lockWriter(ctx); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	release, err := s.db.Hold(ctx)
	if err != nil {
		s.unlockWriter()
		return nil, fmt.Errorf("check: %w", err)
	}
	letWrite := sync.OnceFunc(func() { release(); s.unlockWriter() })
	defer letWrite()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	ktx, err := s.begin(ctx, "check", false)
	if err != nil {
		return nil, err
	}
	defer guardEnded("check", &err)
	defer s.open.Done()
	defer ktx.Rollback()
	t := &readTx{ctx: ctx, tx: ktx}
	c := &checker{readTx: t, ids: map[effects.Kind]map[uuid.UUID]struct{}{}}
	c.walk()
	letWrite()
	for _, part := range []struct {
		where string
		check func() error
	}{
		{"records", c.checkRecords}, {"due", c.checkDue}, {"lists", c.checkLists}, {"journal", c.checkJournal},
		{"outbox", c.checkOutbox}, {"keepings", c.checkKeepings},
	} {
		if c.full() {
			break
		}
		if err := part.check(); err != nil {
			switch {
			case errors.Is(err, store.ErrViewTooOld): // some of what was found may be that
				return nil, fmt.Errorf("check: %w", err)
			case ctx.Err() != nil:
				return c.found, fmt.Errorf("check: %w", err)
			}
			c.report(part.where, "%v", err)
		}
	}
	return c.found, nil
}

// Check opens the file at path read-only and checks it: see [Store.Check].
func Check(ctx context.Context, path string) (found []Finding, err error) {
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Check(ctx)
}

type checker struct {
	*readTx
	found  []Finding
	ids    map[effects.Kind]map[uuid.UUID]struct{}
	counts map[string]uint64
}

func (c *checker) full() bool { return len(c.found) >= MaxFindings }

func (c *checker) report(where, format string, args ...any) {
	if !c.full() {
		c.found = append(c.found, Finding{Where: where, What: fmt.Sprintf(format, args...)})
	}
}

// each visits a table; what visit returns is a finding, and does not stop it.
func (c *checker) each(where string, t *table, visit func(k, v []byte) error) error {
	return c.scan(where, t, nil, func(k, v []byte) (bool, error) {
		if err := visit(k, v); err != nil {
			c.report(where, "key %x: %v", k, err)
		}
		return !c.full(), nil
	})
}

// walk is our own look at the pages, and bbolt's, which says more but panics on
// some damage in a goroutine of its own: it runs only on what passed ours.
func (c *checker) walk() {
	before := len(c.found)
	if err := walkPages(c.tx.Base(), true, false, func(what string) { c.report("pages", "%s", what) }); err != nil {
		c.report("pages", "%v", err)
	}
	if len(c.found) > before || c.tx.Base().DB().IsReadOnly() { // bbolt's needs the free list, which a reader has not
		return
	}
	for err := range c.tx.Base().Check() {
		c.report("pages", "%v", err)
	}
}

func (c *checker) checkRecords() error {
	kinds, err := c.kindsOf(recordsPrefix)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		ids := map[uuid.UUID]struct{}{}
		c.ids[kind] = ids
		err := c.each(recordsPrefix+string(kind), c.kind(kind).records, func(k, v []byte) error {
			if len(k) != idLen {
				return errors.New("the key is no id")
			}
			ids[uuid.UUID(k)] = struct{}{}
			_, err := parseRecord(kind, uuid.UUID(k), v, new(texts))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkDue() error {
	return c.each("due", c.table(bucketDue), func(k, v []byte) error {
		if len(k) != len(store.DueKey{}) {
			return errors.New("the key is no due key")
		}
		id := store.DueKey(k).ID()
		for kind, _, others := cutKinds(string(v)); ; kind, _, others = cutKinds(others) {
			if _, ok := c.ids[kind][id]; !ok {
				return fmt.Errorf("record %s/%s is not there", kind, id)
			}
			if others == "" {
				return nil
			}
		}
	})
}

func (c *checker) checkLists() error {
	c.counts = map[string]uint64{}
	kinds, err := c.kindsOf(listsPrefix)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := c.checkList(kind); err != nil {
			return err
		}
	}
	err = c.each("counts", c.table(bucketCounts), func(k, v []byte) error {
		n, err := strconv.ParseUint(string(v), 10, 64)
		if err != nil || n != c.counts[string(k)] {
			return fmt.Errorf("it says %q, the list has %d", v, c.counts[string(k)])
		}
		delete(c.counts, string(k))
		return nil
	})
	for k, n := range c.counts {
		c.report("counts", "key %x: it is missing, the list has %d", k, n)
	}
	return err
}

func (c *checker) checkList(kind effects.Kind) error {
	return c.each(listsPrefix+string(kind), c.kind(kind).lists, func(k, v []byte) error {
		if len(k) < lengthSize+listTail || int(binary.BigEndian.Uint16(k)) != len(k)-lengthSize-listTail {
			return errors.New("the key is no list key")
		}
		if string(v) == counted {
			c.counts[string(countKeyBytes(kind, effects.CountName(k[lengthSize:len(k)-listTail])))]++
		}
		id := uuid.UUID(k[len(k)-idLen:])
		if _, ok := c.ids[kind][id]; !ok {
			return fmt.Errorf("record %s/%s is not there", kind, id)
		}
		return nil
	})
}

func (c *checker) checkJournal() error {
	epochs, err := c.readEpochs()
	if err != nil {
		return err
	}
	for i := 1; i < len(epochs); i++ {
		if epochs[i].Number != epochs[i-1].Number+1 || epochs[i].First < epochs[i-1].First {
			c.report("epochs", "epoch %d from batch %d follows epoch %d from batch %d", epochs[i].Number, epochs[i].First, epochs[i-1].Number, epochs[i-1].First)
		}
	}
	last, err := c.lastSeq()
	if err != nil {
		return err
	}
	want := epochs[0].First
	err = c.each("journal", c.table(bucketJournal), func(k, v []byte) error {
		if len(k) != 8 {
			return errors.New("the key is no number")
		}
		seq := binary.BigEndian.Uint64(k)
		if seq >= epochs[0].First {
			if seq != want {
				c.report("journal", "batches %d to %d are missing", want, seq-1)
			}
			want = seq + 1
		}
		_, err := parseEntry(k, v, new(texts))
		return err
	})
	if err == nil && want != last+1 {
		c.report("journal", "it ends at batch %d, but the current epoch begins at %d", want-1, last+1)
	}
	if err != nil {
		return err
	}
	err = c.each("changes", c.table(bucketChanges), func(k, v []byte) error {
		if len(k) != 8 {
			return errors.New("the key is no number")
		}
		return c.parseChanges(k, v, &store.Batch{})
	})
	if err != nil {
		c.report("changes", "%v", err)
	}
	for _, e := range epochs {
		if err := c.Base(e.Number, func(store.Record) error { return nil }); err != nil {
			c.report("base", "%v", err)
		}
	}
	return nil
}

func (c *checker) checkOutbox() error {
	waiting, expected := c.table(bucketWaiting), 0
	err := c.each("outbox", c.table(bucketOutbox), func(k, v []byte) error {
		e, err := c.entry(k, v)
		if err != nil || !e.Waiting() {
			return err
		}
		expected++
		_, ok, err := guardedGet("outbox", waiting, appendWaitKey(nil, e.Lane, e.Seq, k))
		if err == nil && !ok {
			err = errors.New("it waits, and the waiting index does not have it")
		}
		return err
	})
	if err != nil {
		return err
	}
	indexed := 0
	err = c.each("waiting", waiting, func(k, _ []byte) error {
		indexed++
		if _, ok := laneOf(k); !ok {
			return errors.New("the key is no waiting key")
		}
		return nil
	})
	if err == nil && indexed != expected {
		c.report("waiting", "%d entries, but %d of the outbox wait", indexed, expected)
	}
	return err
}

func (c *checker) checkKeepings() error {
	bodies := c.table(bucketWebhooks)
	return errors.Join(
		c.each("webhooks-info", c.table(bucketWebhooksInfo), func(k, v []byte) error {
			if len(k) != idLen {
				return errors.New("the key is no id")
			}
			_, sum, err := parseWebhookInfo(k, v)
			if err == nil {
				_, err = body(bodies, k, sum)
			}
			return err
		}),
		c.each("claims", c.table(bucketClaims), func(k, v []byte) error {
			_, err := parseClaim(k, v)
			return err
		}),
		c.each("quarantine", c.table(bucketQuarantine), func(k, v []byte) error {
			return parseJSON(k, v, &quarantineValue{})
		}),
		c.each("run-logs", c.table(bucketRunLogs), func(k, v []byte) error {
			if len(k) != effectLen {
				return errors.New("the key is no attempt of a run")
			}
			_, err := parseRunLog(k, v)
			return err
		}),
		c.each("meta", c.table(bucketMeta), func(k, v []byte) error {
			_, err := parseMeta(k, v)
			return err
		}),
	)
}
