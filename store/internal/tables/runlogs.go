package tables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/store"
)

// The logs of runs stand verbatim behind a checksum: they are no JSON, may be
// large, and are read whole.

const logSumLen = 4

func runLogKey(run uuid.UUID, attempt uint32) [effectLen]byte {
	return effectKeyBytes(store.EffectKey{ID: run, N: attempt}) // the same form: an id and a number
}

func appendRunLog(b, key, text []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, crc32.Update(uint32(sumOf(key)), castagnoli, text))
	return append(b, text...)
}

func parseRunLog(key, raw []byte) ([]byte, error) {
	if len(raw) < logSumLen {
		return nil, fmt.Errorf("%w: the log has %d bytes, no room for a checksum", store.ErrCorrupt, len(raw))
	}
	want, text := binary.BigEndian.Uint32(raw), raw[logSumLen:]
	if got := crc32.Update(uint32(sumOf(key)), castagnoli, text); got != want {
		return nil, fmt.Errorf("%w: the checksum is %08x, the content has %08x", store.ErrCorrupt, want, got)
	}
	return text, nil
}

func runLogError(op string, run uuid.UUID, attempt uint32, err error) error {
	return fmt.Errorf("%s %s, attempt %d: %w", op, run, attempt, err)
}

// RunLog implements [store.ReadTx].
func (t *ReadTx) RunLog(run uuid.UUID, attempt uint32) ([]byte, error) {
	const op = "run log"
	if err := t.check(op); err != nil {
		return nil, err
	}
	text, err := t.runLog(op, runLogKey(run, attempt))
	if err != nil {
		return nil, runLogError(op, run, attempt, err)
	}
	return text, nil
}

func (t *ReadTx) runLog(op string, key [effectLen]byte) (text []byte, err error) {
	defer Guard(op, &err)
	raw, ok := t.table(inRunLogs).Get(key[:])
	if !ok {
		return nil, store.ErrNotFound
	}
	return parseRunLog(key[:], raw)
}

// PutRunLog implements [store.Tx].
func (t *Tx) PutRunLog(run uuid.UUID, attempt uint32, text []byte) (err error) {
	const op = "put run log"
	if err := t.check(op); err != nil {
		return err
	}
	defer Guard(op, &err)
	if err := store.ValidateRunLog(run, text); err != nil {
		return runLogError(op, run, attempt, err)
	}
	key := runLogKey(run, attempt)
	t.scratch = appendRunLog(t.scratch[:0], key[:], text)
	t.table(inRunLogs).Put(key[:], t.scratch)
	return nil
}

// DeleteRunLogs implements [store.Tx].
func (t *Tx) DeleteRunLogs(run uuid.UUID) (err error) {
	const op = "delete run logs"
	if err := t.check(op); err != nil {
		return err
	}
	defer Guard(op, &err)
	logs := t.table(inRunLogs)
	for k, _ := logs.walk().Seek(run[:]); bytes.HasPrefix(k, run[:]); k, _ = logs.walk().Next() {
		logs.Delete(k)
	}
	return nil
}
