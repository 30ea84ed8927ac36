package wire

import "github.com/orrery-go/orrery/shell/audit"

// AuditList is the answer to GET /v1/audit: a page of the log of requests, newest first.
type AuditList struct {
	Entries       []audit.Entry `json:"entries"`
	NextPageToken string        `json:"next_page_token"`
	// Damaged counts the lines between the entries that could not be read; admins alone
	// are told.
	Damaged int `json:"damaged"`
	// Unanswered are the processes whose logs are not in the page, where there are several with a log each.
	Unanswered []AuditUnanswered `json:"unanswered,omitempty"`
}

// AuditUnanswered is a process that did not give its log of requests.
type AuditUnanswered struct {
	Instance string `json:"instance"`
	Error    string `json:"error"`
}
