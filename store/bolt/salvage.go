package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// SalvageOptions are those of a [Salvage]. The zero value takes what the file and its log have.
type SalvageOptions struct {
	// Backup is a database file from which what is lost is taken as it was then; "": none.
	Backup string
	// Index tells when a record is due, zero: never, and in which lists it stands. Then the due
	// index and the lists are made anew. Nil: they are what can be read of them.
	Index func(kind effects.Kind, id uuid.UUID, state []byte) (due effects.Time, terms []store.Term, err error)
	// Mend makes records fit to one another once all that can be read of them is there: some may be lost, others are
	// as they were in the backup. Nil: they are left as they are.
	Mend func(*Mending) error
	// Now is when records are set aside. Zero: 1970.
	Now effects.Time
}

// MaxLost is how many losses a [Salvaged] names at most.
const MaxLost = 100

// Salvaged tells what a [Salvage] found.
type Salvaged struct {
	Tables []SalvagedTable // in the order of their names; indexes are not among them
	Lost   []string        // what is lost: keys, or places with what is wrong there; at most MaxLost
	Losses uint64          // how many there are
	Log    uint64          // changes that the log had and the file had not
	Since  uint64          // the batch with which the journal begins, as it is lost up to there; zero: none of it is lost
	Mended []string        // records that were changed or removed to fit to others, with why; at most MaxLost
	Mends  uint64          // how many there are
	Anew   uint64          // the batch with which the journal begins anew, as nothing of it can be used; zero: some can
	Why    string          // what Since or Anew comes of; "": neither is so
	Left   []Finding       // what is wrong with the new file nevertheless
}

// SalvagedTable counts the entries of one table.
type SalvagedTable struct {
	Name    string
	Kept    uint64 // that the file or its log had
	Damaged uint64 // whose checksum is wrong: records are set aside
	Backup  uint64 // that were taken from the backup
	Unread  uint64 // parts that cannot be read: how many entries they had nobody knows
}

// Salvage makes a new database file of what can be read of a damaged one, of its log, and
// of a backup for what is lost. No process may have the file open. Nothing of it is changed,
// and nothing that is at to is replaced: that is an error with [os.ErrExist].
//
// Records whose checksum is wrong are set aside. The journal is copied, with the folder beside the file in which it
// stands: from the first epoch on behind which all of it can be read. If a record is lost, or the end of the journal, it begins
// anew: a replay could not explain what is there. The new file and its journal appear as those of [MakeFile].
func Salvage(ctx context.Context, from, to string, o SalvageOptions) (found Salvaged, err error) {
	err = newDatabase(to, func(tmp string) error {
		found, err = salvageTo(ctx, from, tmp, o)
		return err
	})
	if err != nil {
		return found, fmt.Errorf("salvage %s to %s: %w", from, to, err)
	}
	return found, nil
}

func salvageTo(ctx context.Context, from, to string, o SalvageOptions) (found Salvaged, err error) {
	unlock, err := lockDamaged(from)
	if err != nil {
		return found, err
	}
	defer unlock()
	db, err := bbolt.Open(to, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return found, err
	}
	s := &salvager{ctx: ctx, o: o, journal: journalFolder(to), tables: map[string]*SalvagedTable{}, bad: map[string]bool{}}
	s.out.ctx, s.out.to = ctx, db
	if err = errors.Join(s.run(from), db.Sync(), db.Close()); err != nil {
		return s.report(), err
	}
	found = s.report()
	found.Left, err = Check(ctx, to)
	return found, err
}

// lockDamaged keeps other processes from a file that may be too damaged to be opened, which
// then nobody opens.
func lockDamaged(path string) (unlock func(), err error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file but %s", info.Mode().Type())
	}
	db, err := openFile(path, Options{ReadOnly: true, MapSize: -1}, &identity{})
	switch {
	case errors.Is(err, ErrLocked):
		return nil, err
	case err != nil:
		return func() {}, nil
	}
	return func() { _ = closeFile(db) }, nil
}

// salvager is one Salvage.
type salvager struct {
	ctx     context.Context
	o       SalvageOptions
	out     copier
	pages   *pageSalvage
	tables  map[string]*SalvagedTable
	bad     map[string]bool // of keys that were read and are not sound: table, 0, key
	aside   []store.Quarantined
	lost    []string
	losses  uint64
	log     uint64
	state   []byte // of the log, as it is stored
	journal string // the folder of the new file's journal
	past    any    // what the new file says of its archive; nil: it has none
	gone    gone
	mended  []string
	mends   uint64
	since   uint64
	anew    uint64
	err     error // of writing
}

func (s *salvager) run(from string) (err error) {
	defer tables.Guard("write the new file", &err)
	defer func() {
		if s.out.tx != nil {
			err = errors.Join(err, s.out.tx.Rollback())
		}
	}()
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := s.readFile(f); err != nil {
		return err
	}
	if s.o.Backup != "" {
		if err := s.readBackup(); err != nil {
			return fmt.Errorf("the backup: %w", err)
		}
	}
	if err := s.readLog(from); err != nil {
		return err
	}
	if err := s.readPast(from); err != nil {
		return fmt.Errorf("copy the journal: %w", err)
	}
	if err := s.mend(); err != nil {
		return err
	}
	return s.out.commit()
}

func (s *salvager) table(name string) *SalvagedTable {
	t := s.tables[name]
	if t == nil {
		t = &SalvagedTable{Name: name}
		s.tables[name] = t
	}
	return t
}

func (s *salvager) lose(format string, args ...any) {
	if s.losses++; len(s.lost) < MaxLost {
		s.lost = append(s.lost, fmt.Sprintf(format, args...))
	}
}

func (s *salvager) report() Salvaged {
	r := Salvaged{Lost: s.lost, Losses: s.losses, Log: s.log, Mended: s.mended, Mends: s.mends, Since: s.since, Anew: s.anew}
	if r.Since+r.Anew > 0 {
		r.Why = s.gone.why
	}
	for _, t := range s.tables {
		if !isIndex(t.Name) {
			r.Tables = append(r.Tables, *t)
		}
	}
	slices.SortFunc(r.Tables, func(a, b SalvagedTable) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// readFile takes over what can be read of the file.
func (s *salvager) readFile(f *os.File) error {
	metas, err := readMetas(f)
	if err != nil {
		return err
	}
	for i, m := range metas { // the newer one first
		s.pages = newPageSalvage(f, m, s.found)
		if s.pages.tables(m.root) {
			break
		}
		if i == len(metas)-1 {
			return fmt.Errorf("%w: no table can be read: restore a backup", store.ErrCorrupt)
		}
		s.loseHistory(math.MaxUint64, "the list of tables that one of the two meta pages leads to cannot be read")
	}
	s.pages.orphans(func(table string, k, v []byte) bool { return !isIndex(table) && tables.SoundValue(table, k, v) == nil })
	for i := range s.pages.lost {
		l := &s.pages.lost[i]
		if l.table == "" {
			s.lose("the list of tables: %s", l.why)
			s.loseHistory(math.MaxUint64, "the list of tables: %s", l.why)
			continue
		}
		s.table(l.table).Unread++
		if !isIndex(l.table) {
			s.lose("%s: %s: keys from %x to %x", l.table, l.why, l.from, l.to)
		}
		if hasHistory(l.table) {
			s.loseHistory(historyUpTo(l), "%s: %s", l.table, l.why)
		}
	}
	for i := range s.pages.doubt {
		if l := &s.pages.doubt[i]; hasHistory(l.table) {
			s.loseHistory(historyUpTo(l), "%s: an entry is damaged", l.table)
		}
	}
	return s.err
}

// found takes over an entry of the file, if it is sound.
func (s *salvager) found(table string, k, v []byte) (sound bool) {
	stateTable, stateKey := kv.StateKey()
	switch {
	case table == stateTable:
		if bytes.Equal(k, stateKey) {
			s.state = bytes.Clone(v)
		}
		return true
	case s.err != nil, isIndex(table) && s.o.Index != nil, table == tables.NameCounts, table == tables.NameWaiting, table == tables.NameAnswered:
		return true
	}
	if err := tables.SoundValue(table, k, v); err != nil {
		s.damaged(table, k, v, err)
		return false
	}
	s.put(table, k, v)
	s.table(table).Kept++
	return true
}

func (s *salvager) damaged(table string, k, v []byte, err error) {
	s.table(table).Damaged++
	if isIndex(table) {
		return
	}
	s.lose("%s: key %x: %v", table, k, err)
	s.bad[table+"\x00"+string(k)] = true
	if kind, ok := strings.CutPrefix(table, tables.RecordsPrefix); ok {
		s.aside = append(s.aside, store.Quarantined{
			Kind: effects.Kind(kind), ID: uuid.UUID(tables.Fit(bytes.Clone(k), tables.IDLen)), At: s.o.Now, Reason: err.Error(), Raw: bytes.Clone(tables.Legible(v)),
		})
	}
}

func (s *salvager) put(table string, k, v []byte) {
	v = append([]byte{}, v...) // bbolt keeps it until the commit
	if s.err == nil {
		s.err = s.change(table, len(k)+len(v), func(b *bbolt.Bucket) error { return b.Put(k, v) })
	}
}

// change changes a table of the new file.
func (s *salvager) change(table string, size int, do func(*bbolt.Bucket) error) error {
	if s.out.size += size; s.out.size > compactBatch {
		if err := s.out.commit(); err != nil {
			return err
		}
	}
	b, err := s.out.bucket([]byte(table))
	if err != nil {
		return err
	}
	b.FillPercent = fillMixed
	return do(b)
}

// isLost reports whether a key of the file could not be read.
func (s *salvager) isLost(table string, k []byte) bool {
	if s.bad[table+"\x00"+string(k)] {
		return true
	}
	in := func(l span) bool { return l.has(table, k) }
	return slices.ContainsFunc(s.pages.lost, in) || slices.ContainsFunc(s.pages.doubt, in)
}

// readBackup takes what is lost from the backup.
func (s *salvager) readBackup() error {
	b, err := Open(s.o.Backup, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	ktx, err := b.begin(s.ctx, "read", false)
	if err != nil {
		return err
	}
	defer b.open.Done()
	defer ktx.Rollback()
	for _, name := range ktx.Names("") {
		if isIndex(name) {
			continue
		}
		c := ktx.Table(name).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if !s.isLost(name, k) || s.has(name, k) || tables.SoundValue(name, k, v) != nil {
				continue
			}
			s.put(name, k, v)
			s.table(name).Backup++
		}
	}
	return s.err
}

// has reports whether the new file has a key.
func (s *salvager) has(table string, k []byte) (ok bool) {
	s.err = errors.Join(s.err, s.change(table, 0, func(b *bbolt.Bucket) error {
		ok = b.Get(k) != nil
		return nil
	}))
	return ok
}

// readLog carries out what the log has.
func (s *salvager) readLog(from string) error {
	lost, err := kv.SalvageLog(logFolder(from), s.state, kv.Options{Unseal: tables.ParseJSON}, func(_ uint64, inFile bool, table string) kv.Sink {
		return &salvageSink{s: s, table: table, inFile: inFile}
	})
	for _, l := range lost {
		s.lose("%v", l)
		s.loseHistory(math.MaxUint64, "%v", l)
	}
	return errors.Join(err, s.err)
}

// salvageSink takes what a frame of the log says of a table. What the file has already counts only where
// it is lost there.
type salvageSink struct {
	s      *salvager
	table  string
	inFile bool
}

func (w *salvageSink) Put(k, v []byte) error {
	if w.inFile && !w.s.isLost(w.table, k) || w.skips() {
		return nil
	}
	w.s.put(w.table, k, v)
	w.s.log++
	return w.s.err
}

func (w *salvageSink) Delete(k []byte) error {
	if w.inFile && !w.s.isLost(w.table, k) || w.skips() {
		return nil
	}
	w.s.log++
	return w.s.change(w.table, len(k), func(b *bbolt.Bucket) error { return b.Delete(k) })
}

func (w *salvageSink) Drop() error {
	if w.inFile {
		return nil
	}
	return w.s.drop(w.table)
}

// skips reports whether the table is made anew.
func (w *salvageSink) skips() bool {
	return isIndex(w.table) && w.s.o.Index != nil || w.table == tables.NameCounts || w.table == tables.NameWaiting || w.table == tables.NameAnswered
}

func (s *salvager) drop(table string) error {
	if _, err := s.out.bucket([]byte(table)); err != nil {
		return err
	}
	return s.out.tx.DeleteBucket([]byte(table))
}

// readMetas gives the meta pages by which the tables may be found, the one to begin with first:
// the newer one of those that are sound. Of one whose checksum is wrong the root is mostly right, and without
// it a transaction would be lost, of whatever size: it comes first where it seems to be the
// newer one.
func readMetas(f *os.File) (found []metaPage, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var sound []metaPage
	read := func(at int64) []byte {
		head := make([]byte, pageHeader+metaLen)
		n, _ := f.ReadAt(head, at)
		return head[:n]
	}
	size := int64(os.Getpagesize()) // as bbolt makes them, unless one says otherwise
	offsets := []int64{0}
	for at := int64(minPage); at <= maxPage; at *= 2 {
		offsets = append(offsets, at)
	}
	for _, at := range offsets {
		if m, err := parseMetaPage(read(at), at); err == nil {
			sound = append(sound, m)
			size = m.pageSize
		}
	}
	slices.SortFunc(sound, func(a, b metaPage) int { return cmp.Compare(b.txid, a.txid) })
	found = sound
	for _, at := range []int64{0, size} {
		m, ok := unsoundMeta(read(at), size, info.Size())
		switch {
		case !ok || slices.ContainsFunc(sound, func(s metaPage) bool { return s.root == m.root }):
		case len(sound) == 1 && m.txid == sound[0].txid+1:
			found = append([]metaPage{m}, found...)
		default:
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: neither meta page can be read: restore a backup", store.ErrCorrupt)
	}
	return found, nil
}

// unsoundMeta takes from a meta page what it says, right or not.
func unsoundMeta(page []byte, pageSize, fileSize int64) (m metaPage, ok bool) {
	if len(page) < pageHeader+metaLen {
		return m, false
	}
	b := page[pageHeader:]
	m = metaPage{
		pageSize: pageSize, root: binary.NativeEndian.Uint64(b[16:]), freelist: binary.NativeEndian.Uint64(b[32:]),
		pages: uint64(fileSize / pageSize), txid: binary.NativeEndian.Uint64(b[48:]),
	}
	return m, m.root >= 2 && m.root < m.pages
}

// isIndex reports whether a table can be made anew from others.
func isIndex(table string) bool {
	switch table {
	case tables.NameDue, tables.NameCounts, tables.NameWaiting, tables.NameAnswered:
		return true
	}
	return strings.HasPrefix(table, tables.ListsPrefix)
}
