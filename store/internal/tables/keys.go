package tables

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// The tables:
//
//	system          format: the format of the file; token: the last claim token
//	records/KIND    id (16) → envelope
//	lists/KIND      length of the term's name (2), name, at (8), id (16) → "" or "#" where counted
//	counts          KIND, 0, term's name → decimal
//	due             milliseconds (8), id (16) → KIND, or KIND/SHARE (see due.go); several with blanks between
//	journal         number (8) → the batch's entry
//	epochs          number (8) → envelope
//	changes         number (8) → what the batch changed
//	bases           number (8), epoch (8), KIND, 0, id (16) → a record's envelope as it was before its first change in an epoch
//	base/NUMBER     KIND, 0, id (16) → the same, of epochs that an earlier build began
//	outbox          id (16), n (4) → envelope
//	waiting         length of the lane's name (2), name, batch (8), outbox key (20) → ""
//	webhooks        id (16) → the raw body
//	webhooks-info   id (16) → envelope
//	run-logs        id (16), attempt (4) → checksum of key and text (4), the text as it was written
//	answers         the request's key (32) → checksum of key and rest (4), when (8), the answer
//	answered        when (8), the request's key (32) → ""
//	claims          name → envelope
//	quarantine      at (8), id (16), KIND, of an outbox entry n (4) → envelope
//	meta            name → envelope
//
// Keys of journal, changes and bases only grow, and go from below, so that a backing may keep them in
// another way than the rest.
//
// Numbers are big endian; times that may be negative have their sign bit
// flipped, so that byte order is their order.
// Names of the tables that every store has.
const (
	NameSystem       = "system"
	NameCounts       = "counts"
	NameDue          = "due"
	NameJournal      = "journal"
	NameEpochs       = "epochs"
	NameOutbox       = "outbox"
	NameWaiting      = "waiting"
	NameWebhooks     = "webhooks"
	NameWebhooksInfo = "webhooks-info"
	NameClaims       = "claims"
	NameQuarantine   = "quarantine"
	NameMeta         = "meta"
	NameRunLogs      = "run-logs"
	NameChanges      = "changes"
	NameBases        = "bases"
	NameAnswers      = "answers"
	NameAnswered     = "answered"
)

// The same as numbers, by which a transaction finds the tables that it has opened.
const (
	inSystem = iota
	inCounts
	inDue
	inJournal
	inEpochs
	inOutbox
	inWaiting
	inWebhooks
	inWebhooksInfo
	inClaims
	inQuarantine
	inMeta
	inRunLogs
	inChanges
	inBases
	inAnswers
	inAnswered
	fixedTables
)

var fixedNames = [fixedTables]string{
	inSystem:       NameSystem,
	inCounts:       NameCounts,
	inDue:          NameDue,
	inJournal:      NameJournal,
	inEpochs:       NameEpochs,
	inOutbox:       NameOutbox,
	inWaiting:      NameWaiting,
	inWebhooks:     NameWebhooks,
	inWebhooksInfo: NameWebhooksInfo,
	inClaims:       NameClaims,
	inQuarantine:   NameQuarantine,
	inMeta:         NameMeta,
	inRunLogs:      NameRunLogs,
	inChanges:      NameChanges,
	inBases:        NameBases,
	inAnswers:      NameAnswers,
	inAnswered:     NameAnswered,
}

// FixedNames lists the tables that every store has.
func FixedNames() []string { return slices.Clone(fixedNames[:]) }

// Prefixes of the names of tables, of which there is one for each kind, or for each epoch of an earlier build.
const (
	RecordsPrefix = "records/"
	ListsPrefix   = "lists/"
	BasePrefix    = "base/"
)

func baseTable(epoch uint64) string { return fmt.Sprintf("%s%020d", BasePrefix, epoch) }

// Counted is the value of a list entry whose term is counted.
const Counted = "#"

// IDLen is the length of an id in a key.
const IDLen = len(uuid.UUID{})

const (
	listTail   = 8 + IDLen // at, id
	effectLen  = IDLen + 4
	waitTail   = 8 + effectLen // batch, outbox key
	lengthSize = 2
)

func appendName(b []byte, name string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
	return append(b, name...)
}

func appendTime(b []byte, t effects.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t)^(1<<63))
}

func timeOf(b []byte) effects.Time {
	return effects.Time(binary.BigEndian.Uint64(b) ^ (1 << 63))
}

// AppendListKey appends the key of an entry in a list index.
func AppendListKey(b []byte, term string, at effects.Time, id uuid.UUID) []byte {
	b = appendName(b, term)
	b = appendTime(b, at)
	return append(b, id[:]...)
}

// CountKey gives the key of a count. It is also the key of a record in a base, with its id for the term.
func CountKey[T string | []byte](kind effects.Kind, term T) []byte {
	b := make([]byte, 0, len(kind)+1+len(term))
	return append(append(append(b, kind...), 0), term...)
}

// splitBaseKey takes the key of a record in a base apart.
func splitBaseKey(k []byte) (kind []byte, id uuid.UUID, ok bool) {
	n := len(k) - IDLen - 1
	if n < 1 || k[n] != 0 {
		return nil, id, false
	}
	return k[:n], uuid.UUID(k[n+1:]), true
}

// SeqKey gives the key of a batch's number.
func SeqKey(seq uint64) (k [8]byte) {
	binary.BigEndian.PutUint64(k[:], seq)
	return k
}

func effectKeyBytes(key store.EffectKey) (k [effectLen]byte) {
	copy(k[:], key.ID[:])
	binary.BigEndian.PutUint32(k[IDLen:], key.N)
	return k
}

func effectKeyOf(b []byte) store.EffectKey {
	return store.EffectKey{ID: uuid.UUID(b[:IDLen]), N: binary.BigEndian.Uint32(b[IDLen:])}
}

// AppendWaitKey appends the key of a waiting outbox entry, whose own key is key.
func AppendWaitKey(b []byte, lane string, seq uint64, key []byte) []byte {
	b = appendName(b, lane)
	b = binary.BigEndian.AppendUint64(b, seq)
	return append(b, key...)
}

// AppendQuarantineKey appends the key of what is set aside.
func AppendQuarantineKey(b []byte, q *store.Quarantined) []byte {
	b = appendTime(b, q.At)
	b = append(b, q.ID[:]...)
	b = append(b, q.Kind...)
	if q.Kind == store.KindOutbox {
		b = binary.BigEndian.AppendUint32(b, q.N)
	}
	return b
}
