//go:build unix

package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// roundTrip is how long answers of the database take while a daemon is to be frozen within a transaction: for so long the server
// waits for the next statement of one. It is well below what the server lets a session wait within a transaction, half a lease.
const roundTrip = 150 * time.Millisecond

// locked is a session of a daemon that has a partition's row locked, and waits for its daemon.
type locked struct {
	daemon  string
	pid     int
	xid     uint32 // of the transaction
	part    int
	token   uint64 // as others see it
	idleFor time.Duration
}

// lockedRows are the rows of partitions that an open transaction has changed, whose session waits for its daemon.
const lockedRows = `SELECT a.application_name, a.pid, a.backend_xid::text::bigint, p.part, p.token, extract(epoch FROM clock_timestamp() - a.state_change)::float8
	FROM pg_stat_activity a JOIN orrery.partitions p ON p.xmax = a.backend_xid
	WHERE a.datname = current_database() AND a.state = 'idle in transaction' ORDER BY a.pid`

// look gives the sessions that have a row locked.
func look(ctx context.Context, conn *pgx.Conn) ([]locked, error) {
	rows, err := conn.Query(ctx, lockedRows)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l locked, err error) {
		var idle float64
		var xid int64
		err = row.Scan(&l.daemon, &l.pid, &xid, &l.part, &l.token, &idle)
		l.xid, l.idleFor = uint32(xid), time.Duration(idle*float64(time.Second))
		return l, err
	})
}

// beginInTransaction freezes a daemon while it has a partition's row locked, waits until another daemon owns that partition, and
// gives what lets the frozen one go on.
func (c *cluster) beginInTransaction(t *testing.T) (heal func(), m *member) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.server.URL(c.database))
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(context.Background())) }()
	var l locked
	tries := 0
	normal := c.slowAnswers(t)
	began := time.Now()
	err = poll(patience, func() (err error) {
		if m, l, err = c.freezeInTransaction(t.Context(), conn); m != nil {
			tries++
		}
		return err
	})
	normal()
	require.NoError(t, err, "no daemon could be frozen within a transaction, of %d that were frozen", tries)
	caught := time.Now()
	t.Logf("%s: is frozen within a transaction, at try %d after %s, with the row of partition %d locked for %s",
		m.name, tries, caught.Sub(began).Round(time.Millisecond), l.part, l.idleFor.Round(time.Millisecond))
	if assert.NoError(t, poll(patience, func() error { return c.takenOver(t.Context(), conn, m, l) }), "nobody takes partition %d over", l.part) {
		t.Logf("  which is taken over %s later", time.Since(caught).Round(time.Millisecond))
	}
	return func() { m.signal(syscall.SIGCONT) }, m
}

// slowAnswers has each answer of the database take a while, until what it gives is called.
func (c *cluster) slowAnswers(t *testing.T) (end func()) {
	t.Helper()
	var ends []func()
	for _, m := range c.members[:daemons] {
		ends = append(ends, toxic(t, m.toDatabase, "downstream", "latency", fmt.Sprintf(`{"latency": %d}`, roundTrip.Milliseconds())))
	}
	return func() {
		for _, one := range ends {
			one()
		}
	}
}

// freezeInTransaction freezes a daemon of which a session has a row locked, if there is one; it lets it go on, with errLater, if what it had on its way
// has ended the transaction.
func (c *cluster) freezeInTransaction(ctx context.Context, conn *pgx.Conn) (m *member, l locked, err error) {
	all, err := look(ctx, conn)
	if err != nil || len(all) == 0 {
		return nil, l, errors.Join(err, errLater)
	}
	l = all[0]
	at := slices.IndexFunc(c.members, func(m *member) bool { return m.name == l.daemon })
	if at < 0 || c.members[at].cmd == nil {
		return nil, l, fmt.Errorf("%q has a row locked: %w", l.daemon, errLater)
	}
	m = c.members[at]
	m.signal(syscall.SIGSTOP)
	wait(roundTrip) // the answer has come to it, and what it had sent has come to the server
	all, err = look(ctx, conn)
	if at = slices.IndexFunc(all, func(is locked) bool { return is.pid == l.pid && is.xid == l.xid }); at >= 0 && err == nil {
		return m, all[at], nil
	}
	m.signal(syscall.SIGCONT)
	return m, l, errors.Join(err, errLater)
}

// takenOver says whether a daemon other than that one owns the partition whose row it had locked.
func (c *cluster) takenOver(ctx context.Context, conn *pgx.Conn, m *member, l locked) error {
	var owner string
	var token uint64
	if err := conn.QueryRow(ctx, `SELECT owner, token FROM orrery.partitions WHERE part = $1`, l.part).Scan(&owner, &token); err != nil {
		return err
	}
	if owner == "" || owner == m.name || token <= l.token {
		return fmt.Errorf("%q owns it, with token %d: %w", owner, token, errLater)
	}
	return nil
}
