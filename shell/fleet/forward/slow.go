package forward

import (
	"net/http"
	"time"
)

// Bounds on a reader that takes nothing, and on an answer that pauses: how long it may take as a whole, the one that works knows.
const (
	writeTime = 30 * time.Second
	pauseTime = 10 * time.Minute
)

// slow is an answer that may take longer than its server allows, as long as its reader takes what there is of it.
type slow struct {
	http.ResponseWriter
	rc *http.ResponseController
}

// Unwrap is for [http.ResponseController].
func (s slow) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write implements [http.ResponseWriter].
func (s slow) Write(b []byte) (int, error) {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTime)) // a recorder of tests has none
	return s.ResponseWriter.Write(b)
}

// FlushError is for [http.ResponseController].
func (s slow) FlushError() error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTime))
	err := s.rc.Flush()
	_ = s.rc.SetWriteDeadline(time.Now().Add(pauseTime))
	return err
}
