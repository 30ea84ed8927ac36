package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Check reads all that a transaction sees, and tells report what is wrong, and where, until full says that
// it is enough: values whose checksum is wrong; due and list entries without a record; counts that are not
// what the lists hold; gaps in the journal; an outbox that disagrees with its waiting index. The error is
// about the reading itself: [store.ErrViewTooOld], with which some of what was told may be false, or that of the
// context. It takes memory for the ids of all records.
func (t *ReadTx) Check(report func(where, what string), full func() bool) error {
	c := &checker{ReadTx: t, tell: report, full: full, ids: map[effects.Kind]map[uuid.UUID]struct{}{}}
	for _, part := range []struct {
		where string
		check func() error
	}{
		{"records", c.checkRecords}, {"due", c.checkDue}, {"lists", c.checkLists}, {"journal", c.checkJournal},
		{"outbox", c.checkOutbox}, {"keepings", c.checkKeepings},
	} {
		if full() {
			break
		}
		if err := part.check(); err != nil {
			if errors.Is(err, store.ErrViewTooOld) || t.ctx.Err() != nil {
				return err
			}
			c.report(part.where, "%v", err)
		}
	}
	return nil
}

type checker struct {
	*ReadTx
	tell   func(where, what string)
	full   func() bool
	ids    map[effects.Kind]map[uuid.UUID]struct{}
	counts map[string]uint64
}

func (c *checker) report(where, format string, args ...any) {
	c.tell(where, fmt.Sprintf(format, args...))
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

func (c *checker) checkRecords() error {
	kinds, err := c.kindsOf(RecordsPrefix)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		ids := map[uuid.UUID]struct{}{}
		c.ids[kind] = ids
		err := c.each(RecordsPrefix+string(kind), c.kind(kind).records, func(k, v []byte) error {
			if len(k) != IDLen {
				return errors.New("the key is no id")
			}
			ids[uuid.UUID(k)] = struct{}{}
			_, err := ParseRecord(kind, uuid.UUID(k), v, new(Texts))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkDue() error {
	return c.each("due", c.table(inDue), func(k, v []byte) error {
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
	kinds, err := c.kindsOf(ListsPrefix)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := c.checkList(kind); err != nil {
			return err
		}
	}
	err = c.each("counts", c.table(inCounts), func(k, v []byte) error {
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
	return c.each(ListsPrefix+string(kind), c.kind(kind).lists, func(k, v []byte) error {
		if len(k) < lengthSize+listTail || int(binary.BigEndian.Uint16(k)) != len(k)-lengthSize-listTail {
			return errors.New("the key is no list key")
		}
		if string(v) == Counted {
			c.counts[string(CountKey(kind, effects.CountName(k[lengthSize:len(k)-listTail])))]++
		}
		id := uuid.UUID(k[len(k)-IDLen:])
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
	err = c.each("journal", c.table(inJournal), func(k, v []byte) error {
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
		_, err := parseEntry(k, v, new(Texts))
		return err
	})
	if err == nil && want != last+1 {
		c.report("journal", "it ends at batch %d, but the current epoch begins at %d", want-1, last+1)
	}
	if err != nil {
		return err
	}
	err = c.each("changes", c.table(inChanges), func(k, v []byte) error {
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
	waiting, expected := c.table(inWaiting), 0
	err := c.each("outbox", c.table(inOutbox), func(k, v []byte) error {
		e, err := c.entry(k, v)
		if err != nil || !e.Waiting() {
			return err
		}
		expected++
		_, ok, err := guardedGet("outbox", waiting, AppendWaitKey(nil, e.Lane, e.Seq, k))
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
	bodies := c.table(inWebhooks)
	return errors.Join(
		c.each("webhooks-info", c.table(inWebhooksInfo), func(k, v []byte) error {
			if len(k) != IDLen {
				return errors.New("the key is no id")
			}
			_, sum, err := parseWebhookInfo(k, v)
			if err == nil {
				_, err = body(bodies, k, sum)
			}
			return err
		}),
		c.each("claims", c.table(inClaims), func(k, v []byte) error {
			_, err := ParseClaim(k, v)
			return err
		}),
		c.each("quarantine", c.table(inQuarantine), func(k, v []byte) error {
			return ParseJSON(k, v, &QuarantineValue{})
		}),
		c.each("run-logs", c.table(inRunLogs), func(k, v []byte) error {
			if len(k) != effectLen {
				return errors.New("the key is no attempt of a run")
			}
			_, err := parseRunLog(k, v)
			return err
		}),
		c.checkAnswers(),
		c.each("meta", c.table(inMeta), func(k, v []byte) error {
			_, err := parseMeta(k, v)
			return err
		}),
	)
}

// checkAnswers looks at what requests with a key were answered, and that each will be forgotten by its time.
func (c *checker) checkAnswers() error {
	answered, places := c.table(inAnswered), 0
	err := c.each("answers", c.table(inAnswers), func(k, v []byte) error {
		if len(k) != answerKeyLen {
			return errors.New("the key is no request's")
		}
		place, err := AnsweredKeyOf(k, v)
		if err != nil {
			return err
		}
		_, ok, err := guardedGet("answers", answered, place)
		if ok {
			places++
		}
		if err == nil && !ok {
			err = errors.New("the table of the times does not have it")
		}
		return err
	})
	if err != nil {
		return err
	}
	found := 0
	err = c.each("answered", answered, func(_, _ []byte) error { found++; return nil })
	if err == nil && found != places {
		c.report("answered", "%d times, but %d of them are of answers", found, places)
	}
	return err
}
