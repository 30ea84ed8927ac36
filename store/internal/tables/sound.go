package tables

import (
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// SoundValue tells what is wrong with an entry, as far as the entry alone can tell.
func SoundValue(table string, k, v []byte) (err error) {
	want := func(n int) error {
		if len(k) != n {
			return fmt.Errorf("%w: the key has %d bytes, not %d", store.ErrCorrupt, len(k), n)
		}
		return nil
	}
	if kind, ok := strings.CutPrefix(table, RecordsPrefix); ok {
		_, err := RecordAt(effects.Kind(kind), k, v, new(Texts))
		return err
	}
	if strings.HasPrefix(table, BasePrefix) {
		kind, id, ok := splitBaseKey(k)
		if !ok {
			return fmt.Errorf("%w: the key is no kind and id", store.ErrCorrupt)
		}
		_, err := ParseRecord(effects.Kind(kind), id, v, new(Texts))
		return err
	}
	switch table {
	case NameJournal:
		if err = want(8); err == nil {
			_, err = parseEntry(k, v, new(Texts))
		}
	case NameEpochs:
		if err = want(8); err == nil {
			err = ParseJSON(k, v, &EpochValue{})
		}
	case NameOutbox:
		if err = want(effectLen); err == nil {
			_, err = parseOutbox(k, v)
		}
	case NameWebhooks:
		err = want(IDLen) // its checksum is in the other table: who reads it looks
	case NameWebhooksInfo:
		if err = want(IDLen); err == nil {
			_, _, err = parseWebhookInfo(k, v)
		}
	case NameRunLogs:
		if err = want(effectLen); err == nil {
			_, err = parseRunLog(k, v)
		}
	case NameAnswers:
		if err = want(answerKeyLen); err == nil {
			_, err = parseAnswer(k, v)
		}
	case NameAnswered:
		err = want(8 + answerKeyLen)
	case NameClaims:
		_, err = ParseClaim(k, v)
	case NameQuarantine:
		err = ParseJSON(k, v, &QuarantineValue{})
	case NameMeta:
		_, err = parseMeta(k, v)
	case NameSystem:
		_, err = unseal(v, sumOf(k))
	case NameDue:
		err = want(len(store.DueKey{}))
	}
	return err
}

// WaitKeyOf gives the key in the waiting index that belongs to an outbox entry; nil: it waits for nobody.
func WaitKeyOf(k, v []byte) ([]byte, error) {
	o, err := parseOutbox(k, v)
	if err != nil || len(o.holder) > 0 {
		return nil, err
	}
	return AppendWaitKey(nil, string(o.lane), o.seq, k), nil
}
