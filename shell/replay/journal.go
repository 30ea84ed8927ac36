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

// decoded is one entry of the journal.
type decoded struct {
	seq   uint64
	entry core.Entry
	err   error // of the decoding
}

// chunkBytes is about how much of the journal is decoded at a time, and two chunks ahead.
const chunkBytes = 128 << 10

// reader goes through the journal and hands on what it has decoded.
type reader struct {
	ctx  context.Context //nolint:containedctx // lives as long as one call of each
	tx   *snapshot
	out  chan<- []decoded
	raw  []byte // of the chunk
	ends []end
}

// end is where an entry ends in a chunk.
type end struct {
	seq uint64
	at  int
}

// each calls fn for each entry in order, while another goroutine reads and decodes ahead;
// that one has ended when it returns.
func (s *snapshot) each(ctx context.Context, fn func(decoded) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := make(chan []decoded, 2)
	var read error
	go func() {
		defer close(out)
		r := &reader{ctx: ctx, tx: s, out: out}
		read = s.read(r.journal)
	}()
	var err error
	for chunk := range out {
		for i := 0; i < len(chunk) && err == nil; i++ {
			err = fn(chunk[i])
		}
		if err != nil {
			stop() // what is still on its way is dropped
		}
	}
	if err != nil {
		return err
	}
	return read
}

func (r *reader) journal(tx store.ReadTx) error {
	err := tx.Journal(0, func(seq uint64, raw []byte) error {
		r.raw = append(r.raw, raw...)
		r.ends = append(r.ends, end{seq, len(r.raw)})
		if len(r.raw) < chunkBytes {
			return nil
		}
		return r.tx.outside(r.flush)
	})
	if err != nil {
		_ = r.tx.outside(r.flush) // what could be read comes first
		return err
	}
	return r.tx.outside(r.flush)
}

// flush decodes the chunk and hands it on.
func (r *reader) flush() error {
	chunk := make([]decoded, 0, len(r.ends))
	begin := 0
	for _, e := range r.ends {
		entry, err := core.DecodeEntry(r.raw[begin:e.at])
		chunk = append(chunk, decoded{e.seq, entry, err})
		begin = e.at
	}
	r.raw, r.ends = r.raw[:0], r.ends[:0]
	select {
	case r.out <- chunk:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}
