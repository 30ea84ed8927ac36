// Package headtail keeps the beginning and the end of a text of any length in constant memory.
package headtail

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
func New(limit int) *Buffer {
	return &Buffer{headCap: limit - limit/2, tailCap: limit / 2}
}

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
