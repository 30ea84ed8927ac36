package rewind

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// sorter sorts entries by their keys, in a temporary file as far as they do not fit into its
// memory. First all are added, then they are read.
type sorter struct {
	folder string
	most   int // bytes in memory
	buf    []byte
	items  []item
	file   *os.File // made when the memory is full
	left   bool     // the file's name is to be removed still
	size   int64    // of the file
	runs   []run
	heads  heads // of the runs and of the memory, once they are read
}

// item is an entry in memory.
type item struct{ at, value, end int } // of the key, of the value, and where that ends

// run is a sorted part of the file.
type run struct{ at, size int64 }

const (
	itemBytes = 24
	leastMost = 4 << 10 // of sorter.most
	leastRead = 4 << 10 // of a run at a time
	mostRead  = 64 << 10
)

func newSorter(folder string, most int64) *sorter {
	return &sorter{folder: folder, most: int(max(min(most, 1<<30), leastMost))}
}

// add adds an entry of which it keeps nothing.
func (s *sorter) add(key, value []byte) error {
	if len(s.items) > 0 && len(s.buf)+len(key)+len(value)+itemBytes*len(s.items) > s.most {
		if err := s.flush(); err != nil {
			return fmt.Errorf("sort in a temporary file: %w", err)
		}
	}
	i := item{at: len(s.buf)}
	s.buf = append(s.buf, key...)
	i.value = len(s.buf)
	s.buf = append(s.buf, value...)
	i.end = len(s.buf)
	s.items = append(s.items, i)
	return nil
}

func (s *sorter) sort() {
	slices.SortFunc(s.items, func(a, b item) int {
		return bytes.Compare(s.buf[a.at:a.value], s.buf[b.at:b.value])
	})
}

// flush writes what is in memory.
func (s *sorter) flush() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.folder, "orrery-rewind-*")
		if err != nil {
			return err
		}
		// Where it can be, the file has no name from here on, so that it goes with the process.
		s.file, s.left = file, os.Remove(file.Name()) != nil
	}
	s.sort()
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.size), mostRead)
	r := run{at: s.size}
	for _, i := range s.items {
		var head [2 * binary.MaxVarintLen64]byte
		n := binary.PutUvarint(head[:], uint64(i.value-i.at))
		n += binary.PutUvarint(head[n:], uint64(i.end-i.value))
		_, _ = w.Write(head[:n]) // Flush gives the error
		_, _ = w.Write(s.buf[i.at:i.end])
		r.size += int64(n + i.end - i.at)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s.size += r.size
	s.runs = append(s.runs, r)
	s.buf, s.items = s.buf[:0], s.items[:0]
	return nil
}

// begin begins to read: peek gives the first entry then.
func (s *sorter) begin() error {
	s.sort()
	room := min(max(s.most/(len(s.runs)+1), leastRead), mostRead)
	for _, r := range s.runs {
		s.heads = append(s.heads, &head{in: bufio.NewReaderSize(io.NewSectionReader(s.file, r.at, r.size), room)})
	}
	s.heads = append(s.heads, &head{of: s})
	for i := 0; i < len(s.heads); {
		ok, err := s.heads[i].next()
		if err != nil {
			return err
		}
		if ok {
			i++
		} else {
			s.heads = slices.Delete(s.heads, i, i+1)
		}
	}
	heap.Init(&s.heads)
	return nil
}

// peek gives the next entry, which is valid until next; false: there is none.
func (s *sorter) peek() (key, value []byte, ok bool) {
	if len(s.heads) == 0 {
		return nil, nil, false
	}
	h := s.heads[0]
	return h.key, h.value, true
}

// next goes on behind what peek gives.
func (s *sorter) next() error {
	ok, err := s.heads[0].next()
	switch {
	case err != nil:
		return err
	case ok:
		heap.Fix(&s.heads, 0)
	default:
		heap.Pop(&s.heads)
	}
	return nil
}

// close removes the file.
func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.left {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}

// head is the next entry of a run, or of what is in memory.
type head struct {
	in         *bufio.Reader
	room       []byte
	of         *sorter
	n          int // entries of the memory that were read
	key, value []byte
}

func (h *head) next() (ok bool, err error) {
	if h.of != nil {
		if h.n == len(h.of.items) {
			return false, nil
		}
		i := h.of.items[h.n]
		h.key, h.value = h.of.buf[i.at:i.value], h.of.buf[i.value:i.end]
		h.n++
		return true, nil
	}
	key, err := binary.ReadUvarint(h.in)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	var value uint64
	if err == nil {
		value, err = binary.ReadUvarint(h.in)
	}
	if err == nil {
		h.room = slices.Grow(h.room[:0], int(key+value))[:key+value]
		_, err = io.ReadFull(h.in, h.room)
	}
	if err != nil {
		return false, fmt.Errorf("read what was sorted in a temporary file: %w", err)
	}
	h.key, h.value = h.room[:key], h.room[key:]
	return true, nil
}

// heads is a heap, by the keys.
type heads []*head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return bytes.Compare(h[i].key, h[j].key) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(*head)) }
func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
