package wire

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
