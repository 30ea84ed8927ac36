package stream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Options of [Write] are what its head says. All may be left out.
type Options struct {
	By       string         // the version of the program
	Core     string         // core.Version
	At       effects.Time   // now
	Progress func(Progress) // called after each block, by the goroutine that writes; nil: nobody is told
}

// Write writes a stream of all that from holds, as one View sees it. What it has written counts
// only if it returns nil. If something was damaged, the summary says what the stream lacks.
// It stops soon after the context ends.
func Write(ctx context.Context, w io.Writer, from store.Exporter, o Options) (Summary, error) {
	out := &writer{ctx: ctx, w: w, o: o, sum: sha256.New(), summary: Summary{Entries: map[string]uint64{}}}
	err := from.Export(ctx, out)
	if err == nil {
		err = out.finish()
	}
	out.summary.Bytes = out.at
	return out.summary, err
}

// writer is the [store.Sink] that writes a stream.
type writer struct {
	ctx     context.Context // of the one call of Write
	w       io.Writer
	o       Options
	sum     hash.Hash
	at      int64 // bytes that were written
	done    int64 // bytes of entries before they were compressed
	blocks  uint64
	entries uint64
	section section // of the entries in raw
	count   uint32
	raw     []byte
	packed  []byte
	summary Summary
}

func (w *writer) write(b []byte) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	n, err := w.w.Write(b)
	w.at += int64(n)
	_, _ = w.sum.Write(b) // it never fails
	return err
}

// in gives the room for an entry of a section, which added must get back.
func (w *writer) in(s section) ([]byte, error) {
	if w.section != s {
		if err := w.flush(); err != nil {
			return nil, err
		}
		w.section = s
	}
	return w.raw, nil
}

func (w *writer) added(b []byte) error {
	w.raw = b
	w.count++
	if len(b) < blockSize {
		return nil
	}
	return w.flush()
}

// add adds an entry to a section.
func (w *writer) add(s section, appendTo func(b []byte) []byte) error {
	b, err := w.in(s)
	if err != nil {
		return err
	}
	return w.added(appendTo(b))
}

// flush writes the block that was gathered.
func (w *writer) flush() error {
	if w.count == 0 {
		return nil
	}
	if len(w.raw) > maxBlock {
		return fmt.Errorf("an entry of the %s has %d bytes: at most %d", w.section, len(w.raw), maxBlock)
	}
	out := append(w.packed[:0], make([]byte, blockHead)...)
	out = encoder.EncodeAll(w.raw, out)
	w.blocks++
	h := head{number: w.blocks, section: w.section, count: w.count, raw: uint32(len(w.raw)), packed: uint32(len(out) - blockHead)}
	h.sum = crc32.Checksum(out[blockHead:], castagnoli)
	h.put(out)
	if err := w.write(out); err != nil {
		return err
	}
	if w.section != sectionHead && w.section != sectionEnd {
		w.summary.Entries[w.section.String()] += uint64(w.count)
		w.entries += uint64(w.count)
	}
	w.done += int64(len(w.raw))
	w.packed, w.raw, w.count = out, w.raw[:0], 0
	if cap(w.raw)+cap(w.packed) > 16*blockSize { // an entry far beyond the usual
		w.raw, w.packed = nil, nil
	}
	if w.o.Progress != nil {
		w.o.Progress(Progress{Section: w.section.String(), Entries: w.entries, Bytes: w.at, Raw: w.done, About: w.summary.Head.Bytes})
	}
	return nil
}

func (w *writer) addJSON(s section, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.add(s, func(b []byte) []byte { return append(b, text...) })
}

func (w *writer) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if w.summary.Head.Program == "" {
		return errors.New("the store gave no head")
	}
	if err := w.addJSON(sectionEnd, end{Entries: w.summary.Entries, SHA256: hex.EncodeToString(w.sum.Sum(nil))}); err != nil {
		return err
	}
	return w.flush()
}

// Begin implements [store.Sink].
func (w *writer) Begin(h store.Head) error {
	if err := w.write([]byte(Magic)); err != nil {
		return err
	}
	w.summary.Head = Head{Program: program, By: w.o.By, Core: w.o.Core, At: w.o.At, Head: h}
	if err := w.addJSON(sectionHead, w.summary.Head); err != nil {
		return err
	}
	return w.flush()
}

// Record implements [store.Sink].
func (w *writer) Record(r store.Record) error {
	return w.add(sectionRecords, func(b []byte) []byte { return appendRecord(b, &r) })
}

// Due implements [store.Sink].
func (w *writer) Due(d store.DueEntry) error {
	return w.add(sectionDue, func(b []byte) []byte { return appendDue(b, &d) })
}

// Term implements [store.Sink].
func (w *writer) Term(kind effects.Kind, id uuid.UUID, t store.Term) error {
	return w.add(sectionTerms, func(b []byte) []byte {
		b = appendTime(appendText(appendID(appendText(b, kind), id), t.Name), t.At)
		if t.Counted {
			return append(b, flagCounted)
		}
		return append(b, 0)
	})
}

// Outbox implements [store.Sink].
func (w *writer) Outbox(e store.OutboxEntry) error {
	return w.add(sectionOutbox, func(b []byte) []byte { return appendOutbox(b, &e) })
}

// Webhook implements [store.Sink].
func (w *writer) Webhook(h store.Webhook) error {
	return w.add(sectionWebhooks, func(b []byte) []byte {
		b = appendText(appendText(appendID(b, h.ID), h.Route), h.Header)
		return appendText(appendTime(b, h.ReceivedAt), h.Body)
	})
}

// RunLog implements [store.Sink].
func (w *writer) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	return w.add(sectionRunLogs, func(b []byte) []byte {
		return appendText(binary.AppendUvarint(appendID(b, run), uint64(attempt)), text)
	})
}

// Claim implements [store.Sink].
func (w *writer) Claim(c store.Claim) error {
	return w.add(sectionClaims, func(b []byte) []byte {
		b = binary.AppendUvarint(appendText(appendText(b, c.Name), c.Holder), c.Token)
		return appendTime(appendTime(appendText(b, c.Session), c.Renewed), c.Until)
	})
}

// Quarantined implements [store.Sink].
func (w *writer) Quarantined(q store.Quarantined) error {
	return w.add(sectionQuarantine, func(b []byte) []byte {
		b = binary.AppendUvarint(appendID(appendText(b, q.Kind), q.ID), uint64(q.N))
		b = appendText(appendTime(b, q.At), q.Reason)
		if q.Raw == nil {
			return append(b, 0)
		}
		return appendText(append(b, flagRaw), q.Raw)
	})
}

// Meta implements [store.Sink].
func (w *writer) Meta(name string, value []byte) error {
	return w.add(sectionMeta, func(b []byte) []byte { return appendText(appendText(b, name), value) })
}

// Base implements [store.Sink].
func (w *writer) Base(epoch, seq uint64, r store.Record) error {
	return w.add(sectionJournal, func(b []byte) []byte {
		return appendRecord(binary.AppendUvarint(binary.AppendUvarint(append(b, isBase), epoch), seq), &r)
	})
}

// Batch implements [store.Sink].
func (w *writer) Batch(at effects.Time, batch store.Batch) error {
	return w.add(sectionJournal, func(b []byte) []byte { return appendBatch(append(b, isBatch), at, &batch) })
}

// Epoch implements [store.Sink].
func (w *writer) Epoch(e store.Epoch) error {
	return w.add(sectionEpochs, func(b []byte) []byte {
		return appendTime(binary.AppendUvarint(binary.AppendUvarint(b, e.Number), e.First), e.Started)
	})
}

// Omitted implements [store.Sink].
func (w *writer) Omitted(o store.Omission) error {
	w.summary.omit(o)
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return w.add(sectionOmitted, func(b []byte) []byte { return appendText(b, text) })
}
