package pgkv

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/orrery-go/orrery/store"
)

// How many connections a process takes. What each of its partitions has for itself a slow one cannot take from the others: a commit and a checkpoint go on beside
// each other, and a View. What is beyond that they share.
const (
	ownWrites    = 2
	ownViews     = 1
	sharedWrites = 4
	aloneWrites  = 6 // of a partition that is opened by itself
)

// Pools are the connections of a process to the database, for all its partitions. Sessions that write have other limits of time than those that read, so they are apart.
type Pools struct {
	writes, views           *pgxpool.Pool
	writesShare, viewsShare chan struct{} // hold one value for each connection beyond what a partition has for itself
}

// OpenPools makes them. No connection is made before one is needed.
func OpenPools(ctx context.Context, url string, o Options) (*Pools, error) {
	o = o.withDefaults()
	p := &Pools{writesShare: make(chan struct{}, sharedWrites), viewsShare: make(chan struct{}, o.Views)}
	var err error
	if p.writes, err = newPool(ctx, url, o, true, sharedWrites+ownWrites*(store.MaxPartitions+1)); err != nil {
		return nil, err
	}
	if p.views, err = newPool(ctx, url, o, false, o.Views+ownViews*store.MaxPartitions); err != nil {
		p.writes.Close()
		return nil, err
	}
	return p, nil
}

// Close ends all connections, once nobody uses any.
func (p *Pools) Close() {
	p.views.Close()
	p.writes.Close()
}

// lanes are for one user of the connections: a partition, or the cluster.
func (p *Pools) lanes() (writes, views *lane) {
	return &lane{pool: p.writes, own: make(chan struct{}, ownWrites), shared: p.writesShare},
		&lane{pool: p.views, own: make(chan struct{}, ownViews), shared: p.viewsShare}
}

// lane is what one user of a pool may have of its connections: some for itself, and more as long as the others leave them.
type lane struct {
	pool        *pgxpool.Pool
	own, shared chan struct{} // nil: the pool is this user's alone
}

// enter waits until one more may be had. leave gives back what it returns.
func (l *lane) enter(ctx context.Context) (place chan struct{}, err error) {
	if l.own == nil {
		return nil, nil
	}
	select {
	case l.own <- struct{}{}:
		return l.own, nil
	default:
	}
	select {
	case l.own <- struct{}{}:
		return l.own, nil
	case l.shared <- struct{}{}:
		return l.shared, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func leave(place chan struct{}) {
	if place != nil {
		<-place
	}
}

type pooled = pgxpool.Conn

// held is a connection of a lane. It is given back once, by Release.
type held struct {
	*pooled
	place chan struct{}
}

// Release gives the connection back.
func (h *held) Release() {
	h.pooled.Release()
	leave(h.place)
}

// Acquire gives a connection.
func (l *lane) Acquire(ctx context.Context) (*held, error) {
	place, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	c, err := l.pool.Acquire(ctx)
	if err != nil {
		leave(place)
		return nil, err
	}
	return &held{c, place}, nil
}

// Exec carries out a statement.
func (l *lane) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	place, err := l.enter(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer leave(place)
	return l.pool.Exec(ctx, sql, args...)
}

// QueryRow asks for one row, once that is scanned.
func (l *lane) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return scanned{l, ctx, sql, args}
}

// scanned is a row that is not asked for yet.
type scanned struct {
	l    *lane
	ctx  context.Context // of the call of QueryRow, whose result is scanned at once
	sql  string
	args []any
}

// Scan asks for the row.
func (s scanned) Scan(dest ...any) error {
	place, err := s.l.enter(s.ctx)
	if err != nil {
		return err
	}
	defer leave(place)
	return s.l.pool.QueryRow(s.ctx, s.sql, s.args...).Scan(dest...)
}

// Query asks for rows, which have to be closed.
func (l *lane) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	place, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		leave(place)
		return nil, err
	}
	return &heldRows{rows, sync.OnceFunc(func() { leave(place) })}, nil
}

type heldRows struct {
	pgx.Rows
	leave func()
}

// Close ends the question.
func (r *heldRows) Close() {
	r.Rows.Close()
	r.leave()
}

// Begin begins a transaction, which has to be ended.
func (l *lane) Begin(ctx context.Context) (pgx.Tx, error) {
	place, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		leave(place)
		return nil, err
	}
	return &heldTx{tx, sync.OnceFunc(func() { leave(place) })}, nil
}

type heldTx struct {
	pgx.Tx
	leave func()
}

// Commit implements [pgx.Tx].
func (t *heldTx) Commit(ctx context.Context) error {
	defer t.leave()
	return t.Tx.Commit(ctx)
}

// Rollback implements [pgx.Tx].
func (t *heldTx) Rollback(ctx context.Context) error {
	defer t.leave()
	return t.Tx.Rollback(ctx)
}
