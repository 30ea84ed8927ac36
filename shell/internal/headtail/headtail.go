// Package headtail keeps the beginning and the end of a text of any length in constant memory.
package headtail

import (
	"bytes"
	"unicode/utf8"
)

// Buffer is an [io.Writer] that keeps the first and the last bytes of what is written to it. It
// never refuses a write: a program must not get SIGPIPE because it prints much. It is not safe for
// concurrent use.
type Buffer struct {
	headCap, tailCap int
	head             []byte
	tail             []byte // a ring once it has tailCap bytes
	next             int    // where the ring is written next: its oldest byte
	total            int64
}

// New makes a buffer that keeps so many bytes at most, half of them from the beginning.
func New(limit int) *Buffer { return Parts(limit-limit/2, limit/2) }

// Parts makes a buffer that keeps so many bytes of the beginning and of the end.
func Parts(head, tail int) *Buffer { return &Buffer{headCap: head, tailCap: tail} }

// Write keeps what there is room for. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	n := len(p)
	b.total += int64(n)
	if room := b.headCap - len(b.head); room > 0 {
		k := min(room, len(p))
		b.head = append(b.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > b.tailCap {
		p = p[len(p)-b.tailCap:]
	}
	if room := b.tailCap - len(b.tail); room > 0 && len(p) > 0 {
		k := min(room, len(p))
		b.tail = append(b.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(b.tail[b.next:], p)
		b.next = (b.next + k) % b.tailCap
		p = p[k:]
	}
	return n, nil
}

// Total is how many bytes were written.
func (b *Buffer) Total() int64 { return b.total }

// Kept is how many of them are kept.
func (b *Buffer) Kept() int { return len(b.head) + len(b.tail) }

// From gives copies of what is kept from an offset on, counted from 0: of the head, and of the
// tail, which ends with the last byte that was written. What lies between them is lost.
func (b *Buffer) From(offset int64) (head, tail []byte) {
	offset = max(offset, 0)
	if offset < int64(len(b.head)) {
		head = append(head, b.head[offset:]...)
	}
	skip := offset - (b.total - int64(len(b.tail)))
	for _, part := range [][]byte{b.tail[b.next:], b.tail[:b.next]} {
		if skip < int64(len(part)) {
			tail = append(tail, part[max(skip, 0):]...)
		}
		skip -= int64(len(part))
	}
	return head, tail
}

// CutHead cuts a head back to the end of a line if there is one in its last most bytes, and else to the end of a
// character.
func CutHead(b []byte, most int) []byte {
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 && i+1 >= len(b)-most {
		return b[:i+1]
	}
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// CutTail cuts a tail to the beginning of a line if one ends in its first most bytes, and else to that of a character.
func CutTail(b []byte, most int) []byte {
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i < min(most, len(b)-1) {
		return b[i+1:]
	}
	n := 0 // what is left of a character that begins in what was dropped
	for n < utf8.UTFMax-1 && n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	return b[n:]
}
