package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// MaxRunLog is how many bytes of an attempt's logs are stored at most.
const MaxRunLog = store.MaxRunLog

// PutLog stores what an attempt of a run has written (004 Log Retrieval),
// instead of what was stored of it before; it goes with the run's record. It is no
// state: no journal has it, and no replay. The error wraps [ErrNotFound] where there
// is no such run, and is a [*Refusal] where the run has had no such attempt, or the
// text has more than [MaxRunLog] bytes. The engine keeps the text until it returns.
func (r Runs) PutLog(ctx context.Context, run uuid.UUID, attempt uint32, text []byte) error {
	if len(text) > MaxRunLog {
		return refuseLog(run, fmt.Sprintf("text: %d bytes are more than %d: keep its head and its tail", len(text), MaxRunLog))
	}
	text = bytes.Clone(text) // a caller who goes leaves his request behind: the text must stay as it is
	_, err := r.e.loop.Do(ctx, engine.Request{Write: &engine.Write{
		Of: runRef(run), Size: len(text),
		Check: func(s core.State) error { return checkLog(s, run, attempt) },
		Put:   func(tx store.Tx) error { return tx.PutRunLog(run, attempt, text) },
	}})
	return err
}

// checkLog refuses the logs of an attempt that the run has not had.
func checkLog(s core.State, run uuid.UUID, attempt uint32) error {
	o, ok := s.(core.Orchestrator)
	switch {
	case !ok:
		return fmt.Errorf("%s %w", runRef(run), ErrNotFound)
	case attempt > o.RetryAttempt:
		return refuseLog(run, fmt.Sprintf("attempt: %d is to come: the run is at attempt %d", attempt, o.RetryAttempt))
	}
	return nil
}

func refuseLog(run uuid.UUID, reason string) error {
	return &Refusal{To: runRef(run), Event: "run_log", Code: effects.CodeInvalid, Reason: reason}
}

// Log reads what is stored of an attempt's logs. The error wraps [ErrNotFound]
// if nothing is stored, and [store.ErrCorrupt] if it cannot be read.
func (r Runs) Log(ctx context.Context, run uuid.UUID, attempt uint32) ([]byte, error) {
	var text []byte
	err := r.e.store.View(ctx, func(tx store.ReadTx) error {
		b, err := tx.RunLog(run, attempt)
		text = append([]byte{}, b...)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("log of attempt %d of run %s %w", attempt, run, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
