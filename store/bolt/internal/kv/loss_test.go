package kv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// TestALossOfPowerTakesNoCommitThatWasAcknowledged loses the power after any operation on
// the log, and within any transaction of the file; opens what may be left, goes on, and
// loses that again.
func TestALossOfPowerTakesNoCommitThatWasAcknowledged(t *testing.T) {
	seed := seedtest.Seed(t)
	l := &losses{t: t, dir: t.TempDir()}
	for round := range uint64(rounds) {
		l.r = rand.New(rand.NewPCG(seed, round))
		d := disktest.New()
		require.NoError(t, d.Mkdir("/shipped", 0o700))
		require.NoError(t, d.SyncDir("/"))
		l.run(d, nil, content{}, 0)
	}
	t.Log(l.images, "images")
	require.Greater(t, l.images, 50*rounds)
}

type losses struct {
	t      *testing.T
	dir    string
	r      *rand.Rand
	images int
	files  int
}

// rarely is, at each depth, one of how many moments is followed by a loss; steps are how
// many things are done there.
var (
	rarely = []int{2, 12, 40}
	steps  = []int{24, 4, 3, 2}
)

// life is one opening of a file and its log.
type life struct {
	*losses
	depth   int
	ship    string // where redo is shipped to; "": it stays
	disk    *disktest.Disk
	path    string
	durable []byte // what the file has for certain
	acked   content
	frames  uint64    // as many were committed
	maybe   []content // of the commits under way, in order
}

// run opens what a loss has left, which must hold want, or also what else it may hold.
func (l *losses) run(d *disktest.Disk, file []byte, want content, depth int, or ...content) {
	l.files++
	v := &life{losses: l, depth: depth, ship: []string{"", "/shipped"}[l.r.IntN(2)], disk: d, durable: file, path: filepath.Join(l.dir, fmt.Sprintf("%d.db", l.files))}
	if file != nil {
		require.NoError(l.t, os.WriteFile(v.path, file, 0o600))
	}
	defer func() { require.NoError(l.t, os.Remove(v.path)) }()
	v.acked = want // while it opens
	d.After = func(op disktest.Op) {
		if op.Changes() {
			v.lose(or...)
		}
	}
	db := v.open()
	v.chained(db)
	v.acked = v.found(db, append(or, want))
	or = nil
	for range steps[depth] {
		v.step(db)
	}
	v.frames = db.Last()
	require.NoError(l.t, db.Close())
	v.chained(nil)
}

// chained follows what was kept of the logs, from the first frame on: without a hole, it comes as far
// as the log that is open.
func (v *life) chained(db *kv.DB) {
	if v.depth > 0 && v.r.IntN(6) > 0 { // it takes its time
		return
	}
	var pieces []wal.Piece
	for _, folder := range []string{"/redo", "/shipped", "/log"} {
		some, bad, err := wal.Kept(folder, v.disk)
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(v.t, err)
		}
		require.Empty(v.t, bad)
		pieces = append(pieces, some...)
	}
	slices.SortFunc(pieces, wal.ComparePieces)
	last := uint64(0)
	err := wal.Follow(pieces, v.disk, [16]byte{}, 0, 0, func(f wal.KeptFrame) error {
		last = f.Number
		return nil
	})
	require.ErrorIs(v.t, err, wal.ErrMissing)
	require.ErrorContains(v.t, err, fmt.Sprintf("no frame behind %d was kept", last))
	if db == nil {
		require.Equal(v.t, v.frames, last)
		return
	}
	tx, err := db.Begin(context.Background(), false)
	require.NoError(v.t, err)
	require.Equal(v.t, tx.Last(), last)
	tx.Rollback()
}

func (v *life) open() *kv.DB {
	b, err := bbolt.Open(v.path, 0o600, &bbolt.Options{NoSync: true, Timeout: time.Second, InitialMmapSize: 1 << 20, PageSize: 4096})
	require.NoError(v.t, err)
	o := options("/")
	o.Map = 1 << 20
	o.Folder, o.Past.Folder = "/log", "/past"
	o.Past.Floor = floor
	o.Keep = kv.Keep{Folder: "/redo", Ship: v.ship}
	o.FS, o.NoSync, o.Segment, o.Portion, o.Large = v.disk, false, 16<<10, 2<<10, 100
	db, err := kv.New(b, o)
	require.NoError(v.t, err)
	db.Alone()
	if v.durable == nil {
		v.durable = v.read()
	}
	db.OnWrite(v.wrote)
	return db
}

func (v *life) read() []byte {
	raw, err := os.ReadFile(v.path)
	require.NoError(v.t, err)
	return raw
}

// found holds what was opened against all that it may be.
func (v *life) found(db *kv.DB, any []content) content {
	tx, err := db.Begin(context.Background(), false)
	require.NoError(v.t, err)
	defer tx.Rollback()
	got := content{}
	for _, name := range tx.Names("") {
		c := tx.Table(name).Cursor()
		for k, value := c.First(); k != nil; k, value = c.Next() {
			if got[name] == nil {
				got[name] = map[string]string{}
			}
			got[name][string(k)] = string(value)
		}
	}
	above(got)
	for _, want := range any {
		if above(want); fmt.Sprint(want) == fmt.Sprint(got) { // maps are printed in order
			return got
		}
	}
	require.Fail(v.t, "neither what was acknowledged nor what was being committed", "found %v\nof %v", got, any)
	return nil
}

// floor gives the number below which the past may go.
// floor is what the table says; it is to go on, one day, to each tenth key of the past.
func floor(tx *kv.Tx) (floor, next uint64, err error) {
	if k, _ := tx.Table("past").WarmCursor().Last(); k != nil {
		next = binary.BigEndian.Uint64(append(slices.Clone(k[:7]), '0'))
	}
	v, _ := tx.Table("floor").Get([]byte("at"))
	if v == nil {
		return 0, next, nil
	}
	return binary.BigEndian.Uint64(v), next, nil
}

// above takes out what may be there and may not: the past below the floor.
func above(c content) {
	for _, name := range []string{"past", "past2"} {
		for key := range c[name] {
			if key < c["floor"]["at"] {
				delete(c[name], key)
			}
		}
	}
}

func (v *life) step(db *kv.DB) {
	switch v.r.IntN(9) {
	case 8:
		require.NoError(v.t, db.Tidy())
	case 0:
		require.NoError(v.t, db.Checkpoint())
	case 1:
		if v.r.IntN(4) == 0 {
			require.NoError(v.t, db.Settle())
		}
	default:
		v.commit(db)
	}
}

// commit stages one commit, or some of which the later ones rest on the earlier, and waits
// for them; a checkpoint may come first.
func (v *life) commit(db *kv.DB) {
	var staged []kv.Staged
	for range 1 + max(0, v.r.IntN(6)-2) {
		staged = append(staged, v.stage(db))
	}
	if v.r.IntN(8) == 0 {
		require.NoError(v.t, db.Checkpoint())
	}
	all := v.maybe
	for i, s := range staged {
		require.NoError(v.t, s.Wait())
		v.acked, v.maybe = all[i], all[i+1:]
	}
}

func (v *life) stage(db *kv.DB) kv.Staged {
	tx, err := db.Begin(context.Background(), true)
	require.NoError(v.t, err)
	next := v.acked.clone()
	if len(v.maybe) > 0 {
		next = v.maybe[len(v.maybe)-1].clone()
	}
	if v.r.IntN(8) == 0 {
		name := tableNames[v.r.IntN(2)]
		tx.Drop(name)
		delete(next, name)
	}
	for range v.r.IntN(4) {
		appendPast(tx, []string{"past", "past2"}[v.r.IntN(2)], strings.Repeat("x", v.r.IntN(500)), next)
	}
	if a, b := keysOf(next["past"]), keysOf(next["past2"]); v.r.IntN(6) == 0 && len(a) > 0 && len(b) > 0 {
		at := min(a[len(a)-1], b[len(b)-1]) // which stays
		tx.Table("floor").Put([]byte("at"), []byte(at))
		next["floor"] = map[string]string{"at": at}
	}
	for range 1 + v.r.IntN(12) {
		v.change(tx, next)
	}
	v.maybe = append(slices.Clip(v.maybe), next)
	staged, err := tx.Stage()
	require.NoError(v.t, err)
	return staged
}

func (v *life) change(tx *kv.Tx, next content) {
	name, key := tableNames[v.r.IntN(2)], fmt.Sprintf("%03d", v.r.IntN(60))
	if _, there := next[name][key]; there && v.r.IntN(2) == 0 {
		tx.Table(name).Delete([]byte(key))
		if delete(next[name], key); len(next[name]) == 0 {
			delete(next, name)
		}
		return
	}
	value := fmt.Sprintf("%0*d", 1+v.r.IntN(300), v.r.IntN(10))
	if next[name] == nil {
		next[name] = map[string]string{}
	}
	if _, there := next[name][key]; there {
		tx.Table(name).Put([]byte(key), []byte(value))
	} else {
		tx.Table(name).PutNew([]byte(key), []byte(value))
	}
	next[name][key] = value
}

// lose loses the power now, sometimes.
func (v *life) lose(or ...content) {
	if v.depth == len(rarely) || v.r.IntN(rarely[v.depth]) > 0 {
		return
	}
	v.losses.lost(v, v.disk, v.durable, or...)
}

func (l *losses) lost(v *life, d *disktest.Disk, file []byte, or ...content) {
	l.images++
	or = append(slices.Clone(or), v.maybe...)
	left := d.Lose(l.r.IntN)
	if l.r.IntN(6) == 0 {
		left = d.Kill()
	}
	l.run(left, file, v.acked, v.depth+1, or...)
}

// wrote is called when bbolt has written a transaction: it lost the power within, sometimes.
func (v *life) wrote() {
	before, now := v.durable, v.read()
	if v.depth < len(rarely) && v.r.IntN(rarely[v.depth]) == 0 {
		v.losses.lost(v, v.disk, v.torn(before, now))
	}
	v.durable = now
	v.lose()
}

// torn is what may be left of a transaction of bbolt, which writes its pages, syncs, writes
// one of the two meta pages, and syncs again.
func (v *life) torn(before, now []byte) []byte {
	const page = 4096
	out := slices.Clone(now)
	old := func(p int) []byte {
		if (p+1)*page <= len(before) {
			return before[p*page : (p+1)*page]
		}
		return make([]byte, page)
	}
	meta := v.r.IntN(2) == 0 // it has come as far as the meta page
	for p := range len(now) / page {
		part := out[p*page : (p+1)*page]
		switch {
		case p < 2 && meta && v.r.IntN(2) == 0: // torn: bbolt's own checksum tells
			copy(part, old(p)[:v.r.IntN(page)])
		case p < 2 && !meta, p >= 2 && !meta && v.r.IntN(2) == 0:
			copy(part, old(p))
		case p >= 2 && !meta && v.r.IntN(4) == 0:
			cut := 512 * v.r.IntN(8)
			copy(part[cut:], old(p)[cut:])
		}
	}
	if len(before) > 0 && !slices.ContainsFunc([]int{0, 1}, func(p int) bool { return whole(out[p*page : (p+1)*page]) }) {
		copy(out[:page], old(0)) // both at once are not written
		copy(out[page:2*page], old(1))
	}
	return out
}

// whole reports whether a meta page is one.
func whole(p []byte) bool { return binary.NativeEndian.Uint32(p[16:]) == 0xED0CDAED }
