//go:build unix

package clustertest

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// kind is a kind of fault.
type kind int

const (
	killed          kind = iota // kill -9, started again later
	killedBriefly               // kill -9, started again at once
	stopped                     // SIGTERM, started again at once
	frozen                      // SIGSTOP for longer than a lease, then SIGCONT
	cutFromDatabase             // nothing passes in either direction
	answersLost                 // the database gets what is sent, and its answers are lost
	connectionsLost             // connections to the database are closed, and none can be made for a while
	cutFromOthers               // requests that others pass on do not arrive
	repliesLost                 // requests that others pass on arrive, and are not answered
	restarted                   // the server ends in order, and starts again
	crashed                     // the server is killed, and starts again
	failedOver                  // the server is killed, and its synchronous standby takes over
	kinds
)

var kindNames = [kinds]string{
	"kill", "kill briefly", "stop", "freeze", "cut from the database", "lose answers of the database", "close connections to the database",
	"cut from the others", "lose replies to the others", "restart the database", "crash the database", "fail over",
}

func (k kind) String() string { return kindNames[k] }

// ofDatabase reports whether a fault is of the server, and of no daemon.
func (k kind) ofDatabase() bool { return k >= restarted }

// fault is what happens to a daemon or to the server, and for how long.
type fault struct {
	kind   kind
	who    int // number of the daemon; -1: the one that works then
	length time.Duration
}

func (f fault) String() string {
	who := fmt.Sprintf(" daemon-%d", f.who)
	switch {
	case f.kind.ofDatabase():
		who = ""
	case f.who < 0:
		who = " the one that works"
	}
	return fmt.Sprintf("%s%s, %s", f.kind, who, f.length)
}

// plan draws a schedule. As long as there are enough faults, each kind is in it.
func plan(rng *rand.Rand, n int) (all []fault) {
	for len(all) < n {
		for _, k := range rng.Perm(int(kinds)) {
			f := fault{kind: kind(k), who: -1}
			if rng.IntN(3) == 0 {
				f.who = rng.IntN(daemons)
			}
			// Some are over within a lease, most are not.
			f.length = time.Duration(rng.IntN(int(3*lease/time.Millisecond))) * time.Millisecond
			if f.kind == frozen || f.kind == killed {
				f.length += lease
			}
			all = append(all, f)
		}
	}
	return all[:n]
}

// wait waits for so long: a fault takes its time.
func wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// suffer has a fault happen, and waits for its end.
func (c *cluster) suffer(t *testing.T, f fault) {
	t.Helper()
	if f.kind.ofDatabase() {
		c.sufferInDatabase(t, f)
		return
	}
	m := c.working()
	if f.who >= 0 {
		m = c.members[f.who]
	}
	t.Logf("%s: %s", m.name, f)
	var heal []func()
	switch f.kind {
	case killed:
		m.kill()
		heal = append(heal, m.start)
	case killedBriefly:
		m.kill()
		m.start()
		return
	case stopped:
		require.NoError(t, m.stop(), "%s stops", m.name)
		m.start()
		return
	case frozen:
		m.signal(syscall.SIGSTOP)
		heal = append(heal, func() { m.signal(syscall.SIGCONT) })
	case cutFromDatabase:
		heal = append(heal, silence(t, m.toDatabase, "upstream"), silence(t, m.toDatabase, "downstream"))
	case answersLost:
		heal = append(heal, silence(t, m.toDatabase, "downstream"))
	case connectionsLost:
		m.toDatabase.Stop()
		heal = append(heal, func() { require.NoError(t, m.toDatabase.Start()) })
	case cutFromOthers:
		heal = append(heal, silence(t, m.fromOthers, "upstream"), silence(t, m.fromOthers, "downstream"))
	case repliesLost:
		heal = append(heal, silence(t, m.fromOthers, "downstream"))
	default:
		panic("no such fault")
	}
	wait(f.length)
	for _, h := range heal {
		h()
	}
}

func (c *cluster) sufferInDatabase(t *testing.T, f fault) {
	t.Helper()
	t.Logf("PostgreSQL: %s", f)
	switch f.kind {
	case restarted:
		c.server.Stop(t)
		wait(f.length)
		c.server.Start(t)
	case crashed:
		c.server.Kill(t)
		wait(f.length)
		c.server.Start(t)
	case failedOver:
		standby := c.server.Standby(t, postgrestest.Synchronous)
		c.server.Kill(t)
		wait(f.length)
		standby.Promote(t)
		c.lead(standby)
	default:
		panic("no such fault")
	}
}

// revive starts daemons that have ended by themselves, and says which: none has a reason to.
func (c *cluster) revive() (ended []string) {
	for _, m := range c.members {
		if m.ended() {
			ended = append(ended, fmt.Sprintf("%s ended by itself: %v", m.name, m.err))
			m.cmd = nil
			m.start()
		}
	}
	return ended
}
