package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
)

// Visitor is somebody who uses the API through a page in a browser: the holder of a token who
// has signed in, or, while no token is configured, whoever connects from loopback. It is what package page
// knows of tokens. A Visitor is good for one request, and safe for concurrent use.
type Visitor struct {
	token  *Token
	proof  string
	sealed string // the session; "": no token is configured
}

// ErrSignIn says that a browser has no session, or that its session or its token has ended.
var ErrSignIn = errors.New("sign in with a token")

// SessionTime is how long a session lasts. It ends before that with its token.
const SessionTime = 7 * 24 * time.Hour

// sessionVersion is the first byte of what is sealed in a session.
const sessionVersion = 1

// sessionBound keeps what is sealed for a session from being taken for a page token, and the
// reverse.
var sessionBound = []byte("httpapi/session")

// SignIn makes a session for the holder of a token: a text for a cookie, good on each instance over the
// same store. It holds no token, and says nothing to who reads it. A wrong token gives an error with the status 401, or,
// after many from one address, 429: see [StatusOf].
func (s *Server) SignIn(r *http.Request, token string) (sealed string, err error) {
	asked := r.Clone(r.Context())
	asked.Header = http.Header{"Authorization": {"Bearer " + token}}
	t, err := s.authenticate(asked)
	if err != nil {
		return "", s.slowed(r, err)
	}
	if t.Metrics {
		return "", failf(http.StatusForbidden, "token: %q may read /metrics and nothing else", t.Name)
	}
	aead, err := s.sealer(r.Context())
	if err != nil {
		return "", err
	}
	plain := append([]byte{sessionVersion}, t.SHA256[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(max(s.o.Clock.Now().Unix(), 0)))
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, sessionBound)), nil //nolint:gosec // the cipher makes a random nonce itself
}

// SessionName gives a name for the cookie of sessions: another one for each database, since all servers of one
// host get each other's cookies, whatever their ports, and would end each other's sessions.
func (s *Server) SessionName(ctx context.Context) (string, error) {
	sum, err := s.keyed(ctx, "httpapi/session-name")
	if err != nil {
		return "", err
	}
	return "orrery_session_" + hex.EncodeToString(sum[:4]), nil
}

// Visitor gives who sends a request with that session. It is [ErrSignIn] if the session is none, or has ended. While
// no token is configured it needs no session.
func (s *Server) Visitor(r *http.Request, sealed string) (*Visitor, error) {
	if !s.NeedsSignIn() {
		return s.visitor(r.Context(), &loopback, "")
	}
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || sealed == "" {
		return nil, ErrSignIn
	}
	if _, err := s.sealer(r.Context()); err != nil {
		return nil, err
	}
	plain := s.pageTokens.open(b, sessionBound)
	if len(plain) != 1+sha256.Size+8 || plain[0] != sessionVersion {
		return nil, ErrSignIn
	}
	hash := [sha256.Size]byte(plain[1:])
	began := time.Unix(int64(binary.BigEndian.Uint64(plain[1+sha256.Size:])), 0)
	now := s.o.Clock.Now()
	if now.Sub(began) >= SessionTime {
		return nil, ErrSignIn
	}
	tokens := s.tokens.all()
	for i := range tokens {
		if t := &tokens[i]; hmac.Equal(t.SHA256[:], hash[:]) && !t.expired(now) {
			return s.visitor(r.Context(), t, sealed)
		}
	}
	return nil, ErrSignIn
}

func (s *Server) visitor(ctx context.Context, t *Token, sealed string) (*Visitor, error) {
	sum, err := s.keyed(ctx, "httpapi/proof\x00"+sealed)
	if err != nil {
		return nil, err
	}
	return &Visitor{token: t, proof: base64.RawURLEncoding.EncodeToString(sum), sealed: sealed}, nil
}

// keyed gives a hash of a text that only who has the key of page tokens can make.
func (s *Server) keyed(ctx context.Context, text string) ([]byte, error) {
	if _, err := s.sealer(ctx); err != nil {
		return nil, err
	}
	return s.hashed(text), nil
}

// hashed is keyed once there is a key.
func (s *Server) hashed(text string) []byte {
	mac := hmac.New(sha256.New, s.pageTokens.secret())
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// secret gives the key, which [Server.sealer] has made.
func (p *pageTokens) secret() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key
}

// NeedsSignIn reports whether tokens are configured.
func (s *Server) NeedsSignIn() bool { return len(s.tokens.all()) > 0 }

// Name is that of the visitor's token.
func (v *Visitor) Name() string { return v.token.Name }

// ReadOnly reports whether the visitor may change nothing.
func (v *Visitor) ReadOnly() bool { return v.token.ReadOnly }

// Unbound reports whether the visitor sees all namespaces, tenants and tools.
func (v *Visitor) Unbound() bool { return v.token.unbound() }

// Proof is what a form carries to show that it was made for this session: another site cannot know it. It is
// the same for as long as the session lasts.
func (v *Visitor) Proof() string { return v.proof }

// Proves reports whether a form that was sent carries the visitor's [Visitor.Proof].
func (v *Visitor) Proves(given string) bool { return hmac.Equal([]byte(v.proof), []byte(given)) }

type visitorKey struct{}

// Serve answers a request of the API for a visitor, whatever the request's own headers say
// of a token. Limits, redaction and the log of requests are those of the visitor's token.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, v *Visitor) {
	s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, v)))
}

// Turn is what a visitor's pages wait for.
type Turn int

// The turns of a page.
const (
	TurnToRead Turn = iota // to ask the API for something: pages have half of their token's lists, so that many of them wait instead of being refused
	TurnToSend             // to have a form read
)

const (
	maxFormsSent = 8
	maxTurnWait  = 20 * time.Second
)

// Turn waits until it is a request's turn among those of the visitor's token, or of its tenant. The caller calls leave at the end.
func (s *Server) Turn(ctx context.Context, v *Visitor, t Turn) (leave func(), err error) {
	turns := s.heldBy(v.token).turns[t]
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	default:
	}
	late := time.NewTimer(maxTurnWait)
	defer late.Stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, tooMany(1, "token: too many pages of %s are being loaded: load this one again later", s.heldBy(v.token).of())
	}
}

// visiting gives the token of a request that [Server.Serve] serves; nil: it is none, or its token ended
// meanwhile.
func (s *Server) visiting(r *http.Request) *Token {
	v, ok := r.Context().Value(visitorKey{}).(*Visitor)
	if !ok || v.token.expired(s.o.Clock.Now()) {
		return nil
	}
	return v.token
}

// AdmitPage refuses requests that no page should answer. While no token is configured a browser on this machine
// is an administrator, so that the name by which it calls this server must be that of this machine, no proxy may stand between
// the two, and what comes from another site may only be somebody who follows a link.
func (s *Server) AdmitPage(r *http.Request) error {
	if err := s.checkLocal(r); err != nil {
		return err
	}
	if s.NeedsSignIn() {
		return nil
	}
	if err := throughNoProxy(r); err != nil {
		return err
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !read || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" {
			return failf(http.StatusForbidden, "origin: requests of other sites are refused")
		}
	}
	return nil
}

// StatusOf gives the HTTP status and the text with which the API answers an error of this
// package.
func StatusOf(err error) (status int, text string) {
	if errors.Is(err, ErrSignIn) {
		return http.StatusUnauthorized, ErrSignIn.Error()
	}
	f := classify(err)
	return f.status, f.text
}

// Live bounds of the page's streams.
const (
	maxLive     = 1024 // streams of all browsers
	maxLiveEach = 256  // of one token
	livePulse   = 15 * time.Second
	liveEvery   = time.Second // between two changes that are told to one
	liveShare   = 20 * time.Millisecond
)

// livePause gives how long a stream of the page tells of no further change: longer the more of them are open, since each
// page is loaded anew then, so that about 50 a second are in all. It differs, so that not all of them are loaded at the same time.
func (s *Server) livePause() time.Duration {
	mean := time.Duration(s.live.count()) * liveShare
	return max(liveEvery, mean/2+rand.N(mean+1)) //nolint:gosec // nobody gains by guessing it
}

// StreamChanges tells a browser that something has changed that the visitor may see, as server-sent events named "changed", at most
// one a second, and fewer if more than 50 are told, until it leaves or the visitor's token ends. What has changed it does not say. An event
// named "alive" comes each 15 seconds.
func (s *Server) StreamChanges(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	leave, err := s.takeStream(&s.live, func(f *inFlight) *slots { return &f.live }, &call{token: v.token}, "pages are open that show changes", "close some", 60)
	if err != nil {
		return err
	}
	defer leave()
	ctx, forget := s.tokens.whileKnown(r.Context(), v.token)
	defer forget()
	r = r.WithContext(ctx)
	var sees func(core.State) bool
	if !v.token.unbound() {
		sees = v.token.seesMachine
	}
	changes, stopped, leaveChanges := s.changes(ctx, sees)
	defer leaveChanges()
	w.Header().Set("Cache-Control", "no-store")
	out := newEventStream(w)
	if r.Method == http.MethodHead {
		return nil
	}
	if !out.write("retry: 2000\n\n") {
		return nil
	}
	pulse := time.NewTicker(livePulse)
	defer pulse.Stop()
	for {
		select {
		case <-changes:
			if !out.write("event: changed\ndata: 1\n\n") {
				return nil
			}
			select {
			case <-time.After(s.livePause()):
			case <-r.Context().Done():
				return nil
			case <-stopped:
				return nil
			}
		case <-pulse.C:
			if v.token.expired(s.o.Clock.Now()) || !out.write("event: alive\ndata: 1\n\n") {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-stopped:
			return nil
		}
	}
}

// liveElsewhere is how often a page is told of changes where other processes own partitions: what changes there is not known here.
const liveElsewhere = 5 * time.Second

// changes gives what tells of changes, and of the end of it.
func (s *Server) changes(ctx context.Context, sees func(core.State) bool) (told <-chan struct{}, stopped <-chan struct{}, leave func()) {
	if s.locals == nil {
		changes := s.engine.Changes(sees)
		return changes.C, s.engine.Stopped(), changes.Close
	}
	ctx, cancel := context.WithCancel(ctx)
	all := make(chan struct{}, 1)
	tell := func() {
		select {
		case all <- struct{}{}:
		default: // it is told with what was before
		}
	}
	var readers sync.WaitGroup
	locals := s.locals()
	for _, of := range locals {
		changes := of.engine.Changes(sees)
		readers.Go(func() {
			defer changes.Close()
			for {
				select {
				case <-changes.C:
					tell()
				case <-of.engine.Stopped():
					cancel() // the page asks again, and finds who owns the partition then
					return
				case <-ctx.Done():
					return
				}
			}
		})
	}
	if len(locals) < s.o.Partitions {
		readers.Go(func() {
			tick := time.NewTicker(liveElsewhere)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					tell()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return all, ctx.Done(), func() { cancel(); readers.Wait() }
}
