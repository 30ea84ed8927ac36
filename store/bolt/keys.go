package bolt

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// The buckets, all at the top level, so that a batch changes few pages:
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
//	claims          name → envelope
//	quarantine      at (8), id (16), KIND, of an outbox entry n (4) → envelope
//	meta            name → envelope
//	log             state: how the file and its log belong together; package kv has it
//
// What a checkpoint brings out of the log of journal, changes and bases goes into the files of
// an archive beside the file; the buckets have what an earlier build, or a backup, has put there.
//
// Numbers are big endian; times that may be negative have their sign bit
// flipped, so that byte order is their order.
const (
	bucketSystem = iota
	bucketCounts
	bucketDue
	bucketJournal
	bucketEpochs
	bucketOutbox
	bucketWaiting
	bucketWebhooks
	bucketWebhooksInfo
	bucketClaims
	bucketQuarantine
	bucketMeta
	bucketRunLogs
	bucketChanges
	bucketBases
	fixedBuckets
)

var bucketNames = [fixedBuckets]string{
	"system", "counts", "due", "journal", "epochs", "outbox", "waiting",
	"webhooks", "webhooks-info", "claims", "quarantine", "meta", "run-logs",
	"changes", "bases",
}

const (
	recordsPrefix = "records/"
	listsPrefix   = "lists/"
	basePrefix    = "base/"
)

// How full a page is left when it splits: nearly full where keys mostly come in
// order, so that the next key goes to a new page. Else bbolt's half. Records come in order
// where we made their ids, which begin with the time; they may grow a little, and where
// their ids are random, it takes no more room nor time than with half.
const (
	fillAppended = 0.95
	fillRecords  = 0.9
	fillMixed    = 0.5
)

func fillPercent(bucket string) float64 {
	switch bucket {
	case "journal", "changes", "bases", "epochs", "waiting", "due", "webhooks", "webhooks-info":
		return fillAppended
	}
	switch {
	case strings.HasPrefix(bucket, listsPrefix):
		return fillAppended
	case strings.HasPrefix(bucket, recordsPrefix):
		return fillRecords
	}
	return fillMixed
}

func baseBucket(epoch uint64) string { return fmt.Sprintf("%s%020d", basePrefix, epoch) }

// counted is the value of a list entry whose term is counted.
const counted = "#"

const (
	idLen      = len(uuid.UUID{})
	listTail   = 8 + idLen // at, id
	effectLen  = idLen + 4
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

func appendListKey(b []byte, term string, at effects.Time, id uuid.UUID) []byte {
	b = appendName(b, term)
	b = appendTime(b, at)
	return append(b, id[:]...)
}

// countKeyBytes is also the key of a record in a base, with its id for the term.
func countKeyBytes[T string | []byte](kind effects.Kind, term T) []byte {
	b := make([]byte, 0, len(kind)+1+len(term))
	return append(append(append(b, kind...), 0), term...)
}

// splitBaseKey takes the key of a record in a base apart.
func splitBaseKey(k []byte) (kind []byte, id uuid.UUID, ok bool) {
	n := len(k) - idLen - 1
	if n < 1 || k[n] != 0 {
		return nil, id, false
	}
	return k[:n], uuid.UUID(k[n+1:]), true
}

func seqKey(seq uint64) (k [8]byte) {
	binary.BigEndian.PutUint64(k[:], seq)
	return k
}

func effectKeyBytes(key store.EffectKey) (k [effectLen]byte) {
	copy(k[:], key.ID[:])
	binary.BigEndian.PutUint32(k[idLen:], key.N)
	return k
}

func effectKeyOf(b []byte) store.EffectKey {
	return store.EffectKey{ID: uuid.UUID(b[:idLen]), N: binary.BigEndian.Uint32(b[idLen:])}
}

func appendWaitKey(b []byte, lane string, seq uint64, key []byte) []byte {
	b = appendName(b, lane)
	b = binary.BigEndian.AppendUint64(b, seq)
	return append(b, key...)
}

func appendQuarantineKey(b []byte, q *store.Quarantined) []byte {
	b = appendTime(b, q.At)
	b = append(b, q.ID[:]...)
	b = append(b, q.Kind...)
	if q.Kind == store.KindOutbox {
		b = binary.BigEndian.AppendUint32(b, q.N)
	}
	return b
}
