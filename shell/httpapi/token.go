package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell"
)

// Token is a bearer token that is accepted, and what its holder may do. The
// token itself is not kept, only its hash.
type Token struct {
	// Name is what the journal and the logs call the holder: "api:NAME". It must
	// be unique and not "loopback".
	Name string
	// SHA256 is the hash of the token; see [HashToken].
	SHA256 [sha256.Size]byte
	// Namespaces, Tenants and Tools bind the token: what belongs to others does
	// not exist for its holder. An empty list allows all.
	Namespaces, Tenants, Tools []string
	// Sessions allows terminal sessions: tasks, prompts of strategies, and what is typed
	// into them. A session runs programs of its own choice as the user of this process.
	Sessions bool
	// Git allows worktrees and merges.
	Git bool
	// Runners are the runners of jobs that the holder may use beside
	// [Options.OpenRunners]. Runs of processes of this machine are as much as a session.
	Runners []string
	// Admin may do everything, also take backups. An admin is bound to nothing.
	Admin bool
	// ReadOnly may change nothing.
	ReadOnly bool
	// Metrics may read /metrics and nothing else: the right of a Prometheus. It
	// excludes every other right and every binding.
	Metrics bool
	// Expires is when the token ends; zero: never.
	Expires time.Time
}

// HashToken gives the hash of a token for [Token.SHA256]. A token is a long
// random string, so one round of SHA-256 hides it.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// loopback stands for whoever connects from loopback while no token is
// configured.
var loopback = Token{Name: "loopback", Admin: true}

// signs gives the name under which the holder does something. A name of their own
// choice does not hide whose token it was.
func (t *Token) signs(name string) string {
	switch name {
	case "", t.Name:
		return t.Name
	}
	if t.Name == loopback.Name {
		return name
	}
	return fmt.Sprintf("%s (token %s)", name, t.Name)
}

func checkTokens(tokens []Token) []error {
	var errs []error
	names := make(map[string]bool, len(tokens))
	hashes := make(map[[sha256.Size]byte]string, len(tokens))
	for i, t := range tokens {
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("httpapi: Options.Tokens[%d] %q: %s", i, t.Name, fmt.Sprintf(format, args...)))
		}
		switch {
		case !plainName(t.Name):
			bad("Name must be 1 to 64 letters, digits, '.', '-' or '_'")
		case t.Name == loopback.Name:
			bad("Name is reserved for access without a token")
		case names[t.Name]:
			bad("Name is given twice")
		}
		names[t.Name] = true
		switch other, dup := hashes[t.SHA256]; {
		case t.SHA256 == [sha256.Size]byte{}, t.SHA256 == HashToken(""):
			bad("SHA256 is the hash of nothing: use HashToken of a long random string")
		case dup:
			bad("SHA256 is that of the token %q: each needs its own", other)
		}
		hashes[t.SHA256] = t.Name
		if t.Admin && !t.unbound() {
			bad("Admin is bound to namespaces, tenants or tools: an admin may do everything")
		}
		if other := t.besideMetrics(); t.Metrics && len(other) > 0 {
			bad("Metrics excludes %s: such a token reads /metrics and nothing else", strings.Join(other, ", "))
		}
	}
	return errs
}

// besideMetrics names the fields that mean nothing for a token that only reads metrics.
func (t *Token) besideMetrics() (fields []string) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"Admin", t.Admin}, {"ReadOnly", t.ReadOnly},
		{"Namespaces", len(t.Namespaces) > 0}, {"Tenants", len(t.Tenants) > 0}, {"Tools", len(t.Tools) > 0},
	} {
		if f.given {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// plainName reports whether s is harmless in logs, headers and paths.
func plainName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '-' && r != '_'
	})
}

// unbound reports whether the token sees everything.
func (t *Token) unbound() bool {
	return len(t.Namespaces) == 0 && len(t.Tenants) == 0 && len(t.Tools) == 0
}

func (t *Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// sees reports whether something of that tenant and tool exists for the holder.
func (t *Token) sees(namespace, tenant, tool string) bool {
	return t.seesScope(namespace, tenant) && in(t.Tools, tool)
}

// startSessions refuses a token that may not use terminal sessions.
func (t *Token) startSessions(action string) error {
	if t.Admin || t.Sessions {
		return nil
	}
	return failf(http.StatusForbidden, "token: %q may not %s: that takes sessions = true for the token", t.Name, action)
}

// notBoundToTools refuses a token that is bound to tools what no list of tools allows.
func (t *Token) notBoundToTools(action string) error {
	if len(t.Tools) == 0 {
		return nil
	}
	return failf(http.StatusForbidden, "token: %q may only use the tools %s; it cannot %s", t.Name, strings.Join(t.Tools, ", "), action)
}

func in(allowed []string, v string) bool { return len(allowed) == 0 || slices.Contains(allowed, v) }

// permit refuses what the holder asks for by name and may not have. It tells
// only what the token is, never what exists.
func (t *Token) permit(namespace, tenant *string, tool string) error {
	switch {
	case namespace != nil && !in(t.Namespaces, *namespace):
		return notOneOf("namespace", *namespace, t.Namespaces)
	case tenant != nil && !in(t.Tenants, *tenant):
		return notOneOf("tenant", *tenant, t.Tenants)
	case tool != "" && !in(t.Tools, tool):
		return notOneOf("tool", tool, t.Tools)
	}
	return nil
}

// notOneOf refuses a name, and tells the holder of the token its own ones.
func notOneOf(what, name string, bound []string) error {
	return failf(http.StatusForbidden, "%s: %q is not one of the token's: use %s", what, clip(name), clip(strings.Join(bound, ", ")))
}

// defaultScope is the namespace, and the tenant, of an action that names none:
// the same as for the daemon's webhooks and its command line, so that a dedup
// key is one key, whichever way an action comes.
const defaultScope = "default"

// home gives the namespace or tenant of a new action: what is asked for, else
// the one that the token is bound to, else the default.
func home(name string, asked *string, bound []string) (string, error) {
	switch {
	case asked != nil:
		return *asked, nil
	case len(bound) == 1:
		return bound[0], nil
	case !in(bound, defaultScope):
		return "", failf(http.StatusBadRequest, "%s: missing: use one of the token's: %s", name, strings.Join(bound, ", "))
	}
	return defaultScope, nil
}

// authenticate finds the token of the request. Without configured tokens
// whoever asks from this machine is the loopback admin: the middleware has checked where the
// request came from, and no proxy may stand between. Routes that ask for no token are not refused to proxies.
func (s *Server) authenticate(r *http.Request) (*Token, error) {
	tokens := s.tokens.all()
	if len(tokens) == 0 {
		return &loopback, throughNoProxy(r)
	}
	if t := s.visiting(r); t != nil {
		return t, nil
	}
	if sealed := r.Header.Get(headerSession); sealed != "" && s.o.PageKey != nil {
		v, err := s.Visitor(r, sealed)
		if errors.Is(err, ErrSignIn) {
			return nil, unauthorized(`Bearer realm="orrery"`, "session: has ended: %s", ErrSignIn)
		}
		if err != nil {
			return nil, err
		}
		return v.token, nil
	}
	given, err := bearer(r)
	if err != nil {
		return nil, unauthorized(`Bearer realm="orrery"`, "%s", err)
	}
	hash := HashToken(given)
	found := -1
	for i := range tokens { // all of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(tokens[i].SHA256[:], hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return nil, unauthorized(`Bearer realm="orrery", error="invalid_token"`, "token: is unknown")
	}
	t := &tokens[found]
	if t.expired(s.o.Clock.Now()) {
		return nil, unauthorized(`Bearer realm="orrery", error="invalid_token"`, "token: %q expired at %s", t.Name, t.Expires.UTC().Format(time.RFC3339))
	}
	return t, nil
}

func bearer(r *http.Request) (string, error) {
	const want = `want "Authorization: Bearer TOKEN"`
	h := r.Header.Values("Authorization")
	if len(h) == 0 {
		return "", errors.New("token: missing: " + want)
	}
	scheme, token, _ := strings.Cut(h[0], " ")
	token = strings.TrimSpace(token)
	if len(h) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errors.New("token: the Authorization header is malformed: " + want)
	}
	return token, nil
}

// scope gives the one tenant that the request, or the token, is about; nil if that is
// more than one.
func (t *Token) scope(namespace, tenant *string) *shell.Scope {
	if namespace == nil && len(t.Namespaces) == 1 {
		namespace = &t.Namespaces[0]
	}
	if tenant == nil && len(t.Tenants) == 1 {
		tenant = &t.Tenants[0]
	}
	if namespace == nil || tenant == nil {
		return nil
	}
	return &shell.Scope{Namespace: *namespace, Tenant: *tenant}
}

// homeOf gives namespace and tenant of what a caller makes or names, and
// refuses what the token may not have.
func (t *Token) homeOf(namespace, tenant *string) (scope shell.Scope, err error) {
	if scope.Namespace, err = home("namespace", namespace, t.Namespaces); err != nil {
		return scope, err
	}
	if scope.Tenant, err = home("tenant", tenant, t.Tenants); err != nil {
		return scope, err
	}
	return scope, t.permit(&scope.Namespace, &scope.Tenant, "")
}

// seesScope reports whether a machine without tools of its own exists for the holder.
func (t *Token) seesScope(namespace, tenant string) bool {
	return in(t.Namespaces, namespace) && in(t.Tenants, tenant)
}
