package tables

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// What requests were answered stands behind a checksum and the time, and its keys by time in a table of their own: so what
// is old is found, and forgotten, without reading the rest.

const (
	answerKeyLen = len(store.AnswerKey{})
	answerHead   = 4 + 8 // checksum, time
)

func appendAnswer(b, key []byte, a store.Answer) []byte {
	b = append(b, make([]byte, 4)...)
	b = appendTime(b, a.At)
	b = append(b, a.Body...)
	binary.BigEndian.PutUint32(b, crc32.Update(uint32(sumOf(key)), castagnoli, b[4:]))
	return b
}

func parseAnswer(key, raw []byte) (store.Answer, error) {
	if len(raw) < answerHead {
		return store.Answer{}, fmt.Errorf("%w: the answer has %d bytes, want at least %d", store.ErrCorrupt, len(raw), answerHead)
	}
	want, rest := binary.BigEndian.Uint32(raw), raw[4:]
	if got := crc32.Update(uint32(sumOf(key)), castagnoli, rest); got != want {
		return store.Answer{}, fmt.Errorf("%w: the checksum is %08x, the content has %08x", store.ErrCorrupt, want, got)
	}
	return store.Answer{At: timeOf(rest), Body: rest[8:]}, nil
}

func appendAnswered(b []byte, at effects.Time, key []byte) []byte {
	return append(appendTime(b, at), key...)
}

// AnsweredKeyOf gives the key that belongs to an answer in the table of their times.
func AnsweredKeyOf(k, v []byte) ([]byte, error) {
	a, err := parseAnswer(k, v)
	if err != nil {
		return nil, err
	}
	return appendAnswered(nil, a.At, k), nil
}

// Answer implements [store.ReadTx].
func (t *ReadTx) Answer(key store.AnswerKey) (a store.Answer, err error) {
	const op = "answer"
	if err := t.check(op); err != nil {
		return a, err
	}
	defer Guard(op, &err)
	raw, ok := t.table(inAnswers).Get(key[:])
	if !ok {
		return a, fmt.Errorf("%s %x: %w", op, key, store.ErrNotFound)
	}
	if a, err = parseAnswer(key[:], raw); err != nil {
		return a, fmt.Errorf("%s %x: %w", op, key, err)
	}
	return a, nil
}

// PutAnswer implements [store.Tx].
func (t *Tx) PutAnswer(key store.AnswerKey, a store.Answer) (err error) {
	const op = "put answer"
	if err := t.check(op); err != nil {
		return err
	}
	defer Guard(op, &err)
	answers, answered := t.table(inAnswers), t.table(inAnswered)
	if raw, ok := answers.Get(key[:]); ok {
		if len(raw) >= answerHead { // also of one that is damaged elsewhere: its place must not take the new one along
			answered.Delete(appendAnswered(nil, timeOf(raw[4:]), key[:]))
		}
	}
	a.At = ClampTime(a.At)
	t.scratch = appendAnswer(t.scratch[:0], key[:], a)
	answers.Put(key[:], t.scratch)
	answered.Put(appendAnswered(nil, a.At, key[:]), nil)
	return nil
}

// DropAnswers implements [store.Tx].
func (t *Tx) DropAnswers(before effects.Time, limit int) (dropped int, err error) {
	const op = "drop answers"
	if err := t.check(op); err != nil {
		return 0, err
	}
	defer Guard(op, &err)
	answers, answered := t.table(inAnswers), t.table(inAnswered)
	var gone [][]byte
	for k, _ := answered.walk().First(); k != nil && len(gone) < limit; k, _ = answered.walk().Next() {
		if len(k) == 8+answerKeyLen && timeOf(k) >= before {
			break
		}
		gone = append(gone, append([]byte(nil), k...))
	}
	for _, k := range gone {
		answered.Delete(k)
		if len(k) == 8+answerKeyLen { // else it is damaged: nobody knows whose place it was
			answers.Delete(k[8:]) // unread: it may be large, and in a database behind a network each would be a query
		}
	}
	return len(gone), nil
}
