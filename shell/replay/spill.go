package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// spill is a temporary file to which stored forms of states are appended. It is made when
// the first ones leave the memory.
type spill struct {
	folder string
	most   int // bytes of tail
	file   *os.File
	left   bool   // the file's name is to be removed still
	begin  int64  // where tail stands in the file
	tail   []byte // not written yet
	buf    []byte // of the last read
}

// Each record is 8 bytes of lengths, the kind, the id and the stored form, and begins at a
// multiple of align.
const (
	align     = 8
	spillTail = 256 << 10
	spillRead = 2 << 10 // of the first try: most records are shorter
)

// append adds a record, and gives its place.
func (f *spill) append(ref effects.Ref, stored []byte) (at int64, err error) {
	if len(f.tail) > f.most {
		if err := f.write(); err != nil {
			return 0, err
		}
	}
	at = f.begin + int64(len(f.tail))
	if at/align > maxPlace {
		return 0, fmt.Errorf("put states aside in %s: more than %d bytes", f.folder, int64(maxPlace)*align)
	}
	f.tail = binary.LittleEndian.AppendUint32(f.tail, uint32(len(ref.Kind)))
	f.tail = binary.LittleEndian.AppendUint32(f.tail, uint32(len(stored)))
	f.tail = append(f.tail, ref.Kind...)
	f.tail = append(f.tail, ref.ID[:]...)
	f.tail = append(f.tail, stored...)
	for len(f.tail)%align != 0 {
		f.tail = append(f.tail, 0)
	}
	return at, nil
}

func (f *spill) write() error {
	if f.file == nil {
		file, err := os.CreateTemp(f.folder, "orrery-replay-*")
		if err != nil {
			return fmt.Errorf("put states aside: %w", err)
		}
		// Where it can be, the file has no name from here on, so that it goes with the process.
		f.file, f.left = file, os.Remove(file.Name()) != nil
	}
	if _, err := f.file.WriteAt(f.tail, f.begin); err != nil {
		return fmt.Errorf("put states aside: %w", err)
	}
	f.begin += int64(len(f.tail))
	f.tail = f.tail[:0]
	return nil
}

// read gives the record at a place; the stored form is valid until the next call.
func (f *spill) read(at int64) (ref effects.Ref, stored []byte, err error) {
	b, err := f.bytes(at, spillRead)
	if err != nil {
		return ref, nil, err
	}
	kind, state := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))
	head := 8 + kind + len(ref.ID)
	if head+state > len(b) {
		if b, err = f.bytes(at, head+state); err != nil {
			return ref, nil, err
		}
	}
	if head+state > len(b) {
		return ref, nil, fmt.Errorf("read a state that was put aside at %d: %w", at, io.ErrUnexpectedEOF)
	}
	return effects.Ref{Kind: effects.Kind(b[8 : 8+kind]), ID: uuid.UUID(b[8+kind : head])}, b[head : head+state], nil
}

// bytes gives n bytes at a place, or what there is.
func (f *spill) bytes(at int64, n int) ([]byte, error) {
	if at >= f.begin {
		return f.tail[at-f.begin:], nil
	}
	if cap(f.buf) < n {
		f.buf = make([]byte, n)
	}
	got, err := f.file.ReadAt(f.buf[:n], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read a state that was put aside: %w", err)
	}
	return f.buf[:got], nil
}

// close removes the file.
func (f *spill) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	if f.left {
		err = errors.Join(err, os.Remove(f.file.Name()))
	}
	if err != nil {
		return fmt.Errorf("remove what was put aside: %w", err)
	}
	return nil
}
