package forward

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell/fleet"
)

// storm is three processes that pass requests on to the one that works, and messages between them that are refused, late, lost and doubled, in virtual time.
// What is passed on is the real thing; the API, the database with its fencing and its keys, and the network are the storm's.
type storm struct {
	seed  uint64
	nodes [3]*node

	mu       sync.Mutex
	token    uint64 // of the one that owns the partition
	owner    int    // -1: nobody does
	answers  map[string]string
	carried  map[int]int // how often each request was carried out, by its number
	tried    map[int]int // how often somebody was to be asked for it,
	sent     map[int]int // how often it was sent to another process: it may have arrived,
	unsure   map[int]int // and how often nobody knows whether it has
	asked    map[int]*ask
	findings []string
}

// node is one process: what it knows of who works, and how it answers.
type node struct {
	s     *storm
	n     int
	front *Front
	by    *Forwarder
	term  chan struct{} // has something while it works

	mu      sync.Mutex
	state   fleet.State
	changed chan struct{}
	dead    bool
}

func (n *node) State() fleet.State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

func (n *node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

func (n *node) knows(s fleet.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = s
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *node) isDead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

func (n *node) address() string { return fmt.Sprintf("http://n%d", n.n) }

// ask is a request of a client.
type ask struct {
	n       int
	kind    askKind
	key     string // "": the client gives none
	proxied bool   // it comes through a proxy that is trusted
	body    string
	size    int64
}

type askKind int

const (
	askRead    askKind = iota
	askChange          // of the API, with a body that is kept
	askLarge           // of the API, with a body that is not
	askWebhook         // whose receiver knows no keys
	askBare            // likewise, without a body
	askKinds
)

// harmless reports whether it may be sent again.
func (a *ask) harmless() bool { return a.kind == askRead || a.kind == askChange }

const (
	waits   = 15 * time.Second
	maxBody = 200
	// longest is how long an exchange between two processes may take: then its connection is gone.
	longest = 30 * time.Second
	// hops is a header of what was passed on, whatever the forwarder says.
	hops     = "Storm-Hops"
	proxyIP  = "10.9.9.9"
	clientIP = "10.1.1.1"
)

// pass has virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// draw is random, and depends on nothing but what it is drawn for.
func (s *storm) draw(of ...int) *rand.Rand {
	h := s.seed
	for _, n := range of {
		h = (h ^ uint64(n+1)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return rand.New(rand.NewPCG(h, 7))
}

func (s *storm) find(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = append(s.findings, fmt.Sprintf(format, args...))
}

func newStorm(seed uint64) (*storm, error) {
	s := &storm{seed: seed, owner: -1, answers: map[string]string{}, carried: map[int]int{}, tried: map[int]int{}, sent: map[int]int{}, unsure: map[int]int{}, asked: map[int]*ask{}}
	for i := range s.nodes {
		n := &node{s: s, n: i, term: make(chan struct{}, 1), changed: make(chan struct{})}
		by, err := New(Options{
			Member: n, Name: fmt.Sprint("n", i), MaxBody: maxBody, Wait: waits, Transport: network{n},
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix(proxyIP + "/32")},
		})
		if err != nil {
			return nil, err
		}
		n.by, n.front, s.nodes[i] = by, NewFront(by), n
	}
	return s, nil
}

// owns has another process own the partition; -1: nobody. The others learn of it later, each by itself.
func (s *storm) owns(owner int, rng *rand.Rand, late *sync.WaitGroup) {
	s.mu.Lock()
	s.token++
	s.owner = owner
	is := fleet.State{Token: s.token}
	s.mu.Unlock()
	if owner >= 0 {
		is.Owner, is.Address = fmt.Sprint("n", owner), s.nodes[owner].address()
	}
	for i, n := range s.nodes {
		after := time.Duration(rng.IntN(1500)) * time.Millisecond
		begins := time.Duration(rng.IntN(800)) * time.Millisecond
		is := is
		is.Works = i == owner
		late.Go(func() {
			pass(after)
			s.mu.Lock()
			current := s.token == is.Token
			s.mu.Unlock()
			if !current {
				return
			}
			n.knows(is)
			if !is.Works {
				return
			}
			pass(begins)
			n.term <- struct{}{} // the term before has ended
			defer func() { <-n.term }()
			stop := n.front.Own(n.api(is.Token))
			for { // until it notices that another one owns the partition
				pass(500 * time.Millisecond)
				s.mu.Lock()
				over := s.token != is.Token
				s.mu.Unlock()
				if over {
					stop()
					return
				}
			}
		})
	}
}

// api is what a process answers that works, or takes itself for that: it stores nothing once another one owns the partition.
func (n *node) api(token uint64) http.Handler {
	s := n.s
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.Atoi(r.URL.Query().Get("n"))
		s.mu.Lock()
		a := s.asked[number]
		s.mu.Unlock()
		if err != nil || a == nil {
			s.find("a request comes without its query: %s", r.URL)
			return
		}
		s.arrives(a, r)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if string(body) != a.body {
			s.find("request %d comes with a body of %d bytes, which has %d", a.n, len(body), len(a.body))
		}
		if n.isDead() {
			panic(http.ErrAbortHandler)
		}
		key := r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		defer s.mu.Unlock()
		switch before, again := s.answers[key]; {
		case s.token != token:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case a.kind == askRead:
			_, _ = io.WriteString(w, "read")
		case key != "" && again && a.kind != askWebhook && a.kind != askBare:
			_, _ = io.WriteString(w, before)
		default:
			s.carried[a.n]++
			s.answers[key] = strconv.Itoa(a.n)
			_, _ = io.WriteString(w, strconv.Itoa(a.n))
		}
	})
}

// serve gives how a process answers a request; nil: it has died over that.
func (n *node) serve(r *http.Request) *http.Response {
	w, died := httptest.NewRecorder(), true
	func() {
		defer func() { _ = recover() }()
		n.front.ServeHTTP(w, r)
		died = false
	}()
	if died {
		return nil
	}
	return w.Result()
}

// arrives checks what a request says of who asks, and from where.
func (s *storm) arrives(a *ask, r *http.Request) {
	if got, want := r.Header.Get("Authorization"), fmt.Sprint("Bearer ", a.n); got != want {
		s.find("request %d comes with the rights of %q, not of %q", a.n, got, want)
	}
	if r.Host != "orrery.example" {
		s.find("request %d comes for the host %q", a.n, r.Host)
	}
	if by := r.Header.Values(Header); len(by) > 1 {
		s.find("request %d was passed on by %v", a.n, by)
	}
	if r.Header.Get(Header) == "" {
		return // it came from its client
	}
	switch from := r.Header.Get("X-Forwarded-For"); {
	case a.proxied && from != "192.0.2.1":
		s.find("request %d comes from %q, which is not what its proxy said", a.n, from)
	case !a.proxied && strings.Contains(from, "192.0.2.1"):
		s.find("request %d comes from %q, which nobody says who is trusted", a.n, from)
	}
}

// network takes requests from one process to another.
type network struct{ from *node }

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}

// RoundTrip implements [http.RoundTripper].
func (t network) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.trip(r)
	if op := (*net.OpError)(nil); err != nil && (!errors.As(err, &op) || op.Op != "dial") {
		number, _ := strconv.Atoi(r.URL.Query().Get("n"))
		t.from.s.mu.Lock()
		defer t.from.s.mu.Unlock()
		t.from.s.unsure[number]++
	}
	return resp, err
}

func (t network) trip(r *http.Request) (*http.Response, error) {
	s := t.from.s
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close() // as a transport does, also where nobody is reached
	}
	number, _ := strconv.Atoi(r.URL.Query().Get("n"))
	a := s.asked[number]
	if a == nil {
		return nil, fmt.Errorf("a request is passed on without its query: %s", r.URL)
	}
	to := s.nodes[int(r.URL.Host[1]-'0')]
	if r.Header.Get(hops) != "" {
		s.find("request %d is passed on again", number)
	}
	s.mu.Lock()
	s.tried[number]++
	s.sent[number]++
	rng := s.draw(2, number, s.sent[number], t.from.n, to.n)
	s.mu.Unlock()
	if to.isDead() || rng.IntN(12) == 0 {
		s.mu.Lock()
		s.sent[number]--
		s.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	deliver := func(ctx context.Context) *http.Response {
		in := httptest.NewRequestWithContext(context.WithoutCancel(ctx), r.Method, r.URL.String(), bytes.NewReader(body))
		in.Host, in.Header, in.RemoteAddr = cmp.Or(r.Host, r.URL.Host), r.Header.Clone(), "10.0.0.1:1"
		in.Header.Set(hops, "1")
		return to.serve(in)
	}
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	at, doubled, fate := t.from.State().Token, rng.IntN(12) == 0, rng.IntN(12)
	if fate == 0 { // it is lost on its way
		return nil, t.lost(wait, a, at)
	}
	delay := time.Duration(rng.IntN(300)) * time.Millisecond
	if rng.IntN(6) == 0 {
		delay = time.Duration(rng.IntN(20_000)) * time.Millisecond
	}
	answered := make(chan *http.Response, 2)
	go func() {
		pass(delay) // whoever has sent it may have given it up
		answered <- deliver(r.Context())
	}()
	if doubled && fate <= 2 && a.harmless() { // a transport sends again what it may, if the connection is gone
		go func() {
			pass(delay + time.Duration(rng.IntN(5000))*time.Millisecond)
			deliver(r.Context())
		}()
	}
	if fate <= 2 { // its answer is
		return nil, t.lost(wait, a, at)
	}
	select {
	case resp := <-answered:
		if resp == nil || to.isDead() {
			return nil, errReset
		}
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// lost waits for an answer that does not come. One that does no harm twice is not waited for once the process knows of another owner.
func (t network) lost(wait func(time.Duration) error, a *ask, at uint64) error {
	moved := time.Time{}
	for range int(longest / time.Second) {
		if err := wait(time.Second); err != nil {
			return err
		}
		switch {
		case t.from.State().Token == at:
		case moved.IsZero():
			moved = time.Now()
		case a.harmless() && time.Since(moved) > 2*time.Second:
			t.from.s.find("request %d waits for one that works no more", a.n)
			return errReset
		}
	}
	return errReset
}
