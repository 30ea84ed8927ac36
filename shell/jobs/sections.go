package jobs

import "io"

// Sections writes what several containers of a pod have written, each stretch of one
// after a line "==> NAME <==", as tail has them for several files. It is not safe for
// concurrent use.
type Sections struct {
	out  io.Writer
	last string // the container that wrote last; empty: none did
	mid  bool   // in the middle of a line
}

// NewSections makes one that writes to out.
func NewSections(out io.Writer) *Sections { return &Sections{out: out} }

// Of is a writer of what a container has written. A container that writes nothing has
// no line of its name.
func (s *Sections) Of(container string) io.Writer { return section{s, container} }

type section struct {
	all  *Sections
	name string
}

// Write implements [io.Writer].
func (w section) Write(b []byte) (int, error) {
	s := w.all
	if len(b) == 0 {
		return 0, nil
	}
	if s.last != w.name {
		head := "==> " + w.name + " <==\n"
		if s.mid {
			head = "\n" + head
		}
		if _, err := io.WriteString(s.out, head); err != nil {
			return 0, err
		}
		s.last, s.mid = w.name, false
	}
	n, err := s.out.Write(b)
	if n > 0 {
		s.mid = b[n-1] != '\n'
	}
	return n, err
}
