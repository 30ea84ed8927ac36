package wire

import "encoding/json"

// BulkRequest is the body of POST /v1/actions/bulk and its like: one act on many things.
type BulkRequest struct {
	Act string   `json:"act"` // the last segment of the path of the request for one
	IDs []string `json:"ids" most:"10000"`
	// Status leaves out what is not in that status any more.
	Status *string         `json:"status,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"` // that the request for one takes
}

// Bulk is the answer to POST /v1/actions/bulk and its like, in the order of the ids.
type Bulk struct {
	Results []BulkResult `json:"results"`
}

// BulkResult is what became of one of many.
type BulkResult struct {
	ID     string `json:"id"`
	Status int    `json:"status"` // that the request for one would have been answered with
	Error  string `json:"error"`
	Made   string `json:"made"` // the id of what was made, or with the status 200 had been before; empty: nothing
}
