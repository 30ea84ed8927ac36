package replay

import (
	"context"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// snapshot is the transaction of a replay. The goroutine that reads the journal and the one
// that folds it use it in turn.
type snapshot struct {
	mu sync.Mutex
	tx store.ReadTx
}

// read has the transaction to itself while fn runs.
func (s *snapshot) read(fn func(tx store.ReadTx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(s.tx)
}

// outside lets the other goroutine have the transaction while fn runs within read.
func (s *snapshot) outside(fn func() error) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	return fn()
}

// ahead calls use for each chunk that produce hands on, while produce goes on in another goroutine;
// that one has ended when ahead returns. If use fails, hand does too.
func ahead[T any](ctx context.Context, produce func(hand func(T) error) error, use func(T) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := newChunks[T]()
	var failed error
	go func() {
		defer close(out)
		failed = produce(func(chunk T) error {
			select {
			case out <- chunk:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	var err error
	for chunk := range out {
		if err != nil {
			continue // what was on its way
		}
		if err = use(chunk); err != nil {
			stop()
		}
	}
	if err != nil {
		return err
	}
	return failed
}

// newChunks gives a channel for chunks; so many are made ahead.
func newChunks[T any]() chan T { return make(chan T, chunksAhead) }

// chunkBytes is about how much is handed on at a time.
const (
	chunkBytes  = 128 << 10
	chunksAhead = 2
)

// decoded is one entry of the journal.
type decoded struct {
	seq   uint64
	entry core.Entry
	err   error // of the decoding
	noted bool  // the store has noted the digest of what the batch changed
	sum   uint64
}

// each calls fn for each entry of the journal in order; entries are read and decoded ahead.
func (s *snapshot) each(ctx context.Context, fn func(decoded) error) error {
	return ahead(ctx, func(hand func([]decoded) error) error {
		r := &reader{tx: s, hand: hand}
		return s.read(r.journal)
	}, func(chunk []decoded) error {
		for _, d := range chunk {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	})
}

// reader goes through the journal and hands on what it has decoded.
type reader struct {
	tx   *snapshot
	hand func([]decoded) error
	raw  []byte // of the chunk
	ends []end
}

// end is where an entry ends in a chunk.
type end struct {
	store.Batch
	at int
}

func (r *reader) journal(tx store.ReadTx) error {
	err := tx.Batches(0, func(b store.Batch) error {
		r.raw = append(r.raw, b.Entry...)
		b.Entry, b.Changes = nil, nil
		r.ends = append(r.ends, end{b, len(r.raw)})
		if len(r.raw) < chunkBytes {
			return nil
		}
		return r.tx.outside(r.flush)
	})
	rest := r.tx.outside(r.flush) // what could be read comes first
	if err != nil {
		return err
	}
	return rest
}

// flush decodes the chunk and hands it on.
func (r *reader) flush() error {
	chunk := make([]decoded, 0, len(r.ends))
	begin := 0
	for _, e := range r.ends {
		entry, err := core.DecodeEntry(r.raw[begin:e.at])
		chunk = append(chunk, decoded{seq: e.Seq, entry: entry, err: err, noted: e.Known, sum: e.Digest})
		begin = e.at
	}
	r.raw, r.ends = r.raw[:0], r.ends[:0]
	return r.hand(chunk)
}

// eachRecord calls fn for each record; records are read ahead. They are valid until fn
// returns.
func eachRecord(ctx context.Context, tx store.ReadTx, fn func(store.Record) error) error {
	used := newChunks[*records]()
	return ahead(ctx, func(hand func(*records) error) error {
		chunk := &records{}
		err := tx.Records(func(r store.Record) error {
			chunk.add(r)
			if len(chunk.raw) < chunkBytes {
				return nil
			}
			err := hand(chunk)
			select {
			case chunk = <-used:
				chunk.raw, chunk.list, chunk.ends = chunk.raw[:0], chunk.list[:0], chunk.ends[:0]
			default:
				chunk = &records{}
			}
			return err
		})
		rest := hand(chunk)
		if err != nil {
			return err
		}
		return rest
	}, func(chunk *records) error {
		begin := 0
		for i, r := range chunk.list {
			r.State = chunk.raw[begin:chunk.ends[i]]
			begin = chunk.ends[i]
			if err := fn(r); err != nil {
				return err
			}
		}
		select {
		case used <- chunk:
		default:
		}
		return nil
	})
}

// records are some records, with the states one behind the other.
type records struct {
	list []store.Record
	raw  []byte
	ends []int
}

func (c *records) add(r store.Record) {
	c.raw = append(c.raw, r.State...)
	c.ends = append(c.ends, len(c.raw))
	r.State = nil
	c.list = append(c.list, r)
}
