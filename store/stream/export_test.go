package stream

import (
	"bytes"
	"context"
	"errors"

	"github.com/orrery-go/orrery/store"
)

// Forge makes a stream with a head and one block of a section that holds these bytes, of which
// each checksum is right.
func Forge(s byte, raw []byte) []byte {
	var b bytes.Buffer
	_, _ = Write(context.Background(), &b, forged{section(s), raw}, Options{})
	return b.Bytes()
}

// Format1 makes a stream of format 1 with these entries of the due index.
func Format1(entries []store.DueEntry) []byte {
	var b bytes.Buffer
	_, _ = Write(context.Background(), &b, format1(entries), Options{})
	return b.Bytes()
}

type format1 []store.DueEntry

func (f format1) Export(_ context.Context, to store.Sink) error {
	w := to.(*writer)
	w.summary.Head.Program = program
	err := errors.Join(w.write([]byte(magicWithoutShares)), w.addJSON(sectionHead, w.summary.Head), w.flush())
	for _, d := range f {
		err = errors.Join(err, w.add(sectionDue, func(b []byte) []byte { return appendText(append(b, d.Key[:]...), d.Kind) }))
	}
	return err
}

type forged struct {
	section section
	raw     []byte
}

func (f forged) Export(_ context.Context, to store.Sink) error {
	w := to.(*writer)
	if err := w.Begin(store.Head{}); err != nil {
		return err
	}
	return w.add(f.section, func(b []byte) []byte { return append(b, f.raw...) })
}
