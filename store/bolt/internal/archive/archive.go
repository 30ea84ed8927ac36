// Package archive keeps entries that are only ever appended, in the order of their
// keys, in compressed files: what a database needs for days to tell its past, and
// never to go on.
//
// An archive has no state of its own that counts. Its owner stores a [Position] together
// with what it has in another place; the files count up to there, and what is behind it
// is written anew. Entries belong to tables; every key begins with a number of eight bytes,
// big endian, by which files are dropped whole.
//
// The files, in the order in which they are best read:
//
//   - format.go: files and their blocks;
//   - archive.go: opening; write.go: appending, and what is durable when;
//   - snapshot.go: which files a reader sees; files.go: which of them are open;
//   - cursor.go: walking through a table; copy.go: what is whole of a damaged archive.
package archive

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// Errors that callers decide on.
var (
	// ErrOther: the folder has files of another archive.
	ErrOther = errors.New("the files are another archive's")
	// ErrCorrupt: a file is damaged.
	ErrCorrupt = errors.New("the archive is damaged")
)

// Options of an [Archive].
type Options struct {
	FS       disk.FS // nil: the system's
	NoSync   bool    // nothing waits for the disk
	ReadOnly bool
	// Whole says that the owner was closed cleanly, and so knows of all that was ever
	// written: what is behind the position is not an attempt's that was cut off, but a newer
	// owner's. It is set aside, not removed nor written over: see [Archive.Aside].
	Whole bool
	File  int64 // bytes after which the next Begin makes a new file; zero: 64 MiB
	Block int   // bytes of keys and values that are compressed together; zero: 128 KiB
	Open  int   // files that stay open for who reads next; zero: 16
}

// Position says up to where the files of an archive count. The zero Position is that of an
// archive that is to be made; the ID must be stored before anything is appended, or what a
// crash leaves behind is nobody's.
type Position struct {
	ID    string `json:"id,omitempty"` // of the archive, hexadecimal
	First uint64 `json:"first,omitempty"`
	File  uint64 `json:"file,omitempty"` // the last file; zero: there is none
	Size  int64  `json:"size,omitempty"` // of the last file
	// Last has the last key of each table, hexadecimal.
	Last map[string]string `json:"last,omitempty"`
}

// LastKey gives the last key of a table; nil: nothing was ever written to it.
func (p Position) LastKey(table string) []byte {
	k, err := hex.DecodeString(p.Last[table])
	if err != nil || len(k) == 0 {
		return nil
	}
	return k
}

// LastNumber gives the greatest number of all keys that were ever written.
func (p Position) LastNumber() (n uint64) {
	for table := range p.Last {
		n = max(n, number(p.LastKey(table)))
	}
	return n
}

// Archive is an open archive. One goroutine writes at a time; what [Archive.Current] gives
// may be read by any number.
type Archive struct {
	o     Options
	dir   string
	id    [16]byte
	files files // those that are open for reading
	lost  error // why what the position tells of is not all there; nil: it is
	ends  error // why the end is not there; nil: it is

	aside []string // files that were set aside

	at      Position // what counts
	out     writer
	named   bool   // the folder's own name is durable
	suspect uint64 // a file of which a sync has failed: nothing more is written to it
	roll    bool   // the next Begin makes a new file

	mu      sync.Mutex
	current *Snapshot
}

// Open opens the archive in a folder, which need not be there, as a position tells of it.
// What the position tells of and is missing does not keep it from opening: see [Archive.Lost].
func Open(dir string, at Position, o Options) (*Archive, error) {
	if o.FS == nil {
		o.FS = disk.OS
	}
	o.File = cmp.Or(o.File, 64<<20)
	o.Block = cmp.Or(o.Block, 128<<10)
	o.Open = cmp.Or(o.Open, 16)
	a := &Archive{o: o, dir: dir, at: at, files: files{fs: o.FS, most: o.Open}}
	if at.ID == "" {
		_, _ = rand.Read(a.id[:]) // it never fails
		a.at.ID = hex.EncodeToString(a.id[:])
	} else if n, err := hex.Decode(a.id[:], []byte(at.ID)); err != nil || n != len(a.id) {
		return nil, fmt.Errorf("%w: its id is %q, no 32 hexadecimal digits", ErrCorrupt, at.ID)
	}
	found, err := a.list()
	if err != nil {
		return nil, err
	}
	parts, err := a.take(found)
	if err != nil {
		return nil, err
	}
	a.current = newSnapshot(parts, at)
	return a, nil
}

// Any reports whether a folder, which need not be there, has files of an archive.
func Any(dir string, fsys disk.FS) (bool, error) {
	if fsys == nil {
		fsys = disk.OS
	}
	found, err := (&Archive{o: Options{FS: fsys}, dir: dir}).list()
	return len(found) > 0, err
}

// Lost gives what the position told of and was missing, by name; nil where all was there.
func (a *Archive) Lost() error { return a.lost }

// Aside gives the files that a newer owner has written, by the paths that they have now: with
// ".left" behind their names. The last one may be a file that counts and goes on; it stays as it is, and
// nothing more is written to it.
func (a *Archive) Aside() []string { return a.aside }

// Position gives what counts.
func (a *Archive) Position() Position { return a.at }

// name is one file of the folder.
type name struct {
	number, first uint64 // first: no key in it has a smaller number
}

const (
	suffix     = ".past"
	leftSuffix = ".left"
)

func (n name) String() string { return fmt.Sprintf("%016x-%016x%s", n.number, n.first, suffix) }

// list reads which files there are, by number.
func (a *Archive) list() ([]name, error) {
	entries, err := a.o.FS.ReadDir(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list %s: %w", a.dir, err)
	}
	var found []name
	for _, e := range entries {
		number, rest, _ := strings.Cut(e.Name(), "-")
		first, _, _ := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(number, 16, 64)
		f, ferr := strconv.ParseUint(first, 16, 64)
		if err == nil && ferr == nil && !e.IsDir() && (name{n, f}).String() == e.Name() {
			found = append(found, name{n, f})
		}
	}
	slices.SortFunc(found, func(x, y name) int { return cmp.Compare(x.number, y.number) })
	return found, nil
}

// take looks at the files that count, and removes, or sets aside, the others: what was dropped, and
// what was written and does not count.
func (a *Archive) take(found []name) (parts []part, err error) {
	want, left, whole := a.at.First, []name{}, int64(0)
	for _, n := range found {
		p, h, err := a.look(n)
		switch {
		case err != nil:
			return nil, err
		case h.id != a.id && !h.none:
			return nil, fmt.Errorf("%w: %s", ErrOther, p.path)
		case n.number < a.at.First || n.number > a.at.File:
			left = append(left, n)
			continue
		}
		k := len(parts) - 1
		switch {
		case n.number != want:
			p.behind = a.miss("file %d to %d", want, n.number-1)
		case k >= 0 && h.none:
			p.behind = damaged(p.path, 0, "the file has no head, so nobody knows how much counts of the one before")
		case k >= 0:
			p.behind = a.cut(&parts[k], h.before)
		}
		want = n.number + 1
		parts = append(parts, p)
	}
	if a.at.File != 0 && want != a.at.File+1 {
		a.ends = a.miss("file %d to %d", want, a.at.File)
	} else if k := len(parts) - 1; k >= 0 {
		whole = parts[k].limit
		a.ends = a.cut(&parts[k], a.at.Size)
	}
	if a.o.ReadOnly {
		return parts, nil
	}
	for _, n := range left { // all are its own
		if err := a.leave(n); err != nil {
			return nil, fmt.Errorf("what does not count: %w", err)
		}
	}
	if k := len(parts) - 1; k >= 0 && a.o.Whole && parts[k].number == a.at.File && whole > a.at.Size {
		a.suspect = a.at.File
		a.aside = append(a.aside, parts[k].path)
	}
	return parts, nil
}

// leave removes a file that does not count, or sets it aside.
func (a *Archive) leave(n name) error {
	path := filepath.Join(a.dir, n.String())
	if !a.o.Whole || n.number <= a.at.File {
		return a.o.FS.Remove(path)
	}
	a.aside = append(a.aside, path+leftSuffix)
	return a.o.FS.Rename(path, path+leftSuffix)
}

// cut leaves out what does not count of a file, and tells if less is there.
func (a *Archive) cut(p *part, size int64) (short error) {
	if p.limit < size {
		short = a.miss("bytes %d to %d of file %d", p.limit, size, p.number)
	}
	p.limit = min(p.limit, size)
	return short
}

func (a *Archive) miss(format string, args ...any) error {
	err := fmt.Errorf("%w: %s lacks %s", ErrCorrupt, a.dir, fmt.Sprintf(format, args...))
	a.lost = errors.Join(a.lost, err)
	return err
}

// look reads a file's head, and how long it is.
func (a *Archive) look(n name) (p part, h head, err error) {
	p.file = a.files.add(n, filepath.Join(a.dir, n.String()))
	f, err := a.o.FS.OpenFile(p.path, flagsRead, 0)
	if err != nil {
		return p, h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if h, err = readHead(f); err != nil {
		return p, h, err
	}
	info, err := f.Stat()
	if err == nil {
		p.limit = info.Size()
	}
	return p, h, err
}

// Close closes the files. What was flushed and not published stays: its position may be stored
// all the same, where the owner's disk failed behind that. If it is not the next start removes it.
func (a *Archive) Close() (err error) {
	if a.out.f != nil {
		err = a.out.f.Close()
	}
	a.out = writer{}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.current
	a.current = nil
	if s == nil {
		return err
	}
	return errors.Join(err, s.release())
}
