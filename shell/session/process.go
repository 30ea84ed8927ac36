package session

import (
	"strconv"
	"strings"
	"time"
)

// patience is how long processes may take to be gone after SIGKILL: on a busy
// machine, or with much memory to give back, that is no moment.
const patience = 30 * time.Second

// process is what there is to know of a process.
type process struct {
	pid, parent, session int
	started              string // tells it from a later one with the same id; empty where that is not known
	name, instance       string // the session whose mark it carries
}

// tree is all that belongs to a session.
type tree struct {
	name, instance string // the mark
	leader         int    // the session's first program; 0: none
	alive          bool   // the leader has not ended
	spare          int    // a process that is not to be touched, if not 0
}

// identity tells a process from all others, later ones included.
type identity struct {
	pid     int
	started string
}

func (p process) identity() identity { return identity{p.pid, p.started} }

// joined names processes in an error.
func joined(ids []int) string {
	const most = 8
	words := make([]string, 0, most+1)
	for i, id := range ids {
		if i == most {
			words = append(words, "and "+strconv.Itoa(len(ids)-i)+" more")
			break
		}
		words = append(words, strconv.Itoa(id))
	}
	return strings.Join(words, ", ")
}
