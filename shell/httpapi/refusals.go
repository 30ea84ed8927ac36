package httpapi

import (
	"net/http"
	"strings"
)

// standing are the refusals that a token alone decides, whatever a request is about, beside those of [access]. Without a method
// the path stands for all requests below it. A test compares them with what the API answers.
var standing = []struct { // read-only: a table
	method, path string
	may          func(*call) error
}{
	{"", "/v1/jobs", forJobs},
	{"", "/v1/runs", forJobs},
	{"", "/v1/runners", forJobs},
	{"", "/v1/queues", forQueues},
	{"", "/v1/subscribers", maySeeSubscribers},
	{http.MethodPost, "/v1/calendars", mayChangeCalendars},
	{http.MethodPut, "/v1/calendars/{name}", mayChangeCalendars},
	{http.MethodDelete, "/v1/calendars/{name}", mayChangeCalendars},
	{http.MethodGet, "/v1/sets", maySeeSets},
	{http.MethodPost, "/v1/sets/{name}", mayApplySets},
	{http.MethodPost, "/v1/locks/{name}/break", forAll},
	{http.MethodPut, "/v1/semaphores/{name}", forAll},
	{http.MethodPost, "/v1/semaphores/{name}/break", forAll},
	{http.MethodPut, "/v1/workers/{name}", mayDeclareWorkers},
	{http.MethodPost, "/v1/tasks", mayCreateTasks},
	{http.MethodPost, "/v1/tasks/{id}/recover", mayRecoverTasks},
	{http.MethodPost, "/v1/tasks/{id}/input", mayTypeIntoTasks},
}

// mayDeclareWorkers is what [usesOfWorker] comes to for each worker.
func mayDeclareWorkers(c *call) error {
	return c.token.notBoundToTools("take items of a queue, which may be for any tool")
}

// Refusal says why a visitor's token does not allow an operation of the API, whatever it would be about; "" if that
// depends on what it is about. The path is the one of openapi.json, such as "/v1/queues/{name}".
func (s *Server) Refusal(v *Visitor, method, path string) string {
	c := &call{token: v.token}
	err := v.token.mayUse(s.singles[method+" "+path].access.who())
	for _, of := range standing {
		below := of.method == "" && strings.HasPrefix(path+"/", of.path+"/")
		if err == nil && (below || of.method == method && of.path == path) {
			err = of.may(c)
		}
	}
	if err == nil {
		return ""
	}
	return told(c, err).text
}
