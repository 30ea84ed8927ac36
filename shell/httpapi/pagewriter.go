package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// pageWriter sends a page of a list while it is being read: what was encoded leaves as
// soon as it is a packet's worth, so that a page is never in memory as a whole. A fault
// after that breaks the answer off.
type pageWriter struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	buf      bytes.Buffer
	begun    bool
	elements int
	bytes    int
	damaged  func() int // counts the records that could not be read
	oneALine bool       // nothing but the elements: see lines
	members  string     // of the answer, behind the list
}

const (
	pagePacket = 32 << 10         // bytes that are sent at a time
	pageWrite  = 30 * time.Second // how long a reader may take for them
)

func newPageWriter(w http.ResponseWriter, field string) *pageWriter {
	p := &pageWriter{w: w, rc: http.NewResponseController(w)}
	p.buf.WriteString(`{"` + field + `":[`)
	return p
}

// add adds an element.
func (p *pageWriter) add(v any) error {
	b, err := plainjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if p.elements > 0 && !p.oneALine {
		p.buf.WriteByte(',')
	}
	p.buf.Write(b)
	if p.oneALine {
		p.buf.WriteByte('\n')
	}
	p.elements++
	p.bytes += len(b)
	if p.buf.Len() < pagePacket {
		return nil
	}
	return p.send()
}

// beside adds a member behind the list; without a name none.
func (p *pageWriter) beside(name string, v any) error {
	if name == "" {
		return nil
	}
	b, err := plainjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	p.members += `,"` + name + `":` + string(b)
	return nil
}

// end adds the token to go on by; short leaves out an empty one.
func (p *pageWriter) end(token string, short bool) error {
	if p.oneALine {
		return p.endLines(token)
	}
	p.buf.WriteByte(']')
	p.buf.WriteString(p.members)
	if token != "" || !short {
		p.buf.WriteString(`,"next_page_token":"` + token + `"`)
	}
	p.buf.WriteString("}\n")
	if p.begun {
		p.tell(http.TrailerPrefix)
	}
	return p.send()
}

// headerDamaged says how many records a page leaves out because they cannot be read.
const headerDamaged = "Orrery-Damaged"

// tell tells how many records could not be read, if there are any: in the header, or, when
// that has been sent, in the trailer.
func (p *pageWriter) tell(prefix string) {
	if n := p.damaged(); n > 0 {
		p.w.Header().Set(prefix+headerDamaged, strconv.Itoa(n))
	}
}

// send sends what is encoded, in pieces that also a slow reader takes in time.
func (p *pageWriter) send() error {
	if !p.begun {
		p.begun = true
		p.tell("")
		media := "application/json"
		if p.oneALine {
			media = mediaLines
		}
		p.w.Header().Set("Content-Type", media)
		p.w.WriteHeader(http.StatusOK)
	}
	for b := p.buf.Bytes(); len(b) > 0; {
		n := min(len(b), tailChunk)
		// A deadline for each piece; a recorder of tests has none.
		_ = p.rc.SetWriteDeadline(time.Now().Add(pageWrite))
		if _, err := p.w.Write(b[:n]); err != nil {
			return fmt.Errorf("send a page: %w", err)
		}
		b = b[n:]
	}
	p.buf.Reset()
	if p.buf.Cap() > 4*pagePacket { // of a large element
		p.buf = bytes.Buffer{}
	}
	return nil
}

// maxPageReads bounds the chunks of lists that are read and decoded at a time.
const maxPageReads = 4

// readChunk reads a chunk of a page, within the time that a request may wait for the
// engine. Of all lists together few do so at a time: a chunk may have one record of any
// size.
func readChunk[S any](ctx context.Context, s *Server, next func(context.Context, shell.Page) ([]S, string, error), p shell.Page) ([]S, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	select {
	case s.pageReads <- struct{}{}:
		defer func() { <-s.pageReads }()
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	return next(ctx, p)
}
