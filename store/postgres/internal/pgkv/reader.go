package pgkv

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/orrery-go/orrery/store/internal/tables"
)

// queryer is a connection, or what finds one.
type queryer interface {
	// query calls each with the rows, from the beginning once more where it tries again.
	query(ctx context.Context, begin func(), each func(rows pgx.Rows) error, sql string, args ...any) error
}

// reader reads the database's tables of a partition, through what is known of them.
type reader struct {
	ctx   context.Context // of the transaction that this lives in
	part  int
	s     *statements
	from  queryer
	cache *cache
}

// fail ends a read: see [tables.Guard].
func fail(err error) { panic(tables.ReadError{Err: err}) }

// Pages grow from the first to the most entries, as long as they have fewer bytes than that.
const (
	firstPage = 4
	mostPage  = 512
	pageBytes = 1 << 20
)

// get gives the value of a key. What it reads is the first entry from there on: so it learns up to where there is
// nothing, which with keys that grow is all that come later.
func (r *reader) get(tab int32, key []byte) (value []byte, ok bool) {
	value, ok, isKnown := r.cache.get(tab, key)
	for !isKnown {
		_, unknown, to, isUp := r.cache.up(tab, key)
		if !isUp {
			r.fetchUp(tab, unknown, to, 1)
		}
		value, ok, isKnown = r.cache.get(tab, key)
	}
	return value, ok
}

// fetchUp reads at most so many entries from a key on and before another, and gives what they take.
func (r *reader) fetchUp(tab int32, from, to []byte, limit int) (bytes int) {
	since := r.cache.now()
	from = append([]byte{}, from...) // not nil, which would be NULL
	sql, args := r.s.up, []any{r.part, tab, from, limit}
	if to != nil {
		sql, args = r.s.upTo, append(args, to)
	}
	entries, bytes := r.entries(sql, args...)
	if len(entries) == limit {
		to = following(entries[limit-1].key)
	}
	r.cache.learn(since, tab, from, to, entries)
	return bytes
}

// fetchDown reads at most so many entries before a key (nil: the last ones) and from another on.
func (r *reader) fetchDown(tab int32, end, from []byte, limit int) (bytes int) {
	since := r.cache.now()
	if from == nil {
		from = []byte{}
	}
	sql, args := r.s.down, []any{r.part, tab, from, limit}
	if end != nil {
		sql, args = r.s.downTo, append(args, end)
	}
	entries, bytes := r.entries(sql, args...)
	if len(entries) == limit {
		from = entries[limit-1].key
	}
	slices.Reverse(entries)
	r.cache.learn(since, tab, from, end, entries)
	return bytes
}

func (r *reader) entries(sql string, args ...any) (entries []known, bytes int) {
	err := r.from.query(r.ctx, func() { entries, bytes = nil, 0 }, func(rows pgx.Rows) error {
		e := known{}
		if err := rows.Scan(&e.key, &e.value); err != nil {
			return err
		}
		if e.value == nil {
			e.value = []byte{}
		}
		entries, bytes = append(entries, e), bytes+len(e.key)+len(e.value)
		return nil
	}, sql, args...)
	if err != nil {
		fail(fmt.Errorf("read the database: %w", err))
	}
	return entries, bytes
}

// fetchMany reads the first entry from each key on.
func (r *reader) fetchMany(tabs []int32, keys [][]byte) {
	since := r.cache.now()
	next := make([]known, len(keys))
	err := r.from.query(r.ctx, func() { clear(next) }, func(rows pgx.Rows) error {
		var i int64
		var e known
		if err := rows.Scan(&i, &e.key, &e.value); err != nil {
			return err
		}
		if i < 1 || i > int64(len(next)) {
			return fmt.Errorf("the database numbers key %d of %d", i, len(next))
		}
		if e.key != nil && e.value == nil {
			e.value = []byte{}
		}
		next[i-1] = e
		return nil
	}, r.s.many, r.part, tabs, keys)
	if err != nil {
		fail(fmt.Errorf("read the database: %w", err))
	}
	for i, e := range next {
		from := append([]byte{}, keys[i]...)
		if e.key == nil {
			r.cache.learn(since, tabs[i], from, nil, nil)
		} else {
			r.cache.learn(since, tabs[i], from, following(e.key), []known{e})
		}
	}
}

// walker walks through a table of the database.
type walker struct {
	*reader
	tab  int32
	page int // entries that it reads next
}

// limit gives how many entries to read now; read is told what they took.
func (w *walker) limit() int {
	if w.page == 0 {
		return firstPage
	}
	return w.page
}

func (w *walker) read(bytes int) {
	n := w.limit()
	average := max(bytes/n, 1)
	w.page = max(min(4*n, mostPage, pageBytes/average), 1)
}

// up gives the first entry from a key on; nil: of all.
func (w *walker) up(from []byte) known {
	for {
		e, unknown, to, isKnown := w.cache.up(w.tab, from)
		if isKnown {
			return e
		}
		w.read(w.fetchUp(w.tab, unknown, to, w.limit()))
	}
}

// below gives the last entry before a key; nil: of all.
func (w *walker) below(end []byte) known {
	for {
		e, unknown, from, isKnown := w.cache.below(w.tab, end)
		if isKnown {
			return e
		}
		w.read(w.fetchDown(w.tab, unknown, from, w.limit()))
	}
}
