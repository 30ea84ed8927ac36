package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/stream"
)

// bbolt's file begins with two meta pages, of which the valid one with the
// greater transaction counts. The layout is bbolt's internal/common.Meta, in
// the machine's byte order.
const (
	pageHeader  = 16
	metaLen     = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	minPage     = 1 << 10
	maxPage     = 16 << 20
	noFreelist  = ^uint64(0)
)

type metaPage struct {
	pageSize int64
	root     uint64 // page of the root bucket
	freelist uint64
	pages    uint64 // the file's pages that are in use
	txid     uint64
}

// inspect refuses a file that bbolt would crash on, or misjudge: it reads
// through a memory map, and a page that is missing from the file ends the
// process. The file may be in use by another process meanwhile: bbolt lets the
// file grow before a meta page says so.
func inspect(path string, opts Options) (err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m, err := readMeta(f)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 { // created, and the process ended before it was written to
		if opts.ReadOnly {
			return fmt.Errorf("%w: it is empty", ErrForeign)
		}
		return nil
	}
	if need := int64(m.pages) * m.pageSize; info.Size() < need {
		return fmt.Errorf("%w: the file is cut off: it has %d bytes, %d are in use", store.ErrCorrupt, info.Size(), need)
	}
	if m.root >= m.pages || m.freelist >= m.pages && m.freelist != noFreelist {
		return fmt.Errorf("%w: the meta page points beyond the file's %d pages", store.ErrCorrupt, m.pages)
	}
	return probe(path, opts)
}

// readMeta finds the meta page that counts.
func readMeta(f *os.File) (metaPage, error) {
	head := make([]byte, pageHeader+metaLen)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return metaPage{}, err
	}
	if n == 0 {
		return metaPage{}, nil
	}
	first, firstErr := parseMetaPage(head[:n], 0)
	bolt := isMeta(head[:n])
	var second metaPage
	secondErr := errNoMeta
	for size := int64(minPage); size <= maxPage && secondErr != nil; size *= 2 {
		if firstErr == nil && size != first.pageSize {
			continue
		}
		n, err := f.ReadAt(head, size)
		if err != nil && !errors.Is(err, io.EOF) {
			return metaPage{}, err
		}
		second, secondErr = parseMetaPage(head[:n], size)
		bolt = bolt || isMeta(head[:n])
	}
	switch {
	case firstErr == nil && (secondErr != nil || first.txid > second.txid):
		return first, nil
	case secondErr == nil:
		return second, nil
	case bolt:
		return metaPage{}, fmt.Errorf("%w: both meta pages are damaged: %w", store.ErrCorrupt, firstErr)
	}
	if _, err := f.ReadAt(head[:len(stream.Magic)], 0); err == nil && stream.Is(head[:len(stream.Magic)]) {
		return metaPage{}, fmt.Errorf("%w: it is a backup as a stream, of which `orreryd restore` makes a database", ErrForeign)
	}
	return metaPage{}, ErrForeign
}

var errNoMeta = errors.New("no meta page")

// isMeta reports whether the page is at least meant as a meta page.
func isMeta(page []byte) bool {
	return len(page) >= pageHeader+4 && binary.NativeEndian.Uint32(page[pageHeader:]) == metaMagic
}

// parseMetaPage reads the meta page at that offset of the file.
func parseMetaPage(page []byte, at int64) (metaPage, error) {
	if len(page) < pageHeader+metaLen || !isMeta(page) {
		return metaPage{}, errNoMeta
	}
	b := page[pageHeader:]
	h := fnv.New64a()
	_, _ = h.Write(b[:metaLen-8]) // it never fails
	if h.Sum64() != binary.NativeEndian.Uint64(b[metaLen-8:]) {
		return metaPage{}, errors.New("its checksum is wrong")
	}
	if v := binary.NativeEndian.Uint32(b[4:]); v != metaVersion {
		return metaPage{}, fmt.Errorf("bolt version %d: want %d", v, metaVersion)
	}
	m := metaPage{
		pageSize: int64(binary.NativeEndian.Uint32(b[8:])),
		root:     binary.NativeEndian.Uint64(b[16:]),
		freelist: binary.NativeEndian.Uint64(b[32:]),
		pages:    binary.NativeEndian.Uint64(b[40:]),
		txid:     binary.NativeEndian.Uint64(b[48:]),
	}
	if m.pageSize < minPage || m.pageSize > maxPage || m.pageSize&(m.pageSize-1) != 0 || at != 0 && at != m.pageSize ||
		m.pages > 1<<47/uint64(m.pageSize) {
		return metaPage{}, errors.New("its page size is impossible")
	}
	return m, nil
}
