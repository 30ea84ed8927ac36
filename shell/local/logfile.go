//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell/internal/pause"
)

// A log is kept in segments, files that are named after the place in the stream at
// which they begin: NAME.OFFSET. The first ones stay, and of the others the last.
// What is missing in between shows as a gap.
const (
	headSegments = 4
	tailSegments = 4
	// longestLine is how long a line may be that a segment does not cut.
	longestLine = 16 << 10
)

func segmentName(container string, offset int64) string {
	return fmt.Sprintf("%s.%020d", container, offset)
}

// logWriter writes the log of one container. It never fails, so that no program
// ever waits for a full disk: what cannot be written is missing.
type logWriter struct {
	dir, container string
	size           int64 // of a segment

	f      *os.File
	off    int64   // in the stream
	begin  int64   // of the segment
	starts []int64 // of the segments that are there
}

func newLogWriter(dir, container string, most int64) *logWriter {
	return &logWriter{dir: dir, container: container, size: max(1, most/(headSegments+tailSegments))}
}

// Write takes all of p.
func (w *logWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if w.f == nil {
			w.open()
		}
		part := p[:w.fit(p)]
		w.put(part)
		p = p[len(part):]
	}
	return n, nil
}

// fit says how much of p goes into the segment, which ends with a line if it can.
func (w *logWriter) fit(p []byte) int {
	room := w.begin + w.size - w.off
	if int64(len(p)) <= room {
		return len(p)
	}
	room = max(0, room)
	if i := bytes.IndexByte(p[room:], '\n'); i >= 0 && i < longestLine {
		return int(room) + i + 1
	}
	// Further on in the line: it has to be cut where it is too long.
	return max(1, min(len(p), int(w.begin+w.size+longestLine-w.off)))
}

func (w *logWriter) put(part []byte) {
	lost := w.f == nil
	if !lost {
		n, err := w.f.Write(part)
		if lost = err != nil; lost {
			// What follows the part that fits belongs to another place of the stream.
			w.off += int64(n)
			part = part[n:]
		}
	}
	w.off += int64(len(part))
	full := w.off-w.begin >= w.size && (len(part) > 0 && part[len(part)-1] == '\n' || w.off-w.begin >= w.size+longestLine)
	if lost || full {
		w.close()
	}
}

func (w *logWriter) open() {
	f, err := os.OpenFile(filepath.Join(w.dir, segmentName(w.container, w.off)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	w.begin = w.off
	if err != nil {
		return
	}
	w.f = f
	w.starts = append(w.starts, w.off)
	for len(w.starts) > headSegments+tailSegments {
		// If it cannot be removed, it is there until the pod is deleted.
		_ = os.Remove(filepath.Join(w.dir, segmentName(w.container, w.starts[headSegments])))
		w.starts = slices.Delete(w.starts, headSegments, headSegments+1)
	}
}

func (w *logWriter) close() {
	if w.f != nil {
		_ = w.f.Close() // what it could not write is missing
		w.f = nil
	}
}

// logReader copies the log of one container.
type logReader struct {
	dir, container string
	pos            int64
	midLine        bool
	w              io.Writer
}

// logPoll is how often a log that is being written is looked at.
const logPoll = 100 * time.Millisecond

// follow copies until ended says that the log is whole, and all of it is copied.
func (r *logReader) follow(ctx context.Context, ended func() (bool, error)) error {
	for {
		whole, err := ended()
		if err != nil {
			return err
		}
		if err := r.copy(ctx); err != nil || whole {
			return err
		}
		if err := pause.For(ctx, logPoll); err != nil {
			return err
		}
	}
}

// copy copies what is there.
func (r *logReader) copy(ctx context.Context) error {
	for ctx.Err() == nil {
		starts, err := r.segments()
		if err != nil {
			return err
		}
		n, err := r.copyFrom(starts)
		if err != nil || n == 0 {
			return err
		}
	}
	return ctx.Err()
}

// segments lists where the segments begin, in order.
func (r *logReader) segments() ([]int64, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	var starts []int64
	for _, e := range entries {
		if text, ours := strings.CutPrefix(e.Name(), r.container+"."); ours {
			if start, err := strconv.ParseInt(text, 10, 64); err == nil {
				starts = append(starts, start)
			}
		}
	}
	slices.Sort(starts)
	return starts, nil
}

// copyFrom copies the rest of the segment that has the place reached, or goes on to
// the next one. It reports how far it got.
func (r *logReader) copyFrom(starts []int64) (int64, error) {
	next := len(starts)
	for i := len(starts) - 1; i >= 0 && starts[i] > r.pos; i-- {
		next = i
	}
	if next > 0 {
		n, err := r.copySegment(starts[next-1])
		if n > 0 || err != nil {
			return n, err
		}
	}
	if next == len(starts) {
		return 0, nil
	}
	missing := starts[next] - r.pos
	r.pos = starts[next]
	return missing, r.tellMissing(missing)
}

func (r *logReader) copySegment(start int64) (int64, error) {
	f, err := os.Open(filepath.Join(r.dir, segmentName(r.container, start)))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // dropped meanwhile: a gap
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(r.pos-start, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.Copy(r.w, f)
	r.pos += n
	if last := make([]byte, 1); n > 0 {
		_, _ = f.ReadAt(last, r.pos-start-1) // it was read before
		r.midLine = last[0] != '\n'
	}
	return n, err
}

func (r *logReader) tellMissing(n int64) error {
	text := fmt.Sprintf("[orrery: %d bytes of the log are missing here]\n", n)
	if r.midLine {
		text = "\n" + text
	}
	r.midLine = false
	_, err := io.WriteString(r.w, text)
	return err
}
