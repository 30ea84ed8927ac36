package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// SetRequest is the body of POST /v1/sets/{name}: all that the set declares.
type SetRequest struct {
	Entries []SetEntry `json:"entries" most:"5000"`
	DryRun  bool       `json:"dry_run,omitempty"` // only answer what it would do
	// Prune removes what the set owns and does not declare any more; at most a third of what it owns, but with Most.
	Prune bool `json:"prune,omitempty"`
	Most  bool `json:"most,omitempty"`
	// TakeOver lets it change what other sets own, which is then this one's.
	TakeOver bool `json:"take_over,omitempty"`
}

// SetEntry is one declaration: exactly one of its kinds is given.
type SetEntry struct {
	File       string            `json:"file,omitempty"` // where it stands, for people
	Was        string            `json:"was,omitempty"`  // the name that a recurring action had before
	Recurring  *RecurringRequest `json:"recurring,omitempty"`
	Job        *SetJob           `json:"job,omitempty"`
	Queue      *SetQueue         `json:"queue,omitempty"`
	Semaphore  *SetSemaphore     `json:"semaphore,omitempty"`
	Worker     *SetWorker        `json:"worker,omitempty"`
	Calendar   *CalendarRequest  `json:"calendar,omitempty"`
	Subscriber *SetSubscriber    `json:"subscriber,omitempty"`
}

// SetJob is a job as a set declares it: its id, and the body of PUT /v1/jobs/{id}.
type SetJob struct {
	ID string `json:"id"`
	JobRequest
}

// SetQueue is a queue as a set declares it.
type SetQueue struct {
	Namespace *string          `json:"namespace,omitempty"`
	Tenant    *string          `json:"tenant,omitempty"`
	Name      string           `json:"name"`
	Config    core.QueueConfig `json:"config,omitzero"`
}

// SetSemaphore is a semaphore as a set declares it.
type SetSemaphore struct {
	Namespace *string `json:"namespace,omitempty"`
	Tenant    *string `json:"tenant,omitempty"`
	Name      string  `json:"name"`
	Slots     uint32  `json:"slots"`
}

// SetWorker is a worker as a set declares it.
type SetWorker struct {
	Namespace *string `json:"namespace,omitempty"`
	Tenant    *string `json:"tenant,omitempty"`
	Name      string  `json:"name"`
	WorkerRequest
}

// SetSubscriber is a subscriber of the event bus as a set declares it.
type SetSubscriber struct {
	Namespace *string `json:"namespace,omitempty"`
	Tenant    *string `json:"tenant,omitempty"`
	Name      string  `json:"name"`
	SubscriberRequest
}

// SetResult is the answer to POST /v1/sets/{name}.
type SetResult struct {
	Set     string `json:"set"`
	Applied bool   `json:"applied"` // false: it was a dry run
	// Refused says of a dry run why applying the set would be refused as things are; it is left out where it would not be.
	Refused string      `json:"refused,omitempty"`
	Changes []SetChange `json:"changes"` // what is declared, in the order of the entries, and then what is not any more
}

// SetRefused says why one declaration of a set is refused.
type SetRefused struct {
	File   string `json:"file,omitempty"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"` // with the field of the API first, as in error; several are parted by line breaks, or by "; "
}

// SetChange says what applying a set does to one thing.
type SetChange struct {
	// Action is create, update, adopt, remove, none, leave of what the set owns and does not declare any more, or, of a dry
	// run, refused: the notes say why.
	Action          string         `json:"action"`
	Kind            string         `json:"kind"`
	Namespace       string         `json:"namespace"`
	Tenant          string         `json:"tenant"`
	Name            string         `json:"name"`
	Was             string         `json:"was,omitempty"` // the name that it has had
	ID              uuid.UUID      `json:"id"`
	File            string         `json:"file"`
	Fields          []SetField     `json:"fields"`          // that change
	Notes           []string       `json:"notes,omitempty"` // what else is to be known, such as a pause that stays
	NextTimesBefore []effects.Time `json:"next_times_before,omitempty"`
	NextTimes       []effects.Time `json:"next_times,omitempty"` // if they are others than before
}

// SetField is a field of a definition that changes. What it was not before, or is not after, is left out.
type SetField struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Declared says which set owns a thing.
type Declared struct {
	Set       string       `json:"set"`
	File      string       `json:"file"`
	Kind      string       `json:"kind"`
	ID        uuid.UUID    `json:"id"`
	Namespace string       `json:"namespace"`
	Tenant    string       `json:"tenant"`
	Name      string       `json:"name"`
	For       string       `json:"for,omitempty"` // what the token was bound to that applied it, such as "shop/acme"; left out: nothing
	Since     effects.Time `json:"since"`         // when the set began to own it
}

// DeclaredBy says in a thing's detail which set owns it.
type DeclaredBy struct {
	Set   string       `json:"set"`
	File  string       `json:"file"`
	Since effects.Time `json:"since"` // when the set began to own it
}

// WorkerDetail is the answer to GET /v1/workers/{name}.
type WorkerDetail struct {
	core.Worker
	Declared *DeclaredBy `json:"declared,omitempty"` // the set that owns it
}

// SemaphoreDetail is the answer to GET /v1/semaphores/{name}.
type SemaphoreDetail struct {
	core.Semaphore
	Declared *DeclaredBy `json:"declared,omitempty"` // the set that owns it
}

// SubscriberDetail is the answer to GET /v1/subscribers/{name}.
type SubscriberDetail struct {
	Subscriber
	Declared *DeclaredBy `json:"declared,omitempty"` // the set that owns it
}

// DeclaredList is a page of GET /v1/sets.
type DeclaredList struct {
	Declared      []Declared `json:"declared"`
	NextPageToken string     `json:"next_page_token"`
}
