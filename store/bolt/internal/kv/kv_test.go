package kv_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened is a file with its log in a folder of the test's own.
type opened struct {
	*kv.DB
	path string
}

func options(path string) kv.Options {
	return kv.Options{
		Folder: path + ".log", NoSync: true, After: time.Hour, Map: 64 << 20,
		Past:   kv.Past{Folder: path + ".past", Tables: []string{"past", "past2"}, FileBytes: 300},
		Seal:   func(_ []byte, v any) ([]byte, error) { return json.Marshal(v) },
		Unseal: func(_, raw []byte, v any) error { return json.Unmarshal(raw, v) },
	}
}

func openAt(t require.TestingT, path string, change func(*kv.Options)) *opened {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, Timeout: time.Second, InitialMmapSize: 64 << 20})
	require.NoError(t, err)
	o := options(path)
	if change != nil {
		change(&o)
	}
	db, err := kv.New(b, o)
	if err != nil {
		require.NoError(t, b.Close())
	}
	require.NoError(t, err)
	return &opened{db, path}
}

// crashed is a copy of what stands on the disk while the file is open, opened anew.
func (o *opened) crashed(t require.TestingT, dir string) *opened {
	path := filepath.Join(dir, "crashed.db")
	require.NoError(t, errors.Join(os.RemoveAll(path+".log"), os.RemoveAll(path+".past")))
	release, err := o.Hold(context.Background())
	require.NoError(t, err)
	defer release()
	raw, err := os.ReadFile(o.path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	for _, folder := range []string{".log", ".past"} {
		if _, err := os.Stat(o.path + folder); err == nil {
			require.NoError(t, os.CopyFS(path+folder, os.DirFS(o.path+folder)))
		}
	}
	return openAt(t, path, small)
}

// content is what stands in tables, by name and key.
type content map[string]map[string]string

func (c content) clone() content {
	out := content{}
	for name, table := range c {
		out[name] = maps.Clone(table)
	}
	return out
}

func keysOf(table map[string]string) []string { return slices.Sorted(maps.Keys(table)) }

var tableNames = []string{"a", "b", "base/1", "past", "past2"}

// appendPast appends an entry to one of the tables of the past.
func appendPast(tx *kv.Tx, name, value string, want content) {
	if want[name] == nil {
		want[name] = map[string]string{}
	}
	last := 0
	if keys := keysOf(want[name]); len(keys) > 0 {
		last, _ = strconv.Atoi(keys[len(keys)-1])
	}
	key := fmt.Sprintf("%08d", last+1)
	tx.Table(name).PutNew([]byte(key), []byte(value))
	want[name][key] = value
}

// requireContent holds what a transaction reads, by each way to read it, against a model.
func requireContent(t *rapid.T, tx *kv.Tx, want content) {
	for _, name := range tableNames {
		table, keys := tx.Table(name), keysOf(want[name])
		c := table.Cursor()
		var up, down []string
		for k, v := c.First(); k != nil; k, v = c.Next() {
			up = append(up, string(k))
			require.Equal(t, want[name][string(k)], string(v))
		}
		require.Equal(t, keys, up)
		for k, _ := c.Last(); k != nil; k, _ = c.Prev() {
			down = append(down, string(k))
		}
		slices.Reverse(down)
		require.Equal(t, keys, down)
		at := rapid.StringMatching(`[a-d]{0,3}|0000000[0-9]`).Draw(t, "seek")
		i, found := slices.BinarySearch(keys, at)
		v, ok := table.Get([]byte(at))
		require.Equal(t, found, ok)
		require.Equal(t, want[name][at], string(v))
		requireWalk(t, c, keys, i, at)
		require.Equal(t, len(keys) > 0, table.Exists() && len(keys) > 0)
	}
}

// requireWalk steps to and fro from a key.
func requireWalk(t *rapid.T, c *kv.Cursor, keys []string, i int, at string) {
	k, _ := c.Seek([]byte(at))
	for range 6 {
		if i < 0 || i >= len(keys) {
			require.Nil(t, k)
			return
		}
		require.Equal(t, keys[i], string(k))
		if rapid.Bool().Draw(t, "down") {
			i--
			k, _ = c.Prev()
		} else {
			i++
			k, _ = c.Next()
		}
	}
}

func TestTransactionsAndViewsAreWhatAModelSaysAcrossCheckpointsAndCrashes(t *testing.T) {
	rapid.Check(t, repeat)
}

func repeat(t *rapid.T) {
	dir, err := os.MkdirTemp("", "kv")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	m := &machine{dir: dir, db: openAt(t, filepath.Join(dir, "orrery.db"), small), now: content{}, shown: content{}}
	defer func() {
		for _, v := range m.views { // of a test that failed: Close would wait
			v.tx.Rollback()
		}
		require.NoError(t, m.db.Close())
	}()
	t.Repeat(map[string]func(*rapid.T){
		"commit":                func(t *rapid.T) { m.wait(t, m.write(t, true)) },
		"roll back":             func(t *rapid.T) { m.wait(t, m.write(t, false)) },
		"stage":                 m.stage,
		"wait":                  m.waitForStaged,
		"checkpoint":            func(t *rapid.T) { m.synced(t, m.db.Checkpoint()) },
		"checkpoint that fails": m.fail,
		"settle":                func(t *rapid.T) { m.synced(t, m.db.Settle()) },
		"hold":                  m.hold,
		"let go":                m.letGo,
		"reopen":                m.reopen,
		"crash":                 m.crash,
		"":                      m.look,
	})
	m.letAllGo(t)
}

// small has a checkpoint write many transactions, and half of the values stand in the log alone.
func small(o *kv.Options) { o.Portion, o.Large, o.Segment = 100, 3, 4<<10 }

// fail makes a checkpoint that stops after some of its transactions, or is done all the same.
func (m *machine) fail(t *rapid.T) {
	left := rapid.IntRange(0, 3).Draw(t, "transactions")
	m.db.OnWrite(func() {
		if left--; left < 0 {
			panic("no more")
		}
	})
	_ = m.db.Checkpoint()
	m.synced(t, nil)
	m.db.OnWrite(nil)
}

type machine struct {
	dir     string
	db      *opened
	now     content // as who writes sees it
	shown   content // as others do
	commits int     // made so far, and how many of them are durable
	durable int
	staged  []staged
	views   []view
}

// staged is a commit that nobody has waited for: the how-manyth it is.
type staged struct {
	kv.Staged
	n int
}

// view is a transaction that is held, and what it must see.
type view struct {
	tx   *kv.Tx
	want content
}

func (m *machine) write(t *rapid.T, commit bool) staged {
	tx, err := m.db.Begin(context.Background(), true)
	require.NoError(t, err)
	defer tx.Rollback()
	want := m.now.clone()
	for range rapid.IntRange(0, 30).Draw(t, "operations") {
		change(t, tx, want)
	}
	requireContent(t, tx, want)
	if !commit {
		seen := tx.Seen()
		return staged{seen, m.commits}
	}
	s, err := tx.Stage()
	require.NoError(t, err)
	if m.now = want; s.Wrote() {
		m.commits++
	}
	return staged{s, m.commits}
}

func (m *machine) stage(t *rapid.T) { m.staged = append(m.staged, m.write(t, true)) }

func (m *machine) waitForStaged(t *rapid.T) {
	if len(m.staged) == 0 {
		t.Skip("nothing is staged")
	}
	i := rapid.IntRange(0, len(m.staged)-1).Draw(t, "which")
	m.wait(t, m.staged[i])
	m.staged = slices.Delete(m.staged, i, i+1)
}

// synced holds a step to have gone well that makes durable whatever was staged.
func (m *machine) synced(t *rapid.T, err error) {
	require.NoError(t, err)
	m.shown, m.durable = m.now, m.commits
}

// wait waits for a commit. Its sync makes durable also what was staged later.
func (m *machine) wait(t *rapid.T, s staged) {
	require.NoError(t, s.Wait())
	if s.n > m.durable {
		m.shown, m.durable = m.now, m.commits
	}
}

// deletions is how many times as often as usual keys are deleted, all of a prefix at once.
var deletions int

func change(t *rapid.T, tx *kv.Tx, want content) {
	name := rapid.SampledFrom(tableNames).Draw(t, "table")
	key := rapid.StringMatching(`[a-d]{1,3}`).Draw(t, "key")
	table := tx.Table(name)
	if strings.HasPrefix(name, "past") {
		appendPast(tx, name, strings.Repeat(key, rapid.IntRange(0, 40).Draw(t, "times")), want)
		return
	}
	if rapid.IntRange(0, 9).Draw(t, "many") < deletions {
		for _, k := range keysOf(want[name]) {
			if strings.HasPrefix(k, key[:1]) {
				table.Delete([]byte(k))
				delete(want[name], k)
			}
		}
		return
	}
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		tx.Drop(name)
		delete(want, name)
	case 1, 2, 3:
		table.Delete([]byte(key))
		delete(want[name], key)
	default:
		value := rapid.StringMatching(`[x-z]{0,5}`).Draw(t, "value")
		if want[name] == nil {
			want[name] = map[string]string{}
		}
		if _, there := want[name][key]; there || rapid.Bool().Draw(t, "plain") {
			table.Put([]byte(key), []byte(value))
		} else {
			table.PutNew([]byte(key), []byte(value))
		}
		want[name][key] = value
	}
}

func (m *machine) hold(t *rapid.T) {
	if len(m.views) > 3 {
		t.Skip("enough")
	}
	tx, err := m.db.Begin(context.Background(), false)
	require.NoError(t, err)
	m.views = append(m.views, view{tx, m.shown.clone()})
}

func (m *machine) letGo(t *rapid.T) {
	if len(m.views) == 0 {
		t.Skip("none is held")
	}
	v := m.views[0]
	m.views = m.views[1:]
	defer v.tx.Rollback()
	requireContent(t, v.tx, v.want)
}

func (m *machine) letAllGo(t *rapid.T) {
	for len(m.views) > 0 {
		m.letGo(t)
	}
}

func (m *machine) reopen(t *rapid.T) {
	m.letAllGo(t)
	require.NoError(t, m.db.Close())
	m.shown, m.durable, m.staged = m.now, m.commits, nil
	left, err := os.ReadDir(m.dir)
	require.NoError(t, err)
	for _, e := range left {
		require.False(t, strings.HasSuffix(e.Name(), ".log"), "a file that was closed is whole alone")
	}
	m.db = openAt(t, m.db.path, small)
}

func (m *machine) crash(t *rapid.T) {
	again := m.db.crashed(t, m.dir)
	defer func() { require.NoError(t, again.Close()) }()
	tx, err := again.Begin(context.Background(), false)
	require.NoError(t, err)
	defer tx.Rollback()
	requireContent(t, tx, m.now)
}

func (m *machine) look(t *rapid.T) {
	tx, err := m.db.Begin(context.Background(), false)
	require.NoError(t, err)
	defer tx.Rollback() // also of a test that fails: Close would wait
	requireContent(t, tx, m.shown)
	for _, v := range m.views {
		requireContent(t, v.tx, v.want)
	}
}
