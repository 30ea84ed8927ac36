package httpapi

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// tokens are those that the server accepts, and what the requests of each hold. They may be replaced while
// it serves.
type tokens struct {
	mu   sync.RWMutex
	list []Token              // not changed in place: requests under way have pointers into it
	held map[string]*inFlight // by bucketOf the token; also of those that are gone, whose requests may be under way
	open map[*opened]struct{}
}

// opened is a request that goes on for as long as its token is known.
type opened struct {
	token *Token
	end   context.CancelCauseFunc
}

// errTokenGone ends the streams of a token that was removed, or changed.
var errTokenGone = errors.New("the token was removed or changed")

// all gives the tokens, for reading.
func (ts *tokens) all() []Token {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.list
}

// use has these tokens accepted from now on.
func (ts *tokens) use(list []Token, hold func(*Token) *inFlight) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.list = slices.Clone(list)
	held := make(map[string]*inFlight, len(ts.held)+len(list)+1)
	seen := make(map[string]bool)
	for _, t := range append([]Token{loopback}, ts.list...) {
		name, of := bucketOf(&t)
		switch f := ts.held[name]; {
		case seen[name]: // one more of a tenant
			held[name].whose.Store(new(fmt.Sprintf("the tokens of tenant %q", of.Tenant)))
		case f != nil:
			held[name] = f
		default:
			held[name] = hold(&t)
		}
		seen[name] = true
	}
	for name, f := range ts.held {
		if held[name] == nil {
			held[name] = f
		}
	}
	ts.held = held
	for s := range ts.open {
		if !ts.knows(s.token) {
			s.end(errTokenGone)
		}
	}
}

// knows reports whether a token is accepted, with the same rights; ts.mu is held.
func (ts *tokens) knows(t *Token) bool {
	return t.Name == loopback.Name || slices.ContainsFunc(ts.list, func(o Token) bool { return reflect.DeepEqual(o, *t) })
}

// heldBy gives what the requests of a token hold.
func (ts *tokens) heldBy(t *Token) *inFlight {
	name, _ := bucketOf(t)
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.held[name]
}

// whileKnown gives a context that ends when the token is removed or changed. forget is to be called at the end.
func (ts *tokens) whileKnown(ctx context.Context, t *Token) (of context.Context, forget func()) {
	of, end := context.WithCancelCause(ctx)
	s := &opened{token: t, end: end}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.open == nil {
		ts.open = make(map[*opened]struct{})
	}
	ts.open[s] = struct{}{}
	if !ts.knows(t) { // it went after the request was admitted
		end(errTokenGone)
	}
	return of, func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		delete(ts.open, s)
		end(nil)
	}
}

// TokenChanges are the names of tokens that a call of [Server.SetTokens] has concerned.
type TokenChanges struct {
	Added, Removed []string
	Changed        []string // the secret, the rights or the end
}

// SetTokens replaces the tokens of [Options] while the server serves, all of them or, with an error, none. What a token
// was that is not among them, or is with other rights, is refused or bound so from the next request on; its streams, and requests that
// wait for items, end. A server that has tokens must keep one, and one that has none can be given none: who may ask without a token
// is decided when the server is made.
func (s *Server) SetTokens(list []Token) (TokenChanges, error) {
	was := s.tokens.all()
	if (len(was) == 0) != (len(list) == 0) {
		return TokenChanges{}, errors.New("httpapi: SetTokens: a server with tokens must keep one, and one without them can be given none: make another one")
	}
	if err := errors.Join(checkTokens(list)...); err != nil {
		return TokenChanges{}, err
	}
	var out TokenChanges
	byName := func(in []Token, name string) int {
		return slices.IndexFunc(in, func(t Token) bool { return t.Name == name })
	}
	for _, t := range list {
		switch i := byName(was, t.Name); {
		case i < 0:
			out.Added = append(out.Added, t.Name)
		case !reflect.DeepEqual(was[i], t):
			out.Changed = append(out.Changed, t.Name)
		}
	}
	for _, t := range was {
		if byName(list, t.Name) < 0 {
			out.Removed = append(out.Removed, t.Name)
		}
	}
	s.tokens.use(list, s.newInFlight)
	return out, nil
}
