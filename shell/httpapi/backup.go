package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/stream"
)

// backupWrite is how long a client may take nothing of a backup, which holds one View of the
// store all the while.
const backupWrite = time.Minute

// streamBackup sends a consistent copy of the live database, as it is read. One runs at a
// time, since each holds back the reuse of the space that is freed meanwhile.
func (s *Server) streamBackup(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "partition")
	if err != nil {
		return err
	}
	if _, err := partitionIn(q.v, s.o.Partitions); err != nil {
		return err
	}
	select {
	case <-s.backup:
		defer func() { s.backup <- struct{}{} }()
	default:
		return failf(http.StatusTooManyRequests, "a backup is running: try again when it has ended").with("Retry-After", "60")
	}
	from, streams := s.engine.Store().(store.Exporter)
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="orrery-backup"`)
	if streams {
		h.Set("Content-Type", stream.ContentType)
		h.Set("Content-Disposition", `attachment; filename="orrery-backup.stream"`)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	out := &patient{w: w, rc: http.NewResponseController(w)}
	// The copy takes as long as it takes.
	if err := out.deadline(time.Time{}); err != nil {
		return fmt.Errorf("lift the time limit of a backup: %w", err)
	}
	var sum stream.Summary
	if streams {
		sum, err = stream.Write(r.Context(), out, from, stream.Options{By: s.o.Version, Core: core.Version, At: s.now()})
	} else {
		sum.Bytes, err = s.engine.Store().Backup(r.Context(), out)
	}
	if err != nil {
		h.Del("Content-Disposition")
		if sw, ok := w.(*statusWriter); ok && out.failed {
			sw.gone = true
		}
		return fmt.Errorf("backup: %w", err)
	}
	s.log.Info("backup sent", "request_id", c.id, "actor", c.actor, "bytes", sum.Bytes, "batch", sum.Head.Seq, "left_out", sum.Left)
	for _, o := range sum.Omitted {
		s.log.Error("a backup lacks what could not be read", "request_id", c.id, "what", o.String())
	}
	_ = out.deadline(time.Now().Add(backupWrite)) // for what is still to be flushed
	return nil
}

// patient is a writer that fails once its client has taken nothing for [backupWrite].
type patient struct {
	w      io.Writer
	rc     *http.ResponseController
	failed bool // the client has disconnected, or took nothing
}

// patientPiece is how much a client must take in that time.
const patientPiece = 16 << 10

// Write implements [io.Writer].
func (p *patient) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		var k int
		if err = p.deadline(time.Now().Add(backupWrite)); err == nil {
			k, err = p.w.Write(b[:min(len(b), patientPiece)])
		}
		n, b = n+k, b[k:]
	}
	if err == nil { // a client sees at once how far it is
		if err = p.rc.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	if err != nil {
		p.failed = true
		if errors.Is(err, os.ErrDeadlineExceeded) { // else it would pass for a body that did not arrive
			err = failf(http.StatusRequestTimeout, "the client took less than %d KiB of the backup in %s", patientPiece>>10, backupWrite)
		}
		return n, err
	}
	return n, p.deadline(time.Time{}) // to read takes as long as it takes
}

func (p *patient) deadline(t time.Time) error {
	if err := p.rc.SetWriteDeadline(t); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
