package effects

import (
	"github.com/google/uuid"
)

// Lanes of the outer effects that are not tools. The name of a tool cannot
// begin with "@", so that none of them is ever confused with one.
const (
	LaneSession = "@session"
	LaneGit     = "@git"
	LaneNotify  = "@notify"
)

// Value is what one machine hands to another, or to who asked, in a form that
// this package need not know.
type Value interface {
	// AppendJSON appends it as JSON.
	AppendJSON(b []byte) []byte
}

// Answer hands a value to whoever sent the event that is being decided (inner).
// It reaches neither state nor journal.
type Answer struct {
	Value Value
}

// AcquireLock asks for a lock (003 AcquireLock; inner). The machine that asks is
// told by an event once it has it.
type AcquireLock struct {
	Name      string
	Namespace string
	Tenant    string
	Holder    string // who will hold it, for the reader
	N         uint32 // the number under which the machine waits for it
	TTLMS     int64  // how long without renewal; 0: until it is released
}

// ReleaseLock gives a lock back, or ends the waiting for it (003 ReleaseLock;
// inner).
type ReleaseLock struct {
	Name      string
	Namespace string
	Tenant    string
	N         uint32
}

// AcquireSemaphore asks for slots of a semaphore (003 AcquireSemaphore; inner).
type AcquireSemaphore struct {
	Name      string
	Namespace string
	Tenant    string
	Holder    string
	N         uint32
	Slots     uint32 // how many are wanted; 0: one
	Total     uint32 // declares the semaphore where it was not declared; 0: it must have been
	TTLMS     int64
}

// ReleaseSemaphore gives slots back, or ends the waiting for them
// (003 ReleaseSemaphore; inner).
type ReleaseSemaphore struct {
	Name      string
	Namespace string
	Tenant    string
	N         uint32
}

// DeadLetter moves an item that exceeded its attempts into another queue
// (003 DeadLetter; inner). Item is a core.QueueItem.
type DeadLetter struct {
	Queue Ref
	Item  Value
}

// WakeWorker lets a worker look for work (003 WakeWorker; inner).
type WakeWorker struct {
	Worker Ref
}

// Checkpoint records how far a pipeline has come (003 Checkpoint; inner).
type Checkpoint struct {
	Pipeline uuid.UUID
	Message  string
}

func (Answer) effect()           {}
func (Answer) inner()            {}
func (AcquireLock) effect()      {}
func (AcquireLock) inner()       {}
func (ReleaseLock) effect()      {}
func (ReleaseLock) inner()       {}
func (AcquireSemaphore) effect() {}
func (AcquireSemaphore) inner()  {}
func (ReleaseSemaphore) effect() {}
func (ReleaseSemaphore) inner()  {}
func (DeadLetter) effect()       {}
func (DeadLetter) inner()        {}
func (WakeWorker) effect()       {}
func (WakeWorker) inner()        {}
func (Checkpoint) effect()       {}
func (Checkpoint) inner()        {}

// Spawn starts a terminal session (003 Spawn; outer). It may be repeated: a
// session of that name that lives is left as it is.
type Spawn struct {
	N         uint32            `json:"n"`
	Session   string            `json:"session"`         // its name, unique on the machine
	Workspace string            `json:"workspace"`       // the directory in which it starts, under the workspace root
	Command   []string          `json:"command"`         // argv; empty: the user's shell
	Env       map[string]string `json:"env,omitempty"`   // added to the environment
	Input     string            `json:"input,omitempty"` // typed into it once it runs
}

// SendInput types into a session and presses return (003 Send; outer).
type SendInput struct {
	N       uint32 `json:"n"`
	Session string `json:"session"`
	Input   string `json:"input"`
}

// Kill ends a session with all that runs in it (003 Kill; outer). A session that
// is gone is no error.
type Kill struct {
	N       uint32 `json:"n"`
	Session string `json:"session"`
}

// Nudge reminds a session that somebody waits (003 Nudge; outer).
type Nudge struct {
	N       uint32 `json:"n"`
	Session string `json:"session"`
	Input   string `json:"input,omitempty"` // what is typed; empty: return alone
}

// WorktreeAdd makes a git worktree of a branch, and the branch where it is
// missing (003 WorktreeAdd; outer). One that is there already, with that branch,
// is no error.
type WorktreeAdd struct {
	N      uint32 `json:"n"`
	Repo   string `json:"repo"` // the repository, under the workspace root
	Branch string `json:"branch"`
	Path   string `json:"path"`           // of the worktree, under the workspace root
	Base   string `json:"base,omitempty"` // what a new branch starts from; empty: HEAD
}

// WorktreeRemove removes a git worktree (003 WorktreeRemove; outer). One that is
// gone is no error; one with changes is, unless Force is set.
type WorktreeRemove struct {
	N     uint32 `json:"n"`
	Repo  string `json:"repo"`
	Path  string `json:"path"`
	Force bool   `json:"force,omitempty"`
}

// MergeStrategy says how a branch is merged (003 MergeStrategy).
type MergeStrategy string

// Merge strategies.
const (
	MergeFastForward MergeStrategy = "fast-forward" // the target moves on to the branch, or nothing happens
	MergeRebase      MergeStrategy = "rebase"       // the branch is rebased onto the target, then fast-forwarded
	MergeAgent       MergeStrategy = "agent"        // a session resolves the conflicts, then as rebase
)

// Merge merges a branch (003 Merge; outer). Where it fails, repository and
// worktrees are as before.
type Merge struct {
	N        uint32        `json:"n"`
	Repo     string        `json:"repo"`
	Branch   string        `json:"branch"`
	Into     string        `json:"into"` // the target branch
	Strategy MergeStrategy `json:"strategy"`
}

// Notify tells a person something (003 Notify; outer).
type Notify struct {
	N       uint32 `json:"n"`
	Title   string `json:"title"`
	Message string `json:"message"`
	Sound   bool   `json:"sound,omitempty"`
	Channel string `json:"channel,omitempty"` // as configured; empty: the default one
}
