package httpapi

import (
	"bytes"
	"maps"
	"net/http"
	"time"
)

// unless is an answer that is held back if it has one status, so that another one may take its place.
type unless struct {
	w       http.ResponseWriter
	missing int // the status

	header http.Header // until the answer has begun; then it is that of w
	begun  bool
	held   bool
	body   bytes.Buffer
}

func (u *unless) Header() http.Header {
	if u.begun && !u.held {
		return u.w.Header()
	}
	if u.header == nil {
		u.header = u.w.Header().Clone()
		if u.header == nil {
			u.header = make(http.Header)
		}
	}
	return u.header
}

func (u *unless) WriteHeader(status int) {
	switch {
	case status < http.StatusOK && !u.begun:
		u.w.WriteHeader(status)
		return
	case u.begun:
		return
	}
	header := u.Header()
	u.begun, u.held = true, status == u.missing
	if !u.held {
		replace(u.w.Header(), header)
		u.w.WriteHeader(status)
	}
}

// replace has a header be as another one.
func replace(h, by http.Header) {
	clear(h)
	maps.Copy(h, by)
}

func (u *unless) Write(b []byte) (int, error) {
	u.WriteHeader(http.StatusOK)
	if u.held {
		if u.body.Len() < maxRefusal {
			u.body.Write(b)
		}
		return len(b), nil
	}
	return u.w.Write(b)
}

// swallowed reports whether the answer is held back.
func (u *unless) swallowed() bool { return u.held }

// release sends what is held back.
func (u *unless) release() {
	replace(u.w.Header(), u.header)
	u.w.WriteHeader(u.missing)
	_, _ = u.w.Write(u.body.Bytes())
}

// FlushError, SetReadDeadline, SetWriteDeadline and EnableFullDuplex are for [http.ResponseController]: the connection is that of the answer, as long as that is
// not held back.
func (u *unless) FlushError() error {
	u.WriteHeader(http.StatusOK)
	if u.held {
		return nil
	}
	return http.NewResponseController(u.w).Flush()
}

func (u *unless) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(u.w).SetReadDeadline(t)
}

func (u *unless) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(u.w).SetWriteDeadline(t)
}

func (u *unless) EnableFullDuplex() error { return http.NewResponseController(u.w).EnableFullDuplex() }
