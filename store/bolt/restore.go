package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
	"github.com/orrery-go/orrery/store/internal/tables"
	"github.com/orrery-go/orrery/store/stream"
)

// Errors of a [Restore] that callers decide on.
var (
	// ErrBefore: the file that is restored from is beyond what is asked for, and [RestoreOptions.Undo] is nil.
	ErrBefore = errors.New("it is from before this copy was made: undo what came later, or take an older backup")
	// ErrNoRedo: what was kept of the log does not reach what is asked for.
	ErrNoRedo = errors.New("the redo that was kept does not reach it")
)

// RestoreOptions say what a [Restore] is to make. The zero value is the file as it is.
type RestoreOptions struct {
	// Batch is the last batch to be carried out; zero: none by number.
	Batch uint64
	// At is the clock reading of the last one: what was decided later is not carried out; zero: none by
	// time. Batch and At exclude each other.
	At effects.Time
	// Redo are the folders with what was kept of the log (Options.Redo), or with the log of a file that
	// cannot be opened. Without any it is the one beside the file, if it is there.
	Redo []string
	// Undo gives what a store had after an earlier batch: it serves where the file is beyond what is asked
	// for, and gets Batch and At. Nil: that is [ErrBefore]. See [github.com/orrery-go/orrery/shell/rewind].
	Undo func(from *Store, batch uint64, at effects.Time) store.Exporter
	// DryRun makes no file.
	DryRun bool
}

// Restored tells what a [Restore] found.
type Restored struct {
	From    Place  // what the file had
	To      Place  // what the new file has
	Commits uint64 // that were carried out
	Undone  uint64 // batches that were undone
	Copied  Copied // of the new file, if batches were undone
}

// Place is a batch and its clock reading; the zero Place comes before all batches.
type Place struct {
	Batch uint64
	At    effects.Time // zero: it is not known, as the journal begins behind it
}

func (p Place) String() string {
	if p.At.IsZero() {
		return fmt.Sprintf("batch %d", p.Batch)
	}
	return fmt.Sprintf("batch %d of %s", p.Batch, p.At)
}

// Restore makes a new database file of a backup, also of a stream that was kept, or of a file that nobody has open, which is
// not changed. With a Batch or a time it carries out what was kept of the log behind the
// backup, up to there, every commit once more as it was: records, journal, logs of runs and
// webhooks. So the new file has all that the old one had then; what is under way in it is what was
// under way then, as after a crash. If the file is beyond what is asked for, [RestoreOptions.Undo] says what it had.
//
// The new file appears under its name only when it is whole and on the disk; one that is already
// there stays, and the error wraps [os.ErrExist]. It begins a log of its own, and what is kept of that
// is told from what the old file went on to write. [ErrBefore] and [ErrNoRedo] say that it
// cannot be made; [wal.ErrFork], that two copies of the database went on from one place.
func Restore(ctx context.Context, from, to string, o RestoreOptions) (r Restored, err error) {
	fail := func(err error) (Restored, error) {
		return r, fmt.Errorf("restore %s to %s: %w", from, to, err)
	}
	if o.Batch != 0 && !o.At.IsZero() {
		return fail(errors.New("give a batch or a time, not both"))
	}
	file, remove, err := fileOfStream(ctx, from, to)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := open(file, Options{ReadOnly: true})
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.path = from // which names what was kept of the log
	v := restorer{ctx: ctx, from: s, o: o}
	if err := v.begin(); err != nil {
		return fail(err)
	}
	switch {
	case v.behind():
		err = v.undo(to)
	case o.DryRun:
		err = v.follow(nil)
	default:
		err = newDatabase(to, v.write)
	}
	if r = v.found; err != nil {
		return fail(err)
	}
	return r, nil
}

// restorer is one Restore.
type restorer struct {
	ctx   context.Context
	from  *Store
	o     RestoreOptions
	at    kv.Position
	found Restored
}

// begin reads where the file stands.
func (v *restorer) begin() error {
	tx, err := v.from.begin(v.ctx, "restore", false)
	if err != nil {
		return err
	}
	defer v.from.open.Done()
	defer tx.Rollback()
	v.at = tx.Position()
	t := tables.NewReadTx(v.ctx, backing{tx})
	if v.found.From, err = lastPlace(t); err != nil {
		return err
	}
	v.found.To = v.found.From
	if v.behind() && v.o.Undo == nil {
		return fmt.Errorf("%w: it has %s", ErrBefore, v.found.From)
	}
	return nil
}

// behind reports whether the file is beyond what is asked for.
func (v *restorer) behind() bool {
	return v.o.Batch != 0 && v.o.Batch < v.found.From.Batch || !v.o.At.IsZero() && v.o.At < v.found.From.At
}

// undo makes the new file of what the store had after an earlier batch. A dry run reads all that it takes.
func (v *restorer) undo(to string) (err error) {
	x := v.o.Undo(v.from, v.o.Batch, v.o.At)
	if c := &v.found.Copied; v.o.DryRun {
		var sum stream.Summary
		sum, err = stream.Write(v.ctx, io.Discard, x, stream.Options{})
		c.Seq, c.Omitted, c.Left = sum.Head.Seq, sum.Omitted, sum.Left
	} else {
		*c, err = makeFile(v.ctx, to, x)
	}
	if err != nil {
		return err
	}
	v.found.Undone = v.found.From.Batch - v.found.Copied.Seq
	return v.from.View(v.ctx, func(tx store.ReadTx) (err error) {
		v.found.To, err = placeOf(tx.(*tables.ReadTx), v.found.Copied.Seq)
		return err
	})
}

// lastPlace gives the last batch.
func lastPlace(t *tables.ReadTx) (p Place, err error) {
	seq, err := t.Seq()
	if err != nil {
		return p, err
	}
	return placeOf(t, seq)
}

func placeOf(t *tables.ReadTx, seq uint64) (p Place, err error) {
	p.Batch = seq
	p.At, _, err = t.BatchAt(seq)
	return p, err
}

// write makes the new file.
func (v *restorer) write(path string) (err error) {
	if err := v.from.copyCompact(v.ctx, path, false); err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return err
	}
	if err := errors.Join(v.follow(db), db.Sync(), db.Close()); err != nil {
		return err
	}
	s, err := open(path, Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("what came of it is no whole database: %w", err)
	}
	return s.Close()
}

// follow carries out what was kept of the log; nil: it only looks how far that goes.
func (v *restorer) follow(db *bbolt.DB) (err error) {
	defer guard("write the new file", &err)
	if v.reached() && v.o.At.IsZero() && len(v.o.Redo) == 0 {
		return nil
	}
	if v.at == (kv.Position{}) && v.found.From.Batch > 0 {
		return fmt.Errorf("%w: %s does not say where in the log it stands, as an earlier build made it: it can be restored as it is", ErrNoRedo, v.from.path)
	}
	pieces, bad, err := v.pieces()
	if err != nil {
		return err
	}
	redo := kv.NewRedo(db, v.at)
	beyond := false
	err = redo.Follow(pieces, func(f *kv.Frame) (bool, error) {
		if v.ctx.Err() != nil {
			return false, context.Cause(v.ctx)
		}
		to, err := v.after(f)
		if err != nil {
			return false, err
		}
		if beyond = v.isBeyond(to); !beyond {
			v.found.To = to
			v.found.Commits++
		}
		return beyond, nil
	})
	isEnd := errors.Is(err, wal.ErrMissing) || errors.Is(err, wal.ErrDamaged) || errors.Is(err, wal.ErrFork)
	switch {
	case err == nil || isEnd && v.reached():
	case v.ctx.Err() != nil:
		return err
	case isEnd || errors.Is(err, wal.ErrForeign):
		return fmt.Errorf("%w: it goes as far as %s: %w", ErrNoRedo, v.found.To, errors.Join(append(bad, err)...))
	default: // such as a full disk, with which the last batch may have been met too
		return err
	}
	if db == nil {
		return nil
	}
	if err := redo.Flush(); err != nil {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		name, key := kv.StateKey()
		b, err := tx.CreateBucketIfNotExists([]byte(name))
		if err != nil {
			return err
		}
		if err := putFormat(tx); err != nil { // an older file has values of this one now
			return err
		}
		return putSealed(b, key, redo.Position().State())
	})
}

// reached reports whether the batch that is asked for was carried out, or none is asked for.
// Nobody knows of a time whether all of before was.
func (v *restorer) reached() bool {
	return v.o.At.IsZero() && (v.o.Batch == 0 || v.found.To.Batch == v.o.Batch)
}

// isBeyond reports whether a place lies behind what is asked for.
func (v *restorer) isBeyond(p Place) bool {
	if !v.o.At.IsZero() {
		return p.At > v.o.At
	}
	return p.Batch > v.o.Batch
}

// after gives the last batch once a frame is carried out.
func (v *restorer) after(f *kv.Frame) (Place, error) {
	to := v.found.To
	err := f.Each(tables.NameJournal, func(key, value []byte) (err error) {
		if len(key) != 8 {
			return fmt.Errorf("%w: journal key %x has %d bytes, not 8", store.ErrCorrupt, key, len(key))
		}
		batch := binary.BigEndian.Uint64(key)
		if batch != to.Batch+1 {
			return fmt.Errorf("%w: behind %s comes batch %d", wal.ErrForeign, to, batch)
		}
		to.Batch = batch
		to.At, err = tables.EntryAt(key, value)
		return err
	})
	return to, err
}

// pieces reads what there is in the folders.
func (v *restorer) pieces() (pieces []wal.Piece, bad []error, err error) {
	folders := v.o.Redo
	if len(folders) == 0 {
		folders = []string{redoFolder(v.from.path)}
	}
	for _, folder := range folders {
		some, ill, err := wal.Kept(folder, nil)
		if errors.Is(err, fs.ErrNotExist) && len(v.o.Redo) == 0 {
			return nil, nil, fmt.Errorf("%w: there is no folder %s: name the one with what was kept of the log", ErrNoRedo, folder)
		}
		if err != nil {
			return nil, nil, err
		}
		pieces, bad = append(pieces, some...), append(bad, ill...)
	}
	slices.SortStableFunc(pieces, wal.ComparePieces)
	return pieces, bad, nil
}
