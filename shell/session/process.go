package session

import "time"

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
