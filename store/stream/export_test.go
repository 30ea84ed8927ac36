package stream

import (
	"bytes"
	"context"

	"github.com/orrery-go/orrery/store"
)

// Forge makes a stream with a head and one block of a section that holds these bytes, of which
// each checksum is right.
func Forge(s byte, raw []byte) []byte {
	var b bytes.Buffer
	_, _ = Write(context.Background(), &b, forged{section(s), raw}, Options{})
	return b.Bytes()
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
