package kv

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/wal"
	"github.com/orrery-go/orrery/store/internal/names"
)

// redoBytes is how many bytes of frames are carried out in one transaction of the file.
const redoBytes = 32 << 20

// Redo carries out frames that were kept, in a file that nobody else has open and that
// was copied at a position. What is not written at the end is not there.
type Redo struct {
	db      *bbolt.DB
	at      Position
	numbers names.Numbers
	overlay *writable
	bytes   int
}

// NewRedo begins behind a position; without a file it only looks.
func NewRedo(db *bbolt.DB, at Position) *Redo {
	return &Redo{db: db, at: at, overlay: (&overlay{}).writable()}
}

// Follow carries out the frames that pieces have behind the position, until stop says of one,
// before it is carried out, that it is beyond. Then it returns nil; else the error says why there
// is no more, as [wal.Follow] does.
func (r *Redo) Follow(pieces []wal.Piece, stop func(f *Frame) (bool, error)) error {
	var id [16]byte
	if n, err := hex.Decode(id[:], []byte(r.at.Log)); r.at.Log != "" && (err != nil || n != len(id)) {
		return fmt.Errorf("the ID of the log is %q, no 32 hexadecimal digits", r.at.Log)
	}
	return wal.Follow(pieces, nil, id, r.at.Frame, r.at.Sum, func(f wal.KeptFrame) error {
		beyond, err := stop(&Frame{payload: f.Payload})
		switch {
		case err != nil:
			return fmt.Errorf("frame %d: %w", f.Number, err)
		case beyond:
			return wal.ErrStop
		}
		r.at = Position{Log: hex.EncodeToString(f.Log[:]), Frame: f.Number, Sum: f.Sum}
		if r.db == nil {
			return nil
		}
		if err := eachOp(bytes.Clone(f.Payload), new(int), func(table string) Sink { return again{r.overlay.ownLayer(r.numbers.Of(table, true))} }); err != nil {
			return fmt.Errorf("frame %d: %w", f.Number, err)
		}
		if r.bytes += len(f.Payload); r.bytes >= redoBytes {
			return r.Flush()
		}
		return nil
	})
}

// Position is behind the last frame that was carried out.
func (r *Redo) Position() Position { return r.at }

// Flush writes what was carried out to the file.
func (r *Redo) Flush() error {
	err := r.db.Update(func(tx *bbolt.Tx) error {
		for number, l := range r.overlay.layers {
			if l == nil {
				continue
			}
			if err := l.writeTo(tx, []byte(r.numbers.Name(number))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.overlay, r.bytes = (&overlay{}).writable(), 0
	return nil
}

// writeTo brings a layer into a transaction of a file.
func (l *layer) writeTo(tx *bbolt.Tx, name []byte) (err error) {
	if l.gone && tx.Bucket(name) != nil {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
	}
	if l.tree.Len() == 0 {
		return nil
	}
	b, err := tx.CreateBucketIfNotExists(name)
	if err != nil {
		return err
	}
	l.tree.Scan(func(e entry) bool {
		if e.value == nil {
			err = b.Delete(e.key)
		} else {
			err = b.Put(e.key, e.value)
		}
		return err == nil
	})
	return err
}

// again is a layer to which a frame that was kept is carried out once more; it keeps parts of that.
type again struct{ layer *layer }

func (a again) Put(key, value []byte) error {
	a.layer.put(entry{key: key, value: value})
	return nil
}

func (a again) Delete(key []byte) error {
	a.layer.remove(key)
	return nil
}

func (a again) Drop() error {
	a.layer.drop()
	return nil
}

// Frame is one commit that was kept.
type Frame struct{ payload []byte }

// Each calls fn with each key that the commit has put into a table, in order, until fn
// returns an error.
func (f *Frame) Each(table string, fn func(key, value []byte) error) error {
	return eachOp(f.payload, new(int), func(name string) Sink {
		if name != table {
			return looking{}
		}
		return looking{fn}
	})
}

// looking is a sink that changes nothing.
type looking struct{ put func(key, value []byte) error }

func (l looking) Put(key, value []byte) error {
	if l.put == nil {
		return nil
	}
	return l.put(key, value)
}
func (looking) Delete([]byte) error { return nil }
func (looking) Drop() error         { return nil }
