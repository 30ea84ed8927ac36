package core

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// Names under which an answer is kept that is no state, so that a request that comes again gets the same one from
// another process.
const (
	answerQueueItems       = "queue_items"
	answerQueueMoved       = "queue_moved"
	answerJobApplied       = "job_applied"
	answerJobTriggered     = "job_triggered"
	answerRecurringChanged = "recurring_changed"
)

func answerName(v effects.Value) string {
	switch v.(type) {
	case QueueItems:
		return answerQueueItems
	case QueueMoved:
		return answerQueueMoved
	case JobApplied:
		return answerJobApplied
	case JobTriggered:
		return answerJobTriggered
	case RecurringChanged:
		return answerRecurringChanged
	}
	return ""
}

func decodeAnswerAs[V effects.Value](b []byte) (effects.Value, error) {
	var v V
	err := json.Unmarshal(b, &v)
	return v, err
}

// answerState begins the name of an answer that is a state; its kind follows.
const answerState = "state/"

// EncodeAnswer gives the form in which what a machine has answered is kept: its name, a line feed, and its own form byte for
// byte; nothing for nil.
func EncodeAnswer(v effects.Value) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	name := answerName(v)
	if s, ok := v.(State); ok {
		name = answerState + string(s.Ref().Kind)
	}
	if name == "" {
		return nil, fmt.Errorf("encode answer: %T has no name", v)
	}
	return v.AppendJSON([]byte(name + "\n")), nil
}

// DecodeAnswer reads what EncodeAnswer gave.
func DecodeAnswer(b []byte) (effects.Value, error) {
	if len(b) == 0 {
		return nil, nil
	}
	name, value, _ := bytes.Cut(b, []byte("\n"))
	if kind, ok := bytes.CutPrefix(name, []byte(answerState)); ok {
		return DecodeState(effects.Kind(kind), value)
	}
	switch string(name) {
	case answerQueueItems:
		return decodeAnswerAs[QueueItems](value)
	case answerQueueMoved:
		return decodeAnswerAs[QueueMoved](value)
	case answerJobApplied:
		return decodeAnswerAs[JobApplied](value)
	case answerJobTriggered:
		return decodeAnswerAs[JobTriggered](value)
	case answerRecurringChanged:
		return decodeAnswerAs[RecurringChanged](value)
	}
	return nil, fmt.Errorf("decode answer: %q is unknown", clip(string(name)))
}
