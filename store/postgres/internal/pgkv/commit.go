package pgkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/orrery-go/orrery/store"
)

// stagedCommit is a commit that waits for the database, and that no View sees. Who writes next goes on from it.
type stagedCommit struct {
	active *overlay
	n      uint64
	frame  []byte
	bytes  int64
	done   chan struct{} // closed once err is known
	err    error
}

// Staged is what a transaction that writes has written and read, which may not be durable.
type Staged struct {
	db    *DB
	on    *stagedCommit // nil: all of it is durable
	last  uint64
	wrote bool
}

// Last is the number of the last commit that is waited for.
func (s Staged) Last() uint64 { return s.last }

// Wait returns once all of it is durable and every View sees it.
func (s Staged) Wait() error {
	if s.on == nil {
		return nil
	}
	tell(s.db.commits) // what nobody waits for need not be sent yet
	<-s.on.done
	return s.on.err
}

// newest gives what the last commit has left, be it durable or not, and its number. The caller holds mu.
func (db *DB) newest() (*overlay, uint64) {
	if last := len(db.staged) - 1; last >= 0 {
		return db.staged[last].active, db.staged[last].n
	}
	return db.active, db.last
}

// Seen is what the transaction has found as it began, which a writer may before it is durable.
func (tx *Tx) Seen() Staged {
	tx.db.mu.RLock()
	defer tx.db.mu.RUnlock()
	for _, c := range tx.db.staged {
		if c.n == tx.last {
			return Staged{db: tx.db, on: c, last: tx.last}
		}
	}
	return Staged{last: tx.last}
}

// Stage hands what the transaction has written over to be committed, and ends it: the next one that writes
// sees it, and others once a Wait has made it durable. If it returns an error nothing of that is there.
func (tx *Tx) Stage() (Staged, error) {
	defer tx.Rollback()
	if tx.refuse != nil {
		return Staged{}, tx.refuse
	}
	if !tx.write || tx.frame.bytes == 0 {
		return tx.Seen(), nil
	}
	db := tx.db
	if err := db.Broken(); err != nil {
		return Staged{}, err
	}
	c := &stagedCommit{active: &tx.own.overlay, n: tx.last + 1, frame: tx.frame.pack(), bytes: int64(tx.frame.bytes), done: make(chan struct{})}
	db.mu.Lock()
	if db.generation != tx.generation {
		db.mu.Unlock()
		return Staged{}, errors.New("the commit before, on which this one rests, was not stored")
	}
	db.staged = append(db.staged, c)
	db.mu.Unlock()
	db.rest = tx.frame.rest()
	return Staged{db: db, on: c, last: c.n, wrote: true}, nil
}

// commitAll sends what is staged to the database, all that waits in one transaction.
func (db *DB) commitAll() {
	for {
		select {
		case <-db.commits:
		case <-db.ctx.Done():
			db.giveUp(context.Cause(db.ctx))
			return
		}
		for db.commitNext() {
		}
	}
}

// mostTogether bounds the bytes of frames that go together.
const mostTogether = 16 << 20

func (db *DB) commitNext() bool {
	db.mu.RLock()
	many, bytes := 0, 0
	for many < len(db.staged) && (many == 0 || bytes < mostTogether) {
		bytes += len(db.staged[many].frame)
		many++
	}
	part := db.staged[:many:many]
	db.mu.RUnlock()
	if many == 0 {
		return false
	}
	if err := db.store(part); err != nil {
		db.giveUp(err)
		return false
	}
	db.show(many)
	db.written.Add(uint64(bytes))
	return true
}

// store stores commits. If the answer is lost it finds out whether they are stored, for as long as
// that takes.
func (db *DB) store(part []*stagedCommit) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if err := db.Broken(); err != nil {
			return err
		}
		err := db.send(part)
		if err == nil {
			return nil
		}
		if isFenced(err) {
			err = fmt.Errorf("partition %d: %w", db.o.Partition, store.ErrFenced)
			db.Break(err)
			return err
		}
		if isRefusal(err) {
			return fmt.Errorf("commit: %w", err)
		}
		db.o.Logger.Warn("the answer to a commit was lost; finding out what became of it", "error", err)
		stored, err := db.resolve(part)
		if stored || err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-db.ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnconfirmed, context.Cause(db.ctx))
		}
	}
}

func (db *DB) send(part []*stagedCommit) error {
	numbers, frames := make([]int64, len(part)), make([][]byte, len(part))
	for i, c := range part {
		numbers[i], frames[i] = int64(c.n), c.frame
	}
	db.mu.RLock()
	token := db.token
	db.mu.RUnlock()
	b := &pgx.Batch{}
	b.Queue(db.s.append, db.o.Partition, numbers, frames)
	b.Queue(db.s.commit, db.o.Partition, token, numbers[0]-1, numbers[len(numbers)-1])
	db.roundTrips.Add(1)
	return db.pool.SendBatch(db.ctx, b).Close()
}

// resolve takes a new token, with which the database answers only once no earlier transaction of this
// process can be stored any more, and tells whether the commits are.
func (db *DB) resolve(part []*stagedCommit) (stored bool, err error) {
	unknown := func(err error) error { return fmt.Errorf("%w: %w", store.ErrUnconfirmed, err) }
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var token, last int64
		db.mu.RLock()
		mine := db.token
		db.mu.RUnlock()
		err := db.pool.QueryRow(db.ctx, db.s.again, db.o.Partition, mine, db.o.Session).Scan(&token, &last)
		if err == nil {
			db.mu.Lock()
			db.token = token
			db.mu.Unlock()
			return db.resolved(part, uint64(last))
		}
		if errors.Is(err, pgx.ErrNoRows) {
			// An answer to this question may have been lost, too: the session tells.
			r, err := db.look(db.ctx)
			if err == nil && r.Session != db.o.Session {
				fenced := fmt.Errorf("partition %d: %w: now owned %s", db.o.Partition, store.ErrFenced, r)
				db.Break(fenced)
				return false, unknown(fenced)
			}
			if err == nil {
				db.mu.Lock()
				db.token = r.Token
				db.mu.Unlock()
				continue
			}
		}
		if broken := db.Broken(); broken != nil {
			return false, unknown(broken)
		}
		select {
		case <-time.After(wait):
		case <-db.ctx.Done():
			return false, unknown(context.Cause(db.ctx))
		}
	}
}

func (db *DB) resolved(part []*stagedCommit, last uint64) (stored bool, err error) {
	first, end := part[0].n, part[len(part)-1].n
	switch {
	case last == end:
		return true, nil
	case last == first-1:
		return false, nil
	}
	err = fmt.Errorf("partition %d: %w: the last one is number %d, and %d was acknowledged", db.o.Partition, ErrLost, last, first-1)
	db.Break(err)
	return false, fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
}

// isFenced reports whether the row of the partition has refused the writer's token or number.
func isFenced(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23502" && (pg.ColumnName == "last" || pg.ColumnName == "token")
}

// isRefusal reports whether the database has said that it did not store anything. Where it ends the connection
// nobody knows.
func isRefusal(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Severity == "ERROR"
}

// show lets whoever begins from now on see the first staged commits.
func (db *DB) show(many int) {
	db.mu.Lock()
	shown := db.staged[:many]
	for _, c := range shown {
		db.active, db.last = c.active, c.n
		db.bytes += c.bytes
		db.frames++
	}
	db.staged = append([]*stagedCommit(nil), db.staged[many:]...)
	isFull := db.bytes >= db.o.Bytes
	db.mu.Unlock()
	for _, c := range shown {
		close(c.done)
	}
	tell(db.dirty)
	if isFull {
		tell(db.full)
	}
}

// giveUp tells all that is staged that it is not stored.
func (db *DB) giveUp(err error) {
	db.mu.Lock()
	given := db.staged
	db.staged = nil
	db.generation++
	db.mu.Unlock()
	for _, c := range given {
		c.err = err
		close(c.done)
	}
}

// patient reads outside of a transaction, as the one who alone writes may. It tries again for as
// long as the database does not answer.
type patient struct{ db *DB }

func (p patient) query(ctx context.Context, begin func(), each func(pgx.Rows) error, sql string, args ...any) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := query(ctx, p.db.pool, p.db, begin, each, sql, args...)
		var pg *pgconn.PgError
		if err == nil || ctx.Err() != nil || errors.As(err, &pg) && pg.Severity == "ERROR" {
			return err
		}
		if broken := p.db.Broken(); broken != nil {
			return broken
		}
		select {
		case <-time.After(wait):
		case <-p.db.over:
		case <-ctx.Done():
		}
	}
}

// once reads within the transaction of a connection.
type once struct {
	conn *pgx.Conn
	db   *DB
}

func (o once) query(ctx context.Context, begin func(), each func(pgx.Rows) error, sql string, args ...any) error {
	return query(ctx, o.conn, o.db, begin, each, sql, args...)
}

func query(ctx context.Context, from querier, db *DB, begin func(), each func(pgx.Rows) error, sql string, args ...any) error {
	begin()
	db.roundTrips.Add(1)
	rows, err := from.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
