package postgres_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
	"github.com/orrery-go/orrery/store/storetest"
)

// schemas makes names of schemas, so that many stores share a database.
var schemas atomic.Int64

func TestConformance(t *testing.T) {
	for _, row := range []struct {
		name string
		o    postgres.Options
	}{
		{"what is read stands in memory, mostly", postgres.Options{}},
		{"what is read stands in the database, mostly", postgres.Options{CheckpointAfter: time.Millisecond, CacheBytes: 4 << 10}},
	} {
		t.Run(row.name, func(t *testing.T) {
			url := postgrestest.Database(t)
			storetest.Run(t, func(t *testing.T) store.Store {
				o := row.o
				o.Schema = fmt.Sprintf("s%d", schemas.Add(1))
				return opened(t, url, o)
			})
		})
	}
}

// lease is short, and takes some real time.
const lease = 500 * time.Millisecond

func opened(t *testing.T, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, o)
	require.NoError(t, err)
	return s
}

func id(n int) uuid.UUID { return uuid.UUID{15: byte(n)} }

// write commits a record as the n-th batch.
func write(s store.Store, n int) error {
	return s.Update(context.Background(), func(tx store.Tx) error {
		w := store.Write{Kind: "action", ID: id(n), State: []byte(`{"n":1}`), Due: effects.Time(n), Terms: []store.Term{{Name: "all", At: effects.Time(n)}}}
		if err := tx.Put(uint64(n), []store.Write{w}); err != nil {
			return err
		}
		return tx.AppendJournal(uint64(n), 1, []byte(`{}`))
	})
}

// requireBatches holds that a store has the first batches and no other one.
func requireBatches(t *testing.T, s store.Store, n int) {
	t.Helper()
	require.NoError(t, s.View(t.Context(), func(tx store.ReadTx) error {
		seq, err := tx.Seq()
		require.NoError(t, err)
		require.Equal(t, uint64(n), seq)
		for i := 1; i <= n; i++ {
			_, err := tx.Get("action", id(i))
			require.NoError(t, err)
		}
		_, err = tx.Get("action", id(n+1))
		require.ErrorIs(t, err, store.ErrNotFound)
		due, err := tx.Due(nil, nil, 1000, 1000)
		require.NoError(t, err)
		require.Len(t, due, n)
		return nil
	}))
}

func TestWhatWasCommittedIsThereAfterAnotherOpening(t *testing.T) {
	url := postgrestest.Database(t)
	s := opened(t, url, postgres.Options{})
	require.NoError(t, write(s, 1))
	require.NoError(t, s.Checkpoint(t.Context()))
	require.NoError(t, write(s, 2))
	requireBatches(t, s, 2)
	require.NoError(t, s.Close())
	require.ErrorIs(t, write(s, 3), store.ErrClosed)
	s = opened(t, url, postgres.Options{})
	requireBatches(t, s, 2)
	require.NoError(t, write(s, 3))
	requireBatches(t, s, 3)
	require.NoError(t, s.Close())
}

func TestSecondProcessIsToldWhoHasTheStore(t *testing.T) {
	url := postgrestest.Database(t)
	s := opened(t, url, postgres.Options{Owner: "first", Address: "10.0.0.1:8080", Lease: lease})
	_, err := postgres.Open(t.Context(), url, postgres.Options{Lease: 10 * lease})
	require.ErrorIs(t, err, store.ErrClaimed)
	require.ErrorContains(t, err, "by first at 10.0.0.1:8080")
	require.NoError(t, write(s, 1))
	require.NoError(t, s.Close())
}

func TestWhoWaitsGetsTheStoreWhenItIsClosed(t *testing.T) {
	url := postgrestest.Database(t)
	s := opened(t, url, postgres.Options{})
	require.NoError(t, write(s, 1))
	next := make(chan *postgres.Store)
	go func() {
		n, err := postgres.Open(context.Background(), url, postgres.Options{Wait: true})
		assert.NoError(t, err)
		next <- n
	}()
	require.NoError(t, s.Close())
	n := <-next
	requireBatches(t, n, 1)
	require.NoError(t, n.Close())
}

func TestSilentOwnerIsFenced(t *testing.T) {
	for _, row := range []struct {
		name       string
		checkpoint bool
	}{{"its next commit is refused", false}, {"its checkpoint is refused", true}} {
		t.Run(row.name, func(t *testing.T) {
			proxy := newProxy(t)
			url := proxy.database(t)
			// The owner renews so rarely that it is silent for the other one's lease.
			s := opened(t, url, postgres.Options{Lease: time.Hour, CheckpointAfter: time.Hour})
			require.NoError(t, write(s, 1))
			n := opened(t, proxy.direct, postgres.Options{Lease: lease, Wait: true})
			if row.checkpoint {
				require.ErrorIs(t, s.Checkpoint(t.Context()), store.ErrFenced)
			}
			require.ErrorIs(t, write(s, 2), store.ErrFenced)
			<-s.Failed()
			require.ErrorIs(t, s.Failure(), store.ErrFenced)
			requireBatches(t, n, 1)
			require.NoError(t, write(n, 2))
			requireBatches(t, n, 2)
			require.NoError(t, s.Close())
			require.NoError(t, n.Close())
		})
	}
}

func TestLostAnswerIsFoundOut(t *testing.T) {
	for _, row := range []struct {
		name string
		cut  cut
	}{{"the commit took place", answers}, {"the commit did not take place", requests}} {
		t.Run(row.name, func(t *testing.T) {
			proxy := newProxy(t)
			s := opened(t, proxy.database(t), postgres.Options{CheckpointAfter: time.Hour})
			for n := 1; n <= 5; n++ {
				proxy.next.Store(int32(row.cut))
				require.NoError(t, write(s, n))
			}
			assert.GreaterOrEqual(t, proxy.cuts.Load(), int32(5))
			requireBatches(t, s, 5)
			require.NoError(t, s.Close())
		})
	}
}

func TestServerThatIsKilledInterruptsNothing(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{})
	s := opened(t, server.Database(t), postgres.Options{})
	require.NoError(t, write(s, 1))
	server.Kill(t)
	done := make(chan error)
	go func() { done <- write(s, 2) }()
	server.Start(t)
	require.NoError(t, <-done, "who has asked waits until the server is back")
	requireBatches(t, s, 2)
	require.NoError(t, s.Close())
}

func TestDatabaseThatHasLostCommitsIsNotWrittenTo(t *testing.T) {
	proxy := newProxy(t)
	s := opened(t, proxy.database(t), postgres.Options{CheckpointAfter: time.Hour})
	require.NoError(t, write(s, 1))
	require.NoError(t, write(s, 2))
	conn, err := pgx.Connect(t.Context(), proxy.direct)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "DELETE FROM orrery.log WHERE n = 3; UPDATE orrery.partitions SET last = 2") // the first commit makes the store
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	proxy.next.Store(int32(requests))
	require.ErrorIs(t, write(s, 3), postgres.ErrLost)
	require.ErrorIs(t, write(s, 3), postgres.ErrLost)
	require.NoError(t, s.Close())
}

func TestViewIsASnapshot(t *testing.T) {
	s := opened(t, postgrestest.Database(t), postgres.Options{})
	require.NoError(t, write(s, 1))
	require.NoError(t, s.View(t.Context(), func(tx store.ReadTx) error {
		for n := 2; n <= 4; n++ {
			require.NoError(t, write(s, n))
			require.NoError(t, s.Checkpoint(t.Context()))
		}
		seq, err := tx.Seq()
		require.NoError(t, err)
		require.Equal(t, uint64(1), seq)
		due, err := tx.Due(nil, nil, 1000, 1000)
		require.NoError(t, err)
		require.Len(t, due, 1)
		return nil
	}))
	requireBatches(t, s, 4)
	require.NoError(t, s.Close())
}

func TestCommitIsOneRoundTrip(t *testing.T) {
	s := opened(t, postgrestest.Database(t), postgres.Options{CheckpointAfter: time.Hour})
	create := func(n uint64) {
		require.NoError(t, s.Update(t.Context(), func(tx store.Tx) error {
			var refs []effects.Ref
			var writes []store.Write
			for range 256 {
				id, err := uuid.NewV7()
				require.NoError(t, err)
				refs = append(refs, effects.Ref{Kind: "action", ID: id})
				writes = append(writes, store.Write{Kind: "action", ID: id, State: []byte(`{"n":1}`), Due: 1, Terms: []store.Term{{Name: "all", At: 1, Counted: true}}})
			}
			found, err := tx.GetMany(nil, refs)
			require.NoError(t, err)
			require.Zero(t, found[0].Version)
			require.NoError(t, tx.Put(n, writes))
			return tx.AppendJournal(n, 1, []byte(`{}`))
		}))
	}
	create(1)
	require.NoError(t, s.Checkpoint(t.Context()))
	for n := uint64(2); n < 5; n++ {
		before := s.RoundTrips()
		create(n)
		assert.LessOrEqual(t, s.RoundTrips()-before, uint64(3))
	}
	before := s.RoundTrips()
	create(5)
	assert.Equal(t, uint64(1), s.RoundTrips()-before, "ids that grow are known to be new")
	require.NoError(t, s.Close())
}

func TestBadOptionsAreNamed(t *testing.T) {
	for _, row := range []struct {
		o    postgres.Options
		says string
	}{
		{postgres.Options{Schema: `a"; DROP`}, `schema "a\"; DROP": want a name of at most 63`},
		{postgres.Options{Partition: -1}, "partition -1: want a number from 0 on"},
		{postgres.Options{Lease: time.Millisecond}, "lease 1ms: want at least 100ms"},
	} {
		_, err := postgres.Open(t.Context(), "postgres://localhost/x", row.o)
		require.ErrorContains(t, err, row.says)
	}
	_, err := postgres.Open(t.Context(), "postgres://u:secret@localhost:port/x", postgres.Options{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

// cut says what a proxy cuts off of a commit.
type cut int32

const (
	nothing  cut = iota
	requests     // what is asked does not arrive
	answers      // the answer does not
)

// proxy stands between a store and its server. It cuts a connection off where a frame of the log goes through.
type proxy struct {
	listener net.Listener
	server   *postgrestest.Server
	direct   string // the URL without the proxy
	next     atomic.Int32
	cuts     atomic.Int32
}

func newProxy(t *testing.T) *proxy {
	server := postgrestest.Start(t, postgrestest.Options{TCP: true, NoFsync: true})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, server: server}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// database makes one, and gives its URL through the proxy.
func (p *proxy) database(t *testing.T) string {
	p.direct = p.server.Database(t)
	config, err := pgx.ParseConfig(p.direct)
	require.NoError(t, err)
	return postgrestest.TCPURL(p.listener.Addr().String(), config.Database)
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server.Address())
	if err != nil {
		_ = client.Close()
		return
	}
	var mute atomic.Bool
	go func() {
		defer func() { _, _ = server.Close(), client.Close() }()
		b := make([]byte, 64<<10)
		for {
			n, err := client.Read(b)
			if err != nil {
				return
			}
			// A batch of the log is the only thing that has these bytes: the frame's version, packing and checksum vary, its
			// message is longer than those of reads and signs of life.
			if c := cut(p.next.Load()); c != nothing && n > 300 && p.next.CompareAndSwap(int32(c), int32(nothing)) {
				p.cuts.Add(1)
				if c == requests {
					return
				}
				mute.Store(true)
			}
			if _, err := server.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if err != nil || mute.Load() {
			break
		}
		if _, err := client.Write(b[:n]); err != nil {
			break
		}
	}
	_, _ = server.Close(), client.Close()
}
