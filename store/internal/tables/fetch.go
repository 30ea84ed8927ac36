package tables

import (
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// FetchTx is a [Tx] over a backing that is a [Fetcher]: it is a [store.Fetcher], which the Tx of another
// backing is not, since for that it would only cost.
type FetchTx struct{ *Tx }

var _ store.Fetcher = FetchTx{}

// Fetch implements [store.Fetcher].
func (t FetchTx) Fetch(refs []effects.Ref, outbox []store.EffectKey, answers []store.AnswerKey) error {
	if err := t.check("fetch"); err != nil {
		return err
	}
	keys := recordKeys(make([]Key, 0, len(refs)+len(outbox)+len(answers)), refs)
	for _, key := range outbox {
		b := effectKeyBytes(key)
		keys = append(keys, Key{Table: NameOutbox, Key: b[:]})
	}
	for i := range answers {
		keys = append(keys, Key{Table: NameAnswers, Key: answers[i][:]})
	}
	return t.fetchKeys(keys)
}

func recordKeys(keys []Key, refs []effects.Ref) []Key {
	for i := range refs {
		keys = append(keys, Key{Table: RecordsPrefix + string(refs[i].Kind), Key: refs[i].ID[:]})
	}
	return keys
}

// fetch has records ready, where that pays.
func (t *ReadTx) fetch(refs []effects.Ref) error {
	if _, ok := t.b.(Fetcher); !ok || len(refs) < 2 {
		return nil
	}
	return t.fetchKeys(recordKeys(make([]Key, 0, len(refs)), refs))
}

func (t *ReadTx) fetchKeys(keys []Key) (err error) {
	defer Guard("fetch", &err)
	if f, ok := t.b.(Fetcher); ok && len(keys) > 0 {
		f.Fetch(keys)
	}
	return nil
}
