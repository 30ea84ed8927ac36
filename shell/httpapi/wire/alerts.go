package wire

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Alert is what watches a schedule, with its status.
type Alert struct {
	core.Alert
	Status string `json:"status"` // open or quiet
}

// AlertList is a page of GET /v1/alerts.
type AlertList struct {
	Alerts        []Alert `json:"alerts"`
	NextPageToken string  `json:"next_page_token"`
}

// SilenceRequest is the body of silence.
type SilenceRequest struct {
	Until  effects.Time `json:"until"` // nobody is told before
	Reason *string      `json:"reason,omitempty"`
}
