package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/store/stream"
)

// How often progress is told: on a terminal, in one line that changes, or else in lines.
const (
	progressLine  = 200 * time.Millisecond
	progressLines = 30 * time.Second
)

// progress tells how far a stream has come.
type progress struct {
	w     io.Writer
	line  bool // one that changes
	every time.Duration
	told  time.Time
	width int // of the line that stands there
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, every: progressLines, told: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.line, p.every = true, progressLine
		}
	}
	return p
}

func (p *progress) tell(at stream.Progress) {
	now := time.Now()
	if now.Sub(p.told) < p.every {
		return
	}
	p.told = now
	said := progressText(at)
	if !p.line {
		text.Sayf(p.w, "%s\n", said)
		return
	}
	text.Sayf(p.w, "\r%-*s", p.width, said)
	p.width = len(said)
}

// end ends the line.
func (p *progress) end() {
	if p.width > 0 {
		text.Sayf(p.w, "\r%*s\r", p.width, "")
		p.width = 0
	}
}

func progressText(at stream.Progress) string {
	s := fmt.Sprintf("%.1f MiB, %d entries, now %s", float64(at.Bytes)/(1<<20), at.Entries, at.Section)
	if at.About > at.Raw {
		s += fmt.Sprintf(", about %d%%", 100*at.Raw/at.About)
	}
	return s
}
