package memory

import (
	"bytes"
	"fmt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Answer implements [store.ReadTx].
func (t *readTx) Answer(key store.AnswerKey) (store.Answer, error) {
	return find(t, "answer", t.data.answers, key, fmt.Sprintf("%x", key))
}

// PutAnswer implements [store.Tx].
func (t *tx) PutAnswer(key store.AnswerKey, a store.Answer) error {
	if err := t.check("put answer"); err != nil {
		return err
	}
	if old, ok := t.data.answers.get(key); ok {
		t.data.answered.del(answeredKey{old.At, key})
	}
	a.Body = bytes.Clone(a.Body)
	t.data.answers.put(key, a)
	t.data.answered.put(answeredKey{a.At, key}, struct{}{})
	return nil
}

// DropAnswers implements [store.Tx].
func (t *tx) DropAnswers(before effects.Time, limit int) (int, error) {
	if err := t.check("drop answers"); err != nil {
		return 0, err
	}
	var gone []answeredKey
	for k := range t.data.answered.all() {
		if len(gone) == limit || k.at >= before {
			break
		}
		gone = append(gone, k)
	}
	for _, k := range gone {
		t.data.answered.del(k)
		t.data.answers.del(k.key)
	}
	return len(gone), nil
}
