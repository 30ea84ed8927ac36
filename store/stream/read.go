package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"strings"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Errors that callers decide on.
var (
	// ErrForeign: what was to be read does not begin as a stream.
	ErrForeign = errors.New("not a backup stream of Orrery")
	// ErrNewer: the stream has a format that this package does not know.
	ErrNewer = errors.New("a backup stream in a newer format")
)

// errForm: the checksums of a block are right, and its entries are none: so they were written.
var errForm = errors.New("an entry cannot be taken apart")

// Is reports whether a stream, or a part of its beginning of at least len(Magic) bytes, begins as one
// of any format does.
func Is(beginning []byte) bool {
	return strings.HasPrefix(string(beginning), "orrery stream ")
}

// Reader reads a stream. It is a [store.Exporter], whose Export can be called once. It is
// for one goroutine.
type Reader struct {
	r       io.Reader
	sum     hash.Hash
	at      int64 // bytes that were read
	done    int64
	blocks  uint64
	entries uint64
	last    section // of the last block
	packed  bytes.Buffer
	raw     []byte
	parser  parser
	begun   bool
	// Progress is called after each block; nil: nobody is told.
	Progress func(Progress)
	summary  Summary
}

// NewReader reads the head of a stream. It fails with [ErrForeign], [ErrNewer] or [store.ErrCorrupt].
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{r: from, sum: sha256.New(), summary: Summary{Entries: map[string]uint64{}}}
	magic := make([]byte, len(Magic))
	switch _, err := io.ReadFull(from, magic); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: it has less than %d bytes", ErrForeign, len(Magic))
	case err != nil:
		return nil, err
	case !Is(magic):
		return nil, fmt.Errorf("%w: it begins with %q", ErrForeign, magic)
	case string(magic) == magicWithoutShares:
		r.parser.noShares = true
	case string(magic) != Magic:
		return nil, fmt.Errorf("%w: it begins with %q, this program reads %q", ErrNewer, magic, Magic)
	}
	r.at = int64(len(magic))
	_, _ = r.sum.Write(magic)
	h, raw, err := r.block()
	if err != nil {
		return nil, err
	}
	if h.section != sectionHead || json.Unmarshal(raw, &r.summary.Head) != nil || r.summary.Head.Program != program {
		return nil, r.corrupt("the stream does not begin with a head of " + program)
	}
	return r, nil
}

// Head gives what the stream begins with.
func (r *Reader) Head() Head { return r.summary.Head }

// Summary gives what was read. It is whole after Export has returned nil.
func (r *Reader) Summary() Summary {
	s := r.summary
	s.Bytes, s.Entries = r.at, maps.Clone(s.Entries)
	return s
}

// corrupt says where the stream is wrong: in the block that was read last, or behind it.
func (r *Reader) corrupt(what string) error {
	return fmt.Errorf("%w: the backup stream at byte %d, in block %d, behind %d entries, the last of them %s: %s",
		store.ErrCorrupt, r.at, r.blocks+1, r.entries, r.last, what)
}

// full reads all of b, and tells where the stream ends before that.
func (r *Reader) full(b []byte) error {
	n, err := io.ReadFull(r.r, b)
	return r.brokeOff(int64(n), err)
}

// brokeOff is the error of what gives the stream, which gave n bytes more before it. An HTTP body whose
// connection breaks ends with [io.ErrUnexpectedEOF].
func (r *Reader) brokeOff(n int64, err error) error {
	if err == nil {
		return nil
	}
	r.at += n
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.corrupt("it is cut off there: the rest and its end are missing")
	}
	return fmt.Errorf("read the backup stream at byte %d: %w", r.at, err)
}

// block reads a block and checks it. What it gives is valid until the next one.
func (r *Reader) block() (h head, raw []byte, err error) {
	var b [blockHead]byte
	if err := r.full(b[:]); err != nil {
		return h, nil, err
	}
	h, wrong := parseHead(b[:])
	if wrong == "" && h.number != r.blocks+1 {
		wrong = fmt.Sprintf("block %d stands there", h.number)
	}
	if wrong != "" {
		return h, nil, r.corrupt(wrong)
	}
	// The length is believed only as far as there are bytes.
	r.packed.Reset()
	if n, err := io.CopyN(&r.packed, r.r, int64(h.packed)); err != nil {
		return h, nil, r.brokeOff(blockHead+n, err)
	}
	packed := r.packed.Bytes()
	if crc32.Checksum(packed, castagnoli) != h.sum {
		return h, nil, r.corrupt("the checksum of the block is wrong")
	}
	raw, err = unpack(packed, r.raw[:0], h.raw)
	if err != nil {
		return h, nil, r.corrupt(fmt.Sprintf("the block cannot be unpacked to %d bytes: %v", h.raw, err))
	}
	if h.section != sectionEnd { // which has the sum of all before it
		_, _ = r.sum.Write(b[:])
		_, _ = r.sum.Write(packed)
	}
	r.at += blockHead + int64(len(packed))
	r.done += int64(len(raw))
	r.blocks++
	if r.raw = raw; cap(raw)+r.packed.Cap() > 16*blockSize { // beyond the usual
		r.raw, r.packed = nil, bytes.Buffer{}
	}
	return h, raw, nil
}

// unpack unpacks a block to as many bytes as its head says. What the frame itself says is compared first,
// since the decoder makes room for that.
func unpack(packed, room []byte, size uint32) ([]byte, error) {
	var frame zstd.Header
	if err := frame.Decode(packed); err != nil {
		return nil, err
	}
	if frame.HasFCS && frame.FrameContentSize != uint64(size) {
		return nil, fmt.Errorf("it says that it has %d", frame.FrameContentSize)
	}
	raw, err := decoder.DecodeAll(packed, room)
	if err == nil && len(raw) != int(size) {
		err = fmt.Errorf("it has %d", len(raw))
	}
	return raw, err
}

// Export implements [store.Exporter]. It fails with [store.ErrCorrupt], which tells the place,
// if the stream was cut or changed.
func (r *Reader) Export(ctx context.Context, to store.Sink) error {
	if r.begun {
		return errors.New("a stream can be read once")
	}
	r.begun = true
	if err := to.Begin(r.summary.Head.Head); err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, raw, err := r.block()
		switch {
		case err != nil:
			return err
		case h.section == sectionEnd:
			return r.checkEnd(raw)
		case h.section < r.last:
			return r.corrupt(fmt.Sprintf("%s come behind %s", h.section, r.last))
		}
		if err := r.give(h, raw, to); err != nil {
			return err
		}
		if h.section != sectionOmitted { // which may stand anywhere
			r.last = h.section
		}
		r.summary.Entries[h.section.String()] += uint64(h.count)
		r.entries += uint64(h.count)
		if r.Progress != nil {
			r.Progress(Progress{Section: h.section.String(), Entries: r.entries, Bytes: r.at, Raw: r.done, About: r.summary.Head.Bytes})
		}
	}
}

// give hands the entries of a block on.
func (r *Reader) give(h head, raw []byte, to store.Sink) error {
	if h.section == sectionOmitted {
		to = noting{to, &r.summary}
	}
	r.parser.rest, r.parser.bad = raw, false
	for n := range h.count {
		switch err := r.parser.entry(h.section, to); {
		case errors.Is(err, errForm):
			return r.corrupt(fmt.Sprintf("entry %d of %d of the %s is none", n+1, h.count, h.section))
		case err != nil:
			return err
		}
	}
	if left := len(r.parser.rest); left > 0 {
		return r.corrupt(fmt.Sprintf("%d bytes are left behind the %s of the block", left, h.section))
	}
	return nil
}

// noting keeps omissions in the summary too.
type noting struct {
	store.Sink
	summary *Summary
}

func (n noting) Omitted(o store.Omission) error {
	n.summary.omit(o)
	return n.Sink.Omitted(o)
}

func (r *Reader) checkEnd(raw []byte) error {
	var e end
	switch err := json.Unmarshal(raw, &e); {
	case err != nil:
		return r.corrupt("its end is none")
	case e.SHA256 != hex.EncodeToString(r.sum.Sum(nil)):
		return r.corrupt("the sum of all bytes is another than its end says")
	case !maps.Equal(e.Entries, r.summary.Entries):
		return r.corrupt(fmt.Sprintf("it has the entries %v, its end says %v", r.summary.Entries, e.Entries))
	}
	var more [1]byte
	switch n, err := io.ReadFull(r.r, more[:]); {
	case n > 0:
		return r.corrupt("bytes follow its end")
	case !errors.Is(err, io.EOF):
		return r.brokeOff(0, err)
	}
	return nil
}

// Verify reads a stream to its end, and tells what it holds. progress is called after each block; nil:
// nobody is told.
func Verify(ctx context.Context, from io.Reader, progress func(Progress)) (Summary, error) {
	r, err := NewReader(from)
	if err != nil {
		return Summary{}, err
	}
	r.Progress = progress
	err = r.Export(ctx, Nothing{})
	return r.Summary(), err
}

// Nothing is a [store.Sink] that takes all and keeps nothing, to have an export read through. It is safe for concurrent use.
type Nothing struct{}

// Begin implements [store.Sink].
func (Nothing) Begin(store.Head) error { return nil }

// Record implements [store.Sink].
func (Nothing) Record(store.Record) error { return nil }

// Due implements [store.Sink].
func (Nothing) Due(store.DueEntry) error { return nil }

// Term implements [store.Sink].
func (Nothing) Term(effects.Kind, uuid.UUID, store.Term) error { return nil }

// Outbox implements [store.Sink].
func (Nothing) Outbox(store.OutboxEntry) error { return nil }

// Webhook implements [store.Sink].
func (Nothing) Webhook(store.Webhook) error { return nil }

// RunLog implements [store.Sink].
func (Nothing) RunLog(uuid.UUID, uint32, []byte) error { return nil }

// Claim implements [store.Sink].
func (Nothing) Claim(store.Claim) error { return nil }

// Quarantined implements [store.Sink].
func (Nothing) Quarantined(store.Quarantined) error { return nil }

// Meta implements [store.Sink].
func (Nothing) Meta(string, []byte) error { return nil }

// Base implements [store.Sink].
func (Nothing) Base(uint64, uint64, store.Record) error { return nil }

// Batch implements [store.Sink].
func (Nothing) Batch(effects.Time, store.Batch) error { return nil }

// Epoch implements [store.Sink].
func (Nothing) Epoch(store.Epoch) error { return nil }

// Omitted implements [store.Sink].
func (Nothing) Omitted(store.Omission) error { return nil }
