package text

import (
	"bytes"
	"io"
	"regexp"
	"unicode/utf8"
)

// Terminal writes what programs have written to a terminal: its lines and tabs, and their
// colours, which are escape sequences of the form ESC [ … m (SGR). Whatever else could steer
// the terminal is shown as an escape, see [Clean]. It is not safe for concurrent use.
type Terminal struct {
	out  io.Writer
	held []byte // the beginning of a colour, a character or a line end
}

// NewTerminal makes one that writes to out.
func NewTerminal(out io.Writer) *Terminal { return &Terminal{out: out} }

var (
	colour      = regexp.MustCompile("\x1b\\[[0-9;:]*m")
	colourBegun = regexp.MustCompile("\x1b(\\[[0-9;:]*)?$")
)

// longestColour bounds what is held back as the beginning of a colour.
const longestColour = 64

// Write takes all of p; what may go on in the next Write is held back, see Flush.
func (t *Terminal) Write(p []byte) (int, error) {
	b := append(t.held, p...)
	end := len(b) - unfinished(b)
	t.held = bytes.Clone(b[end:])
	return len(p), t.write(b[:end])
}

// Flush writes what was held back.
func (t *Terminal) Flush() error {
	b := t.held
	t.held = nil
	return t.write(b)
}

// unfinished is how many bytes at the end may be the beginning of something.
func unfinished(b []byte) int {
	if at := colourBegun.FindIndex(b[max(0, len(b)-longestColour):]); at != nil {
		return at[1] - at[0]
	}
	if len(b) > 0 && b[len(b)-1] == '\r' {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n:]; utf8.RuneStart(c[0]) {
			if utf8.FullRune(c) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (t *Terminal) write(b []byte) error {
	var shown []byte
	for len(b) > 0 {
		at := colour.FindIndex(b)
		if at == nil {
			at = []int{len(b), len(b)}
		}
		plain := bytes.ReplaceAll(b[:at[0]], []byte("\r\n"), []byte("\n"))
		shown = append(append(shown, CleanLines(string(plain))...), b[at[0]:at[1]]...)
		b = b[at[1]:]
	}
	if len(shown) == 0 {
		return nil
	}
	_, err := t.out.Write(shown)
	return err
}
