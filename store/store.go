// Package store says what Orrery needs of a database: records by kind and id,
// one due index, ordered list indexes, the journal, the outbox, raw webhooks,
// logs of runs and claims, all changed in one transaction. No machine's logic lives here,
// and no caller sees how an implementation lays its data out.
//
// Package [github.com/orrery-go/orrery/store/bolt] is the embedded default,
// [github.com/orrery-go/orrery/store/memory] serves tests, and
// [github.com/orrery-go/orrery/store/storetest] is the conformance suite that
// every implementation passes.
//
// store.go has the interface with its types and errors, optional.go what an implementation
// may offer besides, limits.go what every implementation refuses.
//
// # Duties of the caller
//
//  1. Change records, journal and outbox of one batch in one [Store.Update]: put the
//     records with the batch's number, then append the batch's entry.
//  2. Say truly in [Prev] what each record was: an implementation may rely on it.
//  3. Use nothing that a transaction has handed out after its function has returned.
//  4. Treat an error of a listing as what it is: what the listing gave counts too, see
//     [Unreadable].
package store

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Errors that callers decide on. Implementations wrap them with the operation
// and the key (A10), so test with [errors.Is].
var (
	// ErrNotFound: no record, claim, webhook or outbox entry under that key.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the record has another version than the writer expected.
	ErrConflict = errors.New("version conflict")
	// ErrClaimed: somebody else holds the claim and it has not lapsed.
	ErrClaimed = errors.New("claimed by another holder")
	// ErrFenced: the claim's token is not the caller's: it lapsed and was taken
	// over (R5). What the caller meant to commit must be dropped.
	ErrFenced = errors.New("fenced: the claim was taken over")
	// ErrCorrupt: the stored bytes are not what this package wrote.
	ErrCorrupt = errors.New("corrupt data")
	// ErrMoved: the database is not any more where it was opened: its file was removed,
	// renamed or replaced. Nothing is committed until the same one is back.
	ErrMoved = errors.New("the database is not in its place any more")
	// ErrViewTooOld: the View was ended, since the database would have had to grow on for
	// it. What was read is as it was when it began; a new View reads on.
	ErrViewTooOld = errors.New("the View has lived for too long")
	// ErrUnconfirmed: the changes were written, but nobody knows whether they will be
	// found, so they must not be acknowledged. If the store goes on, they are there.
	ErrUnconfirmed = errors.New("written, and not confirmed")
	// ErrUnreachable: a database elsewhere does not answer, or gives no connection, so nothing was read. It may a moment later.
	ErrUnreachable = errors.New("the database is not available")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)

// Store is a transactional database. All methods are safe for concurrent use.
type Store interface {
	// View calls fn with a consistent, read-only snapshot. The transaction, and
	// every byte slice that it handed out, must not be used after fn returns.
	View(ctx context.Context, fn func(ReadTx) error) error
	// Update calls fn with a transaction that reads its own writes, and commits
	// when fn returns nil. When Update returns nil the changes are durable; when
	// it returns an error nothing of them is there, but for [ErrUnconfirmed]; a context that ends before
	// the commit begins is such an error. Updates run one after
	// another; fn must not call Update. fn may be called once more from the start
	// where an implementation retries after a conflict, so it must have no side
	// effects before Update returns.
	Update(ctx context.Context, fn func(Tx) error) error
	// Session names this opening of an exclusive store: a claim that carries
	// another session's name belongs to a process that is certainly gone. It is
	// empty for a shared store, where only a claim's time tells.
	Session() string
	// Backup writes a consistent copy of the live database, in a form that the
	// implementation can open, without blocking readers or writers for long.
	Backup(ctx context.Context, w io.Writer) (int64, error)
	// Close waits for transactions under way, then releases the database. A
	// second Close does nothing; everything else then fails with ErrClosed.
	Close() error
}

// Record is the stored state of one machine.
type Record struct {
	Kind    effects.Kind
	ID      uuid.UUID
	Version uint64 // counts the writes of this record, from 1
	Seq     uint64 // the number of the batch that wrote it last
	State   []byte // JSON; valid until the transaction ends
}

// Term is an index term: it puts a record into the list index of its name.
type Term = effects.Term

// Write changes one record together with its entries in the due index and the
// list indexes. The caller says which entries the record had before, so that the
// store need not decode it to find out.
type Write struct {
	Kind effects.Kind
	ID   uuid.UUID
	// State is the new state; nil deletes the record and all its index entries.
	State []byte
	// Due is when the record next needs waking; zero: it does not wait (A6).
	Due effects.Time
	// Share says whose the record's entry in the due index is: see [DueEntry]. A write that
	// leaves Due as it was leaves the entry, with the share that it has.
	Share uint32
	Terms []Term
	// Prev is what the record was before; the zero Prev says that there was none. A stored version other than Prev.Version is ErrConflict.
	Prev Prev
}

// Prev is what a Write replaces.
type Prev struct {
	Version uint64
	Seq     uint64
	Due     effects.Time
	Terms   []Term
}

// Cursor is a position in a list index. The zero Cursor stands before the first
// entry in the direction of the scan.
type Cursor struct {
	At effects.Time
	ID uuid.UUID
}

// EffectKey names an outer effect: the machine that asked for it and a number
// that only grows in that machine's state. It is the same in every replay.
type EffectKey struct {
	ID uuid.UUID
	N  uint32
}

// OutboxEntry is an outer effect that was committed and not yet acknowledged.
//
// An entry is either waiting, with no Holder, or handed out. A waiting entry
// has certainly not been started; one that was handed out may have been.
type OutboxEntry struct {
	Key  EffectKey
	Seq  uint64 // the number of the batch that made it: waiting entries of one lane are taken in (Seq, Key) order
	Kind effects.Kind
	// Lane is the queue that the entry waits in, such as the tool's name and the tenant
	// ([ShareLane]): lanes do not delay one another.
	Lane string
	// Effect is JSON, and valid until the transaction ends. It may be empty: the state of the
	// machine that asked for the effect has it under the key's N. The engine leaves it out
	// where it is not [effects.Outer.Repeatable].
	Effect []byte
	Holder string // name of the claim of the instance that carries it out
	Token  uint64 // that claim's token when it was handed out
}

// Waiting reports whether the entry has not been handed out.
func (e OutboxEntry) Waiting() bool { return e.Holder == "" }

// Webhook is a request as it arrived: the body raw and untransformed (B4).
type Webhook struct {
	ID         uuid.UUID // its key
	Route      string
	Header     []byte // JSON object of the headers that are kept
	ReceivedAt effects.Time
	Body       []byte // valid until the transaction ends
}

// AnswerKey names a request that may come again: a hash of what its caller calls it.
type AnswerKey [32]byte

// Answer is what such a request was answered, in the caller's own form.
type Answer struct {
	At   effects.Time // when it was given
	Body []byte       // valid until the transaction ends
}

// Claim is an exclusive right with a time limit. Its Token grows with each
// change of holder and never repeats, even after a release (R5).
type Claim struct {
	Name    string
	Holder  string
	Token   uint64
	Session string       // the session of the store's opening that took it
	Renewed effects.Time // the holder's last sign of life
	Until   effects.Time // it lapses then
}

// Kinds of what is no record and can be damaged like one: they stand in a
// [RecordError] and in a [Quarantined]. No record may have them.
const (
	KindWebhook effects.Kind = "webhook" // a raw webhook, by its id
	KindOutbox  effects.Kind = "outbox"  // an outbox entry, by its machine's id and its number
)

// OutboxError is a [RecordError] about an outbox entry: Kind is [KindOutbox], ID
// is the machine's, N the effect's number. [errors.As] finds it as a RecordError
// too.
type OutboxError struct {
	RecordError
	N uint32
}

// NewOutboxError says what was tried with the entry, and why it failed.
func NewOutboxError(op string, key EffectKey, err error) *OutboxError {
	return &OutboxError{RecordError: RecordError{Op: op, Kind: KindOutbox, ID: key.ID, Err: err}, N: key.N}
}

// Key gives the entry's key.
func (e *OutboxError) Key() EffectKey { return EffectKey{ID: e.ID, N: e.N} }

// Error gives "op outbox/id#n: reason".
func (e *OutboxError) Error() string {
	return e.Op + " " + string(e.Kind) + "/" + e.Key().String() + ": " + e.Err.Error()
}

// Unwrap gives the error without the number.
func (e *OutboxError) Unwrap() error { return &e.RecordError }

// Unreadable takes the error of a listing (see [ReadTx]) apart: into what the
// listing passed over since it is corrupt, ready for SetAside but for its At, and
// the rest, which is nil where nothing else went wrong.
func Unreadable(err error) (bad []Quarantined, rest error) {
	// The error's own type counts here: what wraps one of these was not made by a listing.
	switch e := err.(type) { //nolint:errorlint // see above
	case *OutboxError:
		if errors.Is(e, ErrCorrupt) {
			return []Quarantined{{Kind: e.Kind, ID: e.ID, N: e.N, Reason: e.Error()}}, nil
		}
	case *RecordError:
		if errors.Is(e, ErrCorrupt) {
			return []Quarantined{{Kind: e.Kind, ID: e.ID, Reason: e.Error()}}, nil
		}
	case interface{ Unwrap() []error }:
		var left []error
		for _, part := range e.Unwrap() {
			more, other := Unreadable(part)
			bad, left = append(bad, more...), append(left, other)
		}
		if len(bad) > 0 {
			return bad, errors.Join(left...)
		}
	}
	return nil, err
}

// Quarantined is what could not be read or decoded and was set aside (A10): a
// record, a webhook ([KindWebhook]) or an outbox entry ([KindOutbox]).
type Quarantined struct {
	Kind   effects.Kind
	ID     uuid.UUID
	N      uint32 // of an outbox entry: the effect's number
	At     effects.Time
	Reason string
	Raw    []byte // what stood there, see SetAside; valid until the transaction ends
}

// Epoch is a stretch of the journal. An epoch keeps, beside its entries, the
// state that each record had before its first change in that epoch, so that
// the journal can be cut off at an epoch's start and still be replayed.
//
// A new store is in epoch 1, which begins at batch 1 with a zero Started. The
// state of a record at the start of an epoch is that in the earliest base from
// this epoch on that has the record, or the stored one where none has it; where
// that has a Seq of First or later, the record was not there yet.
type Epoch struct {
	Number  uint64
	First   uint64 // the first batch of the epoch
	Started effects.Time
}

// ReadTx reads one snapshot.
//
// Damage stops no listing (A10). Records, Outbox, Waiting, WaitingLanes and
// Webhooks give all that can be read, and then return an error for each
// entry that they passed over, joined: a [RecordError] with the Kind and the ID,
// for an outbox entry an [OutboxError], each of them [ErrCorrupt]. So what they
// give counts also where there is such an error; [Unreadable] takes it apart. It
// names the first hundred: more are named once those are gone. A limit counts
// what is given, not what was passed over, so that nothing hides behind damage.
// Where the damage is in the key itself, the ID and the number are what is left
// of it, filled up with 0xff.
//
// SetAside keeps the bytes of what they name, and takes the record away;
// DeleteWebhook and DeleteOutbox then take away the webhook and the outbox
// entry, in the transaction of the listing. Two listings may name the same entry:
// what the one had removed is ErrNotFound for the other.
type ReadTx interface {
	// Get reads a record; ErrNotFound where there is none, ErrCorrupt where its
	// envelope cannot be read.
	Get(kind effects.Kind, id uuid.UUID) (Record, error)
	// GetMany reads several records, and appends them to dst in the order of refs. One
	// that is not there, or cannot be read, has Version 0, the Kind and the ID; what
	// cannot be read is named as by a listing.
	GetMany(dst []Record, refs []effects.Ref) ([]Record, error)
	// LastCommit gives a number of the last commit that the transaction sees. It grows with
	// each commit that changes anything, over restarts, too, and never shrinks; what was
	// committed later has a greater one. Nothing else follows from it. A copy of the
	// store (see Backup) may count from anywhere.
	LastCommit() (uint64, error)
	// Due appends to dst what is due up to and including now, in time order,
	// starting after the given key (nil: at the beginning), at most limit entries. It is
	// one range scan: O(limit), whatever is stored (A5, A6).
	//
	// Records of several kinds that have the same id and are due at the same time
	// share a key: each has its entry, in the order of the kinds. They are never
	// parted, since who goes on after that key would miss the others: where limit
	// would end a page between them, the page is longer by the rest.
	Due(dst []DueEntry, after *DueKey, now effects.Time, limit int) ([]DueEntry, error)
	// NextDue gives the earliest time in the due index that is after the given
	// time; ok is false where nothing waits.
	NextDue(after effects.Time) (at effects.Time, ok bool, err error)
	// Scan lists a list index from the cursor on, exclusive: oldest first, or
	// newest first where desc; at most limit entries.
	Scan(kind effects.Kind, term string, from Cursor, desc bool, limit int) ([]Cursor, error)
	// TermNames gives the names of the list indexes of a kind that begin with prefix and have
	// an entry, at most limit of them, in byte order; which ones if there are more is not
	// said. It costs a look-up or two for each name, whatever the indexes hold.
	TermNames(kind effects.Kind, prefix string, limit int) ([]string, error)
	// TermsOf gives the index terms of a record that may be gone or unreadable. It
	// looks for them in all list indexes of the kind. That is a sweep, and a bounded
	// one: in a great index some may not be found.
	TermsOf(kind effects.Kind, id uuid.UUID) ([]Term, error)
	// Count gives how many records have counted terms with that [effects.Term.CountName].
	Count(kind effects.Kind, term string) (uint64, error)
	// Seq gives the number of the last batch; 0 if there is none.
	Seq() (uint64, error)
	// Journal calls fn with the entry of each batch from the given number on, in
	// order, until fn returns an error, which Journal then returns.
	Journal(from uint64, fn func(seq uint64, entry []byte) error) error
	// Batches is Journal with what each batch has changed.
	Batches(from uint64, fn func(Batch) error) error
	// Batch gives one batch; ErrNotFound where the journal does not reach it. It costs
	// little, wherever in the journal the batch stands: so a record's history is a walk from
	// its Seq along [Changed.Before].
	Batch(seq uint64) (Batch, error)
	// JournalBytes gives about how many bytes the batches from one on and before another take,
	// on the disk if the store has one; before zero: to the end. What was committed in the last
	// seconds may not count yet.
	JournalBytes(from, before uint64) (int64, error)
	// Epochs lists the epochs that the journal still covers, oldest first. The
	// last one is the current one.
	Epochs() ([]Epoch, error)
	// Base calls fn for each record that the epoch keeps as it was before its
	// first change in that epoch, in no order that counts. What cannot be read is
	// passed over and named at the end.
	Base(epoch uint64, fn func(Record) error) error
	// Records calls fn for each record, ordered by kind, then id, until fn returns
	// an error, which Records then returns. Those whose envelope cannot be read are
	// passed over and named at the end.
	Records(fn func(Record) error) error
	// Outbox calls fn for each entry, ordered by key, until fn returns an error,
	// which Outbox then returns. What cannot be read is passed over and named at the
	// end.
	Outbox(fn func(OutboxEntry) error) error
	// OutboxEntry reads one entry; ErrNotFound where there is none, an OutboxError
	// with ErrCorrupt where it cannot be read.
	OutboxEntry(key EffectKey) (OutboxEntry, error)
	// Waiting lists entries of a lane that were not handed out, oldest first, at
	// most limit. What cannot be read is passed over and named; so is an entry that
	// the lane's index leads to and that is not there, or whose index key cannot be
	// read.
	Waiting(lane string, limit int) ([]OutboxEntry, error)
	// WaitingLanes lists the lanes that have a waiting entry, in order. An entry
	// whose index key cannot be read, so that nobody knows its lane, is passed over
	// and named.
	WaitingLanes() ([]string, error)
	// Webhooks lists raw webhooks in the order of their ids, at most limit. One
	// whose body or other part is missing or cannot be read is passed over and
	// named.
	Webhooks(limit int) ([]Webhook, error)
	// Claim reads a claim, lapsed or not; ErrNotFound where there is none.
	Claim(name string) (Claim, error)
	// Claims lists all claims with that prefix, by name.
	Claims(prefix string) ([]Claim, error)
	// Quarantine lists what was set aside, oldest first, at most limit.
	Quarantine(limit int) ([]Quarantined, error)
	// RunLog reads what is kept of what an attempt of a run of a job, or of an action, has written;
	// ErrNotFound where there is nothing, ErrCorrupt where it cannot be read. It is
	// valid until the transaction ends.
	RunLog(run uuid.UUID, attempt uint32) ([]byte, error)
	// Answer reads what is kept under a key by PutAnswer; ErrNotFound where there is nothing, ErrCorrupt where
	// it cannot be read.
	Answer(key AnswerKey) (Answer, error)
	// Meta reads a small value that the shell keeps under a name; nil where
	// there is none.
	Meta(name string) ([]byte, error)
}

// Tx reads and writes. What it reads includes what it wrote.
type Tx interface {
	ReadTx
	// Put carries out the writes. Every write of a transaction belongs to the
	// batch that AppendJournal is called for: its number, Seq()+1 before the
	// append and Seq() after it, is stamped into the records. The caller calls
	// Put at most once for each record of a batch. A transaction with a Put for a
	// batch that was not appended does not commit. A Write of a deletion where
	// nothing is stored does nothing. An implementation may take the word of
	// Prev.Seq, Prev.Due and Prev.Terms; a wrong one leaves wrong index entries.
	Put(seq uint64, writes []Write) error
	// Reindex gives a record the list entries of terms, without writing the record: its
	// version, batch, state and due entry stay. former are the terms that it may have had;
	// those of them that are not among terms go, where they are there. It belongs to no
	// batch; done twice it changes nothing. ErrNotFound if there is no such record. It serves
	// a caller whose records of an earlier version stand in other indexes.
	Reindex(kind effects.Kind, id uuid.UUID, former, terms []Term) error
	// AppendJournal appends the entry of a batch under the batch's number, which must
	// be Seq()+1.
	AppendJournal(seq uint64, at effects.Time, entry []byte) error
	// BeginEpoch starts a new epoch at the next batch; between a Put and the
	// append of its batch it fails.
	BeginEpoch(at effects.Time) error
	// DropEpochs forgets the journal entries and the kept states of all epochs before
	// the given one. It may do at most limit deletions in one transaction, and
	// reports whether more is left to do. Readers see none of it from the first
	// call on. The current epoch cannot be dropped.
	DropEpochs(before uint64, limit int) (more bool, err error)
	// PutOutbox adds an entry or replaces the one under its key, readable or not:
	// to hand it out, or to hand it back to its lane.
	PutOutbox(e OutboxEntry) error
	// DeleteOutbox removes an entry and takes it out of its lane's index, readable or
	// not; ErrNotFound where there is none. What Waiting or WaitingLanes has named in
	// this transaction it removes also if only the lane's index still has it.
	DeleteOutbox(key EffectKey) error
	// PutWebhook stores a raw webhook.
	PutWebhook(w Webhook) error
	// DeleteWebhook removes one, readable or not; ErrNotFound where nothing of it
	// is there.
	DeleteWebhook(id uuid.UUID) error
	// PutRunLog keeps what an attempt of a run, or of an action, has written, at most [MaxRunLog]
	// bytes, instead of what is kept of it, readable or not. An empty text is one.
	PutRunLog(run uuid.UUID, attempt uint32, text []byte) error
	// DeleteRunLogs removes what is kept of all attempts of a run, readable or not.
	// Where there is nothing, nothing happens.
	DeleteRunLogs(run uuid.UUID) error
	// Acquire takes or renews a claim until now+ttl. Where the holder has it
	// already, in this session, the token stays, also after a lapse that nobody
	// used; where it is free, was released, was taken by the holder's name in
	// another session, or has lapsed for another holder, the token grows; where
	// another holds it, ErrClaimed.
	Acquire(name, holder string, ttl time.Duration, now effects.Time) (Claim, error)
	// CheckClaim returns ErrFenced unless the claim is held with that token. A
	// claim that has lapsed but was not taken over passes: nobody else acts yet.
	CheckClaim(name string, token uint64) error
	// Release gives a claim back; ErrFenced where the token is not the current
	// one. No later token is less or equal. The claim is then not found.
	Release(name string, token uint64) error
	// Fence ends a claim of somebody else who is taken for gone: whoever still
	// uses the token gets ErrFenced from then on. The claim is free at once;
	// ErrNotFound where there is none.
	Fence(name string) error
	// SetAside moves a record that cannot be decoded into the quarantine, with
	// its due entry; its list entries are removed where they can be found. A nil
	// q.Raw is filled with what stood there: the state, or all that is stored where
	// that cannot be read. It needs no record: a due entry that leads nowhere is
	// removed too, also one whose kind is damaged and could be no record's. Only the
	// due entry of that kind is removed.
	//
	// Of a webhook (KindWebhook) or an outbox entry (KindOutbox, with q.N) it keeps
	// the bytes only: the caller deletes it afterwards. A nil q.Raw is filled with
	// the body or the effect; where it cannot be read, with all that is stored of
	// it, in the implementation's own form. It stays nil where nothing is found;
	// then what was set aside under the same name at the same time stays as it is.
	SetAside(q Quarantined, due effects.Time) error
	// RemoveDue takes one entry out of the due index, whatever its share, and leaves all
	// else as it is: for an entry under which its record does not wait. Where it is not there,
	// nothing happens.
	RemoveDue(d DueEntry) error
	// PutAnswer keeps what a request was answered, instead of what was kept under the key. No copy and
	// no backup as a stream has it.
	PutAnswer(key AnswerKey, a Answer) error
	// DropAnswers forgets at most limit of the answers that were given before that time, the oldest first, and
	// says how many. What cannot be read goes, too.
	DropAnswers(before effects.Time, limit int) (dropped int, err error)
	// SetMeta keeps a small value under a name; nil removes it.
	SetMeta(name string, value []byte) error
}
