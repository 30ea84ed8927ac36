package core

import "github.com/orrery-go/orrery/effects"

// DigestEvent is an event of [Digest]. The set is closed.
//
//sumtype:decl
type DigestEvent interface {
	Event
	digestEvent()
}

type (
	// DigestTell gives something to be told: an alert was raised, or cleared.
	DigestTell struct {
		Channel   string      `json:"channel,omitempty"`
		Kind      AlertKind   `json:"kind"`
		Cleared   bool        `json:"cleared,omitempty"`
		Schedule  effects.Ref `json:"schedule"`
		Namespace string      `json:"namespace,omitempty"`
		Tenant    string      `json:"tenant,omitempty"`
		Name      string      `json:"name"`
		Since     Time        `json:"since"` // when it was raised
		// Step is the [Clock]'s step at which it was told that the alert is raised.
		Step   uint64 `json:"step,omitempty"`
		Reason string `json:"reason"`
	}
	// DigestDue says that what has gathered is to be told, or a message is to be tried again.
	DigestDue struct{}
)

func (DigestTell) digestEvent()        {}
func (DigestDue) digestEvent()         {}
func (EffectDone) digestEvent()        {}
func (EffectFailed) digestEvent()      {}
func (EffectInterrupted) digestEvent() {}
func (EffectHandedBack) digestEvent()  {}

// EventType gives the discriminator in the journal.
func (DigestTell) EventType() string { return "tell" }
func (DigestDue) EventType() string  { return "due" }

// digestEvents are the events of Digest, as the journal has them.
var digestEvents = []eventType{
	event[DigestTell](), event[DigestDue](), event[EffectDone](), event[EffectFailed](), event[EffectInterrupted](), event[EffectHandedBack](),
}
