package kube

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"regexp"
)

// resuming writes a container's log, and of one that is read again, which begins anew, what
// was not written before. That the log is still the same is seen by what was written: the
// kubelet rotates logs, and gives a sentence of its own for one that it has removed.
type resuming struct {
	out    io.Writer
	failed error  // of out
	whole  bool   // the latest stream came to its end
	opened func() // called once a stream is there

	written int64
	sum     hash.Hash // of what was written
	head    []byte    // of what was written
	mid     bool      // what was written ends in the middle of a line

	skip    int64     // of the stream, what is still to be compared
	again   hash.Hash // of what was compared
	first   []byte    // of the stream, as far as it was compared
	differs bool      // the stream is of another log
	held    []byte    // the end of the stream: it may be what the kubelet says
}

// maxSaid bounds what the kubelet says instead of a log, or behind one: a sentence with a path.
const maxSaid = 4 << 10

// errLogGone says that a log that was read before is not there any more.
var errLogGone = errors.New("the log is gone")

// errOtherLog says that the log is not the one that was read before.
var errOtherLog = errors.New("the log was rotated")

// rotatedLine stands where a log that was rotated begins anew.
const rotatedLine = "… the log was rotated while it was read: here some of it may be missing, or stand twice …\n"

func newResuming(out io.Writer, opened func()) *resuming {
	return &resuming{out: out, opened: opened, sum: sha256.New(), again: sha256.New()}
}

// begin is called at the beginning of each stream.
func (r *resuming) begin() {
	r.skip, r.differs, r.first, r.held = r.written, false, r.first[:0], nil
	r.again.Reset()
}

// take takes the next part of a stream.
func (r *resuming) take(b []byte) error {
	b, err := r.compare(b)
	if err != nil || len(b) == 0 {
		return err
	}
	if r.held != nil {
		b, r.held = append(r.held, b...), nil
	}
	if from := bytes.LastIndexByte(b, '\n') + 1; (from > 0 || !r.mid) && maySay(b[from:]) {
		b, r.held = b[:from], bytes.Clone(b[from:])
	}
	return r.write(b)
}

// compare takes off what was written before.
func (r *resuming) compare(b []byte) ([]byte, error) {
	if r.skip == 0 && !r.differs {
		return b, nil
	}
	r.first = append(r.first, b[:min(maxSaid-len(r.first), len(b))]...)
	if !r.differs {
		n := min(r.skip, int64(len(b)))
		r.again.Write(b[:n])
		r.skip -= n
		same := min(len(r.first), len(r.head))
		r.differs = !bytes.Equal(r.first[:same], r.head[:same]) ||
			r.skip == 0 && !bytes.Equal(r.again.Sum(nil), r.sum.Sum(nil))
		if !r.differs {
			return b[n:], nil
		}
	}
	if len(r.first) == maxSaid || bytes.IndexByte(r.first, '\n') >= 0 {
		return nil, errOtherLog
	}
	return nil, nil // it may be one sentence, without the end of a line
}

// end is called at the end of each stream.
func (r *resuming) end() error {
	if r.differs {
		return errLogGone
	}
	held := r.held
	r.held = nil
	if kubeletSays.Match(held) && r.written > 0 {
		return nil
	}
	return r.write(held)
}

func (r *resuming) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.out.Write(b)
	b = b[:n]
	r.written += int64(n)
	r.sum.Write(b)
	r.head = append(r.head, b[:min(maxSaid-len(r.head), n)]...)
	if n > 0 {
		r.mid = b[n-1] != '\n'
	}
	r.failed = err
	return err
}

// anew has what the next stream gives written from its beginning.
func (r *resuming) anew() error {
	line := rotatedLine
	if r.mid {
		line = "\n" + line
	}
	if err := r.write([]byte(line)); err != nil {
		return err
	}
	r.written, r.head = 0, r.head[:0]
	r.sum.Reset()
	return nil
}

// kubeletSays is what the kubelet writes behind a log that it cannot follow any longer: its
// container was removed, or the node has no more watches of files. It has no end of a line.
var kubeletSays = regexp.MustCompile(`^(` +
	`rpc error: code = NotFound desc = .*container.*` +
	`|unable to retrieve container logs for \w+://[0-9a-f]+` +
	`|failed to try resolving symlinks in path ".*` +
	`|failed to open log file ".*` +
	`|failed to create fsnotify watcher: .*` +
	`|failed to watch directory ".*` +
	`)$`)

// kubeletBegins is how each of these sentences begins.
var kubeletBegins = []string{
	"rpc error: code = NotFound desc = ",
	"unable to retrieve container logs for ",
	`failed to try resolving symlinks in path "`,
	`failed to open log file "`,
	"failed to create fsnotify watcher: ",
	`failed to watch directory "`,
}

// maySay reports whether what has no end of a line yet may become what the kubelet says.
func maySay(b []byte) bool {
	if len(b) == 0 || len(b) > maxSaid {
		return false
	}
	for _, s := range kubeletBegins {
		n := min(len(s), len(b))
		if string(b[:n]) == s[:n] {
			return true
		}
	}
	return false
}
