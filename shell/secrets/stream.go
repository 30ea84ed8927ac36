package secrets

import (
	"bytes"
	"io"
)

// forms are the texts that a mask hides, as a [Stream] looks for them.
type forms struct {
	texts [][]byte      // the longest first
	shown [][]byte      // what stands in their place
	at    [256][]uint16 // which of them begin with that byte, the longest first
}

// newForms takes the pairs of the mask's replacer: a text, what stands in its place, and so on.
func newForms(pairs []string) *forms {
	f := &forms{}
	for i := 0; i+1 < len(pairs); i += 2 {
		first := pairs[i][0] // none is empty: see formsOf
		f.at[first] = append(f.at[first], uint16(len(f.texts)))
		f.texts, f.shown = append(f.texts, []byte(pairs[i])), append(f.shown, []byte(pairs[i+1]))
	}
	return f
}

// Stream masks a text that comes in pieces, and hands it on: also a value of which one piece has
// the beginning and the next one the rest is found. What may be the beginning of a value is held
// back until the next piece tells, and nothing else: so what a program prints is seen at once.
// It is not safe for concurrent use.
type Stream struct {
	w    io.Writer
	f    *forms // nil: nothing is hidden
	held []byte // the end of what came, which may be the beginning of a value
	out  []byte
}

// Writer begins to mask what is written to it, for w.
func (m Mask) Writer(w io.Writer) *Stream { return &Stream{w: w, f: m.forms} }

// Write masks p and hands on what of it is decided. It gives len(p), or the error of the writer
// behind.
func (s *Stream) Write(p []byte) (int, error) {
	if s.f == nil {
		return s.w.Write(p)
	}
	text := p
	if len(s.held) > 0 {
		s.held = append(s.held, p...)
		text = s.held
	}
	rest := s.mask(text, false)
	s.held = append(s.held[:0], rest...)
	if len(s.out) == 0 {
		return len(p), nil
	}
	if _, err := s.w.Write(s.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush hands on what is held back: nothing follows it.
func (s *Stream) Flush() error {
	if len(s.held) == 0 {
		return nil
	}
	s.mask(s.held, true)
	s.held = s.held[:0]
	_, err := s.w.Write(s.out)
	return err
}

// mask sets s.out to the masked text, and gives what is not decided: nothing if it is the last.
func (s *Stream) mask(text []byte, last bool) (rest []byte) {
	s.out = s.out[:0]
	from := 0 // what is not in s.out yet begins there
	for i := 0; i < len(text); {
		n, open := s.f.match(text[i:], last)
		switch {
		case open:
			s.out = append(s.out, text[from:i]...)
			return text[i:]
		case n >= 0:
			s.out = append(append(s.out, text[from:i]...), s.f.shown[n]...)
			i += len(s.f.texts[n])
			from = i
		default:
			i++
		}
	}
	s.out = append(s.out, text[from:]...)
	return nil
}

// match gives the longest form that the text begins with, -1 if it begins with none; open: with
// more of the text, if more may come, a longer one might be there.
func (f *forms) match(text []byte, last bool) (n int, open bool) {
	for _, i := range f.at[text[0]] {
		form := f.texts[i]
		switch {
		case len(text) >= len(form) && bytes.Equal(text[:len(form)], form):
			return int(i), false
		case !last && len(text) < len(form) && bytes.Equal(text, form[:len(text)]):
			return -1, true
		}
	}
	return -1, false
}
