package jobs

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// headTail keeps the head and the tail of what is written to it, and drops the
// middle: an error is mostly told at one of the ends.
type headTail struct {
	head, tail []byte // the tail is a ring once it is full
	most       int    // of the head
	ring       int    // size of the tail
	start      int    // of the tail in the ring
	total      int64
}

func newHeadTail(head, tail int64) *headTail { return &headTail{most: int(head), ring: int(tail)} }

// Write never fails.
func (h *headTail) Write(p []byte) (int, error) {
	n := len(p)
	h.total += int64(n)
	if room := h.most - len(h.head); room > 0 {
		take := min(room, len(p))
		h.head, p = append(h.head, p[:take]...), p[take:]
	}
	if len(p) > h.ring {
		p = p[len(p)-h.ring:]
	}
	if room := h.ring - len(h.tail); room > 0 && h.start == 0 {
		take := min(room, len(p))
		h.tail, p = append(h.tail, p[:take]...), p[take:]
	}
	for len(p) > 0 { // the ring is full: the oldest goes
		c := copy(h.tail[h.start:], p)
		h.start, p = (h.start+c)%len(h.tail), p[c:]
	}
	return n, nil
}

// kept gives what is kept as one text, with a line in the place of what was
// dropped, and how many bytes were kept and dropped. The cuts are at the ends of
// lines where there are some nearby, and else between characters.
func (h *headTail) kept() (text []byte, bytesKept, dropped int64) {
	tail := append(bytes.Clone(h.tail[h.start:]), h.tail[:h.start]...)
	if h.total <= int64(len(h.head)+len(tail)) {
		text = append(bytes.Clone(h.head), tail...)
		return text, h.total, 0
	}
	head := headCut(h.head)
	tail = tailCut(tail)
	bytesKept = int64(len(head) + len(tail))
	dropped = h.total - bytesKept
	text = bytes.Clone(head)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = fmt.Appendf(text, marker, dropped)
	return append(text, tail...), bytesKept, dropped
}

// marker stands in the place of what was dropped. maxMarker is the most that it
// adds: a line end before it, and a number of up to 19 digits.
const (
	marker    = "… %d bytes dropped …\n"
	maxMarker = len(marker) + 20
)

// maxCut bounds what a cut at the end of a line may cost.
const maxCut = 4 << 10

// headCut cuts a head back to the end of a line.
func headCut(b []byte) []byte {
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 && i+1 >= len(b)-maxCut {
		return b[:i+1]
	}
	for n := 0; n < utf8.UTFMax && len(b) > 0; n++ {
		if i := len(b) - 1 - n; i >= 0 && utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// tailCut cuts a tail to the beginning of a line.
func tailCut(b []byte) []byte {
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i < min(maxCut, len(b)-1) {
		return b[i+1:]
	}
	n := 0 // what is left of a character that begins in what was dropped
	for n < utf8.UTFMax-1 && n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	return b[n:]
}
