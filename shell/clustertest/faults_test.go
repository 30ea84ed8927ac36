//go:build unix

package clustertest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// kind is a kind of fault.
type kind int

const (
	killed              kind = iota // kill -9, started again later
	killedBriefly                   // kill -9, started again at once
	stopped                         // SIGTERM, started again at once
	frozen                          // SIGSTOP for longer than a lease, then SIGCONT
	frozenInTransaction             // as frozen, while a session of the daemon has a partition's row locked
	cutFromDatabase                 // nothing passes in either direction
	answersLost                     // the database gets what is sent, and its answers are lost
	connectionsLost                 // connections to the database are closed, and none can be made for a while
	cutFromOthers                   // requests that others pass on do not arrive
	repliesLost                     // requests that others pass on arrive, and are not answered
	restarted                       // the server ends in order, and starts again
	crashed                         // the server is killed, and starts again
	failedOver                      // the server is killed, and its synchronous standby takes over
	drained                         // a daemon gives its partitions away for a while
	added                           // another daemon takes part, and is taken away by SIGTERM
	frozenInCall                    // as frozen, within a call to Kubernetes, which arrives or is answered late; only with pods
	kinds
)

var kindNames = [kinds]string{
	"kill", "kill briefly", "stop", "freeze", "freeze within a transaction", "cut from the database", "lose answers of the database", "close connections to the database",
	"cut from the others", "lose replies to the others", "restart the database", "crash the database", "fail over",
	"drain", "add another daemon, and take it away", "freeze within a call to Kubernetes",
}

func (k kind) String() string { return kindNames[k] }

// ofDatabase reports whether a fault is of the server, and of no daemon.
func (k kind) ofDatabase() bool { return k >= restarted && k <= failedOver }

// moves reports whether a fault is none, but has partitions move. Only a database that is divided knows it, and it takes a daemon that answers.
func (k kind) moves() bool { return k == drained || k == added }

// fault is what happens to a daemon or to the server, and for how long.
type fault struct {
	kind   kind
	who    int // number of the daemon; -1: the one that works then
	length time.Duration
	call   lateCall // of frozenInCall
}

func (f fault) String() string {
	who := fmt.Sprintf(" daemon-%d", f.who)
	switch {
	case f.kind.ofDatabase(), f.kind == added, f.kind == frozenInTransaction:
		who = ""
	case f.who < 0:
		who = " the one that works"
	}
	if f.kind == frozenInCall {
		who = ": " + f.call.String()
	}
	return fmt.Sprintf("%s%s, %s", f.kind, who, f.length)
}

// alone reports whether a fault happens beside no other one: it waits for what the other daemons do.
func (k kind) alone() bool { return k == frozenInTransaction }

// lasts reports whether a fault goes on until it is healed: another one may happen meanwhile.
func (k kind) lasts() bool { return k != killedBriefly && k != stopped }

// step is a fault, or two of which the second one begins while the first one goes on.
type step struct {
	first  fault
	second *fault
}

func (s step) String() string {
	if s.second == nil {
		return s.first.String()
	}
	return fmt.Sprintf("%s; meanwhile %s", s.first, s.second)
}

// plan draws a schedule. As long as there are enough steps, each kind is in it that there is for such a database; frozenInTransaction
// is in any.
func plan(rng *rand.Rand, n int, divided bool) (all []step) {
	most := int(drained)
	if divided {
		most = int(frozenInCall)
	}
	draw := func(k kind) fault {
		f := fault{kind: k, who: -1}
		if divided || rng.IntN(3) == 0 {
			f.who = rng.IntN(daemons)
		}
		// Some are over within a lease, most are not.
		f.length = time.Duration(rng.IntN(int(3*lease/time.Millisecond))) * time.Millisecond
		if f.kind == frozen || f.kind == killed || f.kind.moves() {
			f.length += lease
		}
		return f
	}
	for len(all) < n {
		order := rng.Perm(most)
		if at := slices.Index(order, int(frozenInTransaction)); len(all) == 0 && at >= n {
			order[at], order[n-1] = order[n-1], order[at]
		}
		for _, k := range order {
			s := step{first: draw(kind(k))}
			other := kind(rng.IntN(most))
			oneServer := other.ofDatabase() && s.first.kind.ofDatabase()
			unmoved := other.moves() && s.first.kind.moves() || other.moves() && s.first.kind.ofDatabase() || other.ofDatabase() && s.first.kind.moves()
			notAlone := !s.first.kind.alone() && !other.alone()
			if rng.IntN(3) == 0 && notAlone && s.first.kind.lasts() && other.lasts() && !oneServer && !unmoved {
				second := draw(other)
				s.second = &second
			}
			all = append(all, s)
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

// suffer has the faults of a step happen, and waits for their end.
func (c *cluster) suffer(t *testing.T, s step) {
	t.Helper()
	heal, who := c.beginNoted(t, s.first, nil)
	if s.second == nil {
		wait(s.first.length)
		heal()
		return
	}
	wait(s.first.length / 2)
	healSecond, _ := c.beginNoted(t, *s.second, who)
	wait(s.first.length / 2)
	heal()
	wait(s.second.length)
	healSecond()
}

// stall is when a daemon was held up by a fault.
type stall struct {
	who      *member // nil: all of them
	from, to time.Time
}

// beginNoted is [cluster.begin], and notes who was held up from when to when.
func (c *cluster) beginNoted(t *testing.T, f fault, not *member) (heal func(), who *member) {
	t.Helper()
	s := stall{from: time.Now()}
	ends, who := c.begin(t, f, not)
	s.who = who
	return func() {
		ends()
		s.to = time.Now()
		c.stalls = append(c.stalls, s)
	}, who
}

// stalled reports whether a daemon was held up at that time, or until a moment before.
func (c *cluster) stalled(daemon string, at time.Time) bool {
	const moment = 5 * time.Second // on a busy machine it takes time to hear what has happened meanwhile
	return slices.ContainsFunc(c.stalls, func(s stall) bool {
		return (s.who == nil || s.who.name == daemon) && at.After(s.from) && at.Before(s.to.Add(moment))
	})
}

// begin has a fault happen to a daemon other than that one, and gives what ends it.
func (c *cluster) begin(t *testing.T, f fault, not *member) (heal func(), who *member) {
	t.Helper()
	if f.kind.ofDatabase() {
		t.Logf("PostgreSQL: %s", f)
		return c.beginInDatabase(t, f.kind), nil
	}
	if f.kind == added {
		t.Logf("%s", f)
		return c.add(t), nil
	}
	if f.kind == frozenInCall {
		return c.beginInCall(t, f.call)
	}
	if f.kind == frozenInTransaction {
		t.Logf("%s", f)
		return c.beginInTransaction(t)
	}
	m := c.members[max(f.who, 0)]
	if f.who < 0 {
		m = c.working()
	}
	if m == not {
		m = c.members[(slices.Index(c.members, m)+1)%daemons]
	}
	t.Logf("%s: %s", m.name, f)
	both := func(a, b func()) func() { return func() { a(); b() } }
	switch f.kind {
	case killed:
		m.kill()
		return m.start, m
	case killedBriefly:
		m.kill()
		m.start()
		return func() {}, m
	case stopped:
		require.NoError(t, m.stop(), "%s stops", m.name)
		m.start()
		return func() {}, m
	case frozen:
		m.signal(syscall.SIGSTOP)
		return func() { m.signal(syscall.SIGCONT) }, m
	case cutFromDatabase:
		return both(silence(t, m.toDatabase, "upstream"), silence(t, m.toDatabase, "downstream")), m
	case answersLost:
		return silence(t, m.toDatabase, "downstream"), m
	case connectionsLost:
		m.toDatabase.Stop()
		return func() {
			if !m.toDatabase.Enabled { // a failover starts it, too
				require.NoError(t, m.toDatabase.Start())
			}
		}, m
	case cutFromOthers:
		return both(silence(t, m.fromOthers, "upstream"), silence(t, m.fromOthers, "downstream")), m
	case repliesLost:
		return silence(t, m.fromOthers, "downstream"), m
	case drained:
		c.drain(t, m, true)
		return func() { c.drain(t, m, false) }, m
	default:
		panic("no such fault of a daemon")
	}
}

func (c *cluster) beginInDatabase(t *testing.T, k kind) (heal func()) {
	t.Helper()
	server := c.server
	switch k {
	case restarted:
		server.Stop(t)
	case crashed:
		server.Kill(t)
	case failedOver:
		standby := server.Standby(t, postgrestest.Synchronous)
		server.Kill(t)
		return func() {
			standby.Promote(t)
			c.lead(standby)
		}
	default:
		panic("no such fault of the database")
	}
	return func() { server.Start(t) }
}

// foundNoDatabase reports whether a daemon says with its last words that there was no database when it started: none at all, or none any more when it looked at
// what is in there.
func foundNoDatabase(last string) bool {
	for _, says := range []string{": connect to the database: ", ": read the layout: the database is not available: ", ": list partitions: the database is not available: "} {
		if strings.HasPrefix(last, "orreryd: database: ") && strings.Contains(last, says) {
			return true
		}
	}
	return false
}

// revive starts daemons that have ended by themselves, as a supervisor does, and says which had no reason to: one that finds no
// database at its start says so, and ends.
func (c *cluster) revive() (ended []string) {
	for _, m := range c.members {
		if !m.ended() {
			continue
		}
		lines := strings.Split(strings.TrimSpace(m.logged()), "\n")
		if last := lines[len(lines)-1]; !foundNoDatabase(last) {
			ended = append(ended, fmt.Sprintf("%s ended by itself: %v: %s", m.name, m.err, last))
		}
		m.cmd = nil
		m.start()
	}
	return ended
}

// drain has a daemon give its partitions away, or take part again.
func (c *cluster) drain(t *testing.T, m *member, on bool) {
	t.Helper()
	a := c.chief.do(t.Context(), http.MethodPost, "/v1/cluster/drain", map[string]any{"instance": m.name, "undo": !on})
	assert.True(t, a.ok(), "%s: %d %s", m.name, a.status, a.body)
}

// add starts the daemon that takes no part, and gives what takes it away.
func (c *cluster) add(t *testing.T) (away func()) {
	t.Helper()
	m := c.members[daemons]
	m.start()
	m.apart.Store(false)
	return func() {
		m.apart.Store(true)
		require.NoError(t, poll(patience, m.answers), "%s, once it is told to end", m.name)
		require.NoError(t, m.stop(), "%s stops", m.name)
	}
}
