// Package audit keeps a log of requests: who asked for what, when, and how it was
// answered. The log is a folder of segment files with a JSON object on each line, so that
// it can be read without this program.
//
//   - entry.go: one line;
//   - merge.go: what is one line with a count;
//   - log.go: the [Log], whose one goroutine writes;
//   - segments.go: the files, their sizes and their end;
//   - read.go, filter.go: the lines again, newest first.
//
// The lines of each source - a token, a webhook route, everybody without a token - stand in
// segments of its own. If the log grows too large, the source that fills most of it loses
// its oldest segment: a flood of one pushes out its own lines, and nobody else's.
//
// The log is not tamper-proof: who may write the folder may change it. It does not delay
// answers: a line is written at once after its answer and synced to the disk within a
// second. So a kill of the process loses the lines of the last moment, and a power cut
// those of the last second; what was changed stands in the journal in any case.
package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Entry is one line of the log: a request, or several equal ones of a minute.
type Entry struct {
	// Seq is the entry's number, which grows: the microseconds since 1970, or one more
	// than the last where the clock stands or is set back. [Log.Add] sets it.
	Seq uint64 `json:"seq"`
	// At is when the request was answered, by the machine's clock; of several, when the last
	// one was. [Log.Add] sets it.
	At effects.Time `json:"at"`
	// Since is when the first one of several was answered; else it is At.
	Since effects.Time `json:"since"`
	// Count is how many requests the entry stands for. From 1.
	Count uint64 `json:"count"`
	// Token is the name of the bearer token; "" if none was accepted.
	Token string `json:"token"`
	// Actor is who the journal names: "api:TOKEN" or "webhook:ROUTE"; "" if nobody was
	// recognised.
	Actor string `json:"actor"`
	// Address is where the request came from, without the port.
	Address string `json:"address"`
	// Operation is the operation's name in openapi.json; see also [Unknown], [Lost] and [Other].
	Operation string `json:"operation"`
	// Path is what was asked for: the path of the request, or of what it made.
	Path string `json:"path"`
	// Namespace and Tenant are those of what the request was about, once it was known
	// that the token may see it; "" else.
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant"`
	// Status is that of the answer.
	Status int `json:"status"`
	// Reason says why a request was refused.
	Reason string `json:"reason"`
	// RequestID is the X-Request-Id of the answer; of several, of the first one.
	RequestID string `json:"request_id"`
	// Instance is the name of the process in whose log the line stands, where the logs of several are shown together. It stands in no log.
	Instance string `json:"instance,omitempty"`
}

// Operations that are none of the API's.
const (
	// Unknown is a request for a path or a method that does not exist, or one that was
	// refused before its path was looked at.
	Unknown = "unknown"
	// Other stands for the requests of a source whose kinds are too many for one minute.
	Other = "other"
	// Lost says that Count requests are missing, since their lines could not be written;
	// Reason says why.
	Lost = "audit.lost"
)

// Refused reports whether the request was answered with an error.
func (e *Entry) Refused() bool { return e.Status >= http.StatusBadRequest }

// Bounds of a line.
const (
	maxText = 256          // bytes of one value
	maxLine = 8 << 10      // bytes of the line: each of nine values may be escaped
	minTime = 946684800000 // milliseconds: the year 2000, before which no line was written
)

// clean bounds each value and escapes what could steer a terminal.
func (e *Entry) clean() {
	for _, v := range []*string{&e.Token, &e.Actor, &e.Address, &e.Operation, &e.Path, &e.Namespace, &e.Tenant, &e.Reason, &e.RequestID} {
		*v = printable(*v)
	}
}

// printable keeps the beginning of a text, and writes what is not printable as \u{HEX}.
func printable(s string) string {
	s = texts.Bound(s, maxText)
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return texts.Bound(b.String(), maxText)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// line is the entry as it stands in a segment.
func (e *Entry) line() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e) // texts and numbers always encode
	return b.Bytes()
}

// parse reads a line. Its error says what is wrong with it: a line that was torn by the end
// of the process, or that somebody changed.
func parse(line []byte) (Entry, error) {
	var e Entry
	if len(line) > maxLine {
		return e, fmt.Errorf("the line has more than %d bytes", maxLine)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if err := dec.Decode(&e); err != nil {
		return e, fmt.Errorf("the line is no entry: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return e, errors.New("the line has more than one entry")
	}
	if e.Seq == 0 || e.Count == 0 || e.At < minTime {
		return e, errors.New("the line has no seq, count or time")
	}
	e.Instance = ""
	e.clean() // who changed a file does not steer the reader's terminal
	return e, nil
}
