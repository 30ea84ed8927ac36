package pgkv

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/internal/tables"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// scissors cut one of a DB's connections as it sends a message.
type scissors struct {
	mu    sync.Mutex
	after int  // so many messages; -1: never
	sent  bool // that message is sent, and its answer is lost
}

func (s *scissors) arm(after int, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after, s.sent = after, sent
}

func (s *scissors) configure(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &cutConn{conn, s}, err
	}
}

type cutConn struct {
	net.Conn
	s *scissors
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	now, sent := c.s.after == 0, c.s.sent
	if c.s.after >= 0 {
		c.s.after--
	}
	c.s.mu.Unlock()
	if !now {
		return c.Conn.Write(p)
	}
	if sent {
		_, _ = c.Conn.Write(p)
	}
	_ = c.Conn.Close()
	return 0, io.ErrClosedPipe
}

// model is what the tables should have: entries by table and key, "table/key".
type model map[string]string

func (m model) list(table string) (entries []string) {
	for k, v := range m {
		if t, key, _ := strings.Cut(k, "/"); t == table {
			entries = append(entries, key+"="+v)
		}
	}
	slices.Sort(entries)
	return entries
}

// listed walks through a table both ways.
func listed(tx *Tx, table string) (up, down []string, err error) {
	defer tables.Guard("list", &err)
	c := tx.Table(table).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		up = append(up, string(k)+"="+string(v))
	}
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		down = append(down, string(k)+"="+string(v))
	}
	slices.Reverse(down)
	return up, down, nil
}

var modelTables = []string{"a", "b"}

func TestAnyRunOfCommitsCheckpointsCutConnectionsAndTakeoversGivesWhatTheModelGives(t *testing.T) {
	url := postgrestest.Database(t)
	part := 0
	rapid.Check(t, func(t *rapid.T) {
		part++
		cut := &scissors{after: -1}
		o := Options{Partition: part, Cache: 4 << 10, Portion: 40, After: time.Hour, TakeOver: true, Configure: cut.configure}
		db, err := Open(ctx, url, o)
		require.NoError(t, err)
		reader, err := Open(ctx, url, Options{Partition: part, ReadOnly: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, reader.Close()) }()
		defer func() { require.NoError(t, db.Close()) }()
		m := model{}
		// check compares all tables as a transaction has them.
		check := func(tx *Tx, err error) {
			require.NoError(t, err)
			defer tx.Rollback()
			for _, table := range modelTables {
				up, down, err := listed(tx, table)
				require.NoError(t, err)
				require.Equal(t, m.list(table), up)
				require.Equal(t, m.list(table), down)
			}
		}
		maybeCut := func() bool {
			if !rapid.Bool().Draw(t, "cut") {
				return false
			}
			cut.arm(rapid.IntRange(0, 8).Draw(t, "after"), rapid.Bool().Draw(t, "sent"))
			return true
		}
		key := rapid.IntRange(0, 24)
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				tx, err := db.Begin(ctx, true)
				require.NoError(t, err)
				defer tx.Rollback()
				maybeCut()
				next := maps.Clone(m)
				for i := range rapid.IntRange(1, 6).Draw(t, "operations") {
					table := rapid.SampledFrom(modelTables).Draw(t, "table")
					k := fmt.Sprintf("%02d", key.Draw(t, "key"))
					switch rapid.IntRange(0, 9).Draw(t, "operation") {
					case 0:
						tx.Drop(table)
						for _, e := range next.list(table) {
							delete(next, table+"/"+e[:2])
						}
					case 1, 2, 3:
						tx.Table(table).Delete([]byte(k))
						delete(next, table+"/"+k)
					default:
						v := fmt.Sprintf("%d.%d", tx.Last(), i)
						if _, is := next[table+"/"+k]; is {
							tx.Table(table).Put([]byte(k), []byte(v))
						} else {
							tx.Table(table).PutNew([]byte(k), []byte(v))
						}
						next[table+"/"+k] = v
					}
				}
				require.NoError(t, tx.Commit())
				cut.arm(-1, false)
				m = next
			},
			"get": func(t *rapid.T) {
				tx, err := db.Begin(ctx, true)
				require.NoError(t, err)
				defer tx.Rollback()
				maybeCut()
				table, k := rapid.SampledFrom(modelTables).Draw(t, "table"), fmt.Sprintf("%02d", key.Draw(t, "key"))
				var v []byte
				var is bool
				err = func() (err error) {
					defer tables.Guard("get", &err)
					v, is = tx.Table(table).Get([]byte(k))
					return nil
				}()
				require.NoError(t, err)
				want, wanted := m[table+"/"+k]
				require.Equal(t, []any{want, wanted}, []any{string(v), is})
				cut.arm(-1, false)
			},
			"checkpoint": func(t *rapid.T) {
				if wasCut, err := maybeCut(), db.Checkpoint(ctx); !wasCut {
					require.NoError(t, err)
				}
				cut.arm(-1, false)
			},
			"write and view": func(*rapid.T) {
				check(db.Begin(ctx, true))
				check(db.Begin(ctx, false))
			},
			"follow": func(*rapid.T) { check(reader.Begin(ctx, false)) },
			"take over": func(t *rapid.T) {
				next, err := Open(ctx, url, o)
				require.NoError(t, err)
				require.NoError(t, db.Close())
				db = next
			},
		})
	})
}
