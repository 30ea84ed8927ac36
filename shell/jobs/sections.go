package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Sections writes what several containers of a pod have written, each stretch of one
// after a line "==> NAME <==", as tail has them for several files. No container can write such a
// line: one of its own that begins with "==> " has a space more there. It is not safe for
// concurrent use.
type Sections struct {
	out   io.Writer
	last  string // the container that wrote last; empty: none did
	mid   bool   // in the middle of a line
	looks int    // how much of headBegins the line has so far; -1: it begins otherwise
}

// headBegins is how the line of a container's name begins.
const headBegins = "==> "

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
		head := headBegins + w.name + " <==\n"
		if s.mid {
			head = "\n" + head
		}
		if _, err := io.WriteString(s.out, head); err != nil {
			return 0, err
		}
		s.last, s.mid, s.looks = w.name, false, 0
	}
	n, err := s.out.Write(s.told(b))
	s.mid = b[len(b)-1] != '\n'
	if err != nil {
		return min(n, len(b)), err
	}
	return len(b), nil
}

// told is what stands for b, which goes on where the one before ended.
func (s *Sections) told(b []byte) []byte {
	var out []byte
	taken := 0 // of b
	for i, c := range b {
		switch {
		case c == '\n':
			s.looks = 0
		case s.looks < 0:
		case c != headBegins[s.looks]:
			s.looks = -1
		case s.looks < len(headBegins)-1:
			s.looks++
		default:
			out, taken, s.looks = append(append(out, b[taken:i+1]...), ' '), i+1, -1
		}
	}
	if taken == 0 {
		return b
	}
	return append(out, b[taken:]...)
}

// NoContainerError says that a pod has no container of the name that was asked for.
type NoContainerError struct {
	Name  string
	Names []string // those that it has
}

// Error implements error.
func (e *NoContainerError) Error() string {
	return fmt.Sprintf("there is no container %q: use one of %s", e.Name, strings.Join(e.Names, ", "))
}

// Permanent says that it stays so, see [shell.IsPermanent].
func (*NoContainerError) Permanent() bool { return true }

// containersOf are the names of a pod's containers, as its spec has them.
func containersOf(spec json.RawMessage) (names []string) {
	type container struct {
		Name string `json:"name"`
	}
	var pod struct {
		InitContainers []container `json:"initContainers"`
		Containers     []container `json:"containers"`
	}
	if json.Unmarshal(spec, &pod) != nil {
		return nil // it was checked before it ran
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		names = append(names, c.Name)
	}
	return names
}

// headLine is the line of a container's name.
var headLine = regexp.MustCompile(`^==> ([a-z0-9][-a-z0-9]*) <==\n$`)

// unknownLine stands where it is not known whose lines follow.
const unknownLine = "… which container wrote the next lines is not known …\n"

// ofContainer picks what one container has written from the stored logs of a pod whose
// containers have those names, and perhaps others, which a cluster has added.
func ofContainer(text []byte, names []string, name string) ([]byte, error) {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if len(names) == 1 && name == names[0] && !headLine.Match(append(bytes.Clone(first), '\n')) {
		return text, nil // nobody else wrote
	}
	var out []byte
	of := "" // who wrote the line, as far as it is known
	for line := range bytes.Lines(text) {
		switch m := headLine.FindSubmatch(line); {
		case m != nil:
			of = string(m[1])
			if !slices.Contains(names, of) {
				names = append(names, of)
			}
			continue
		case markerLine.Match(line):
			of = ""
			out = append(out, line...)
			continue
		case of == "":
			of = name
			out = append(out, unknownLine...)
		case of != name:
			continue
		}
		if bytes.HasPrefix(line, []byte(headBegins+" ")) { // see Sections
			out = append(out, headBegins...)
			line = line[len(headBegins)+1:]
		}
		out = append(out, line...)
	}
	if !slices.Contains(names, name) {
		return nil, &NoContainerError{Name: name, Names: names}
	}
	return out, nil
}
