package page

// leftOut are the requests of the API that change something and that the page does not offer, each with the
// reason. A test holds it, the acts and the description of the API together.
var leftOut = map[string]string{ // read-only: a table
	"POST /v1/actions/batch":             "a program's request: the page makes one action at a time",
	"POST /v1/queues/{name}/items/batch": "a program's request: the page pushes one item at a time",

	"POST /v1/queues/{name}/take":                 "who takes items works on them and answers in time, which a person at a page does not",
	"POST /v1/queues/{name}/items/{id}/complete":  "the holder's answer, which carries the holder's name and attempt",
	"POST /v1/queues/{name}/items/{id}/fail":      "the holder's answer, which carries the holder's name and attempt",
	"POST /v1/queues/{name}/items/{id}/extend":    "the holder's request, which carries the holder's name and attempt",
	"POST /v1/queues/{name}/items/{id}/heartbeat": "the holder's sign of life",
	"POST /v1/queues/{name}/items/{id}/release":   "the holder's answer, which carries the holder's name and attempt",

	"POST /v1/tasks/{id}/heartbeat": "the sign of life of who does the work: from anybody else it would be untrue",

	"POST /v1/locks/{name}/acquire":      "a program's request: who holds a lock keeps its fencing token and renews the lease",
	"POST /v1/locks/{name}/renew":        "the holder's request, which carries the fencing token",
	"POST /v1/locks/{name}/release":      "the holder's request, which carries the fencing token: a person breaks a lock",
	"POST /v1/semaphores/{name}/acquire": "a program's request: who holds slots keeps the fencing token and renews the lease",
	"POST /v1/semaphores/{name}/renew":   "the holder's request, which carries the fencing token",
	"POST /v1/semaphores/{name}/release": "the holder's request, which carries the fencing token: a person takes slots away",

	"POST /v1/sets/{name}":       "a set is what files say: who changes these applies them",
	"POST /v1/cluster/rebalance": "whoever services machines does that, on the command line",
	"POST /v1/notify/test":       "whether a channel works is tried by who configures it, on the command line",

	"POST /v1/webhooks/{route}": "the sender's request, which carries its signature: the page delivers a webhook that was received again",
}
