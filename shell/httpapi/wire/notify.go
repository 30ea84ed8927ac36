package wire

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// ChannelList is the answer to GET /v1/notify/channels: how people are told, by name.
type ChannelList struct {
	Channels []Channel `json:"channels"`
}

// Channel is a channel of notifications, and what became of what it was to tell since the instance
// that answers began.
type Channel struct {
	Name    string   `json:"name"`
	Default bool     `json:"default"` // of notifications that name none
	Events  []string `json:"events"`  // that it tells, as patterns
	Told    uint64   `json:"told"`    // from its queue
	Failed  uint64   `json:"failed"`  // attempts that it did not take
	Dropped uint64   `json:"dropped"` // what it was not to tell, or will never take
	Later   uint64   `json:"later"`   // what was put into its queue as it could not be reached
	// Alerts is what the rules of alerts that name the channel have to tell, and how that fares; nil: they have told nothing yet.
	Alerts *ChannelAlerts `json:"alerts,omitempty"`
}

// ChannelAlerts is what alerts have to tell by a channel. It is stored: of all instances, whenever they began.
type ChannelAlerts struct {
	Since   effects.Time     `json:"since"`             // when the first of what waits to be told came; null: nothing waits
	Raised  core.AlertCounts `json:"raised"`            // that wait to be told
	Cleared core.AlertCounts `json:"cleared"`           // likewise
	Names   []string         `json:"names"`             // of the first schedules of those that were raised
	Message string           `json:"message,omitempty"` // title of the one that is under way, or is to be sent again
	Tries   uint32           `json:"tries,omitempty"`   // of that message
	RetryAt effects.Time     `json:"retry_at,omitzero"` // when that message is sent again; left out: it is under way, or there is none
	Sent    uint64           `json:"sent"`              // messages that were delivered
	Lost    uint64           `json:"lost"`              // messages that were given up
	Error   string           `json:"error,omitempty"`   // why the last attempt failed
}

// NotifyTestRequest is the body of POST /v1/notify/test.
type NotifyTestRequest struct {
	Channel string `json:"channel,omitempty"` // empty: all
}

// NotifyTested is the answer to POST /v1/notify/test.
type NotifyTested struct {
	Results []NotifyResult `json:"results"` // by name
}

// NotifyResult says whether a channel has taken a test message.
type NotifyResult struct {
	Channel string `json:"channel"`
	Told    bool   `json:"told"`
	Error   string `json:"error"` // why not; empty if it has
}
