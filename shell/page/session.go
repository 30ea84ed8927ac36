package page

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// zoneCookie is the cookie of the zone of times. Each cookie is for this page's paths alone.
const zoneCookie = "orrery_zone"

// proofField is the field of each form that shows that this page made it.
const proofField = "proof"

// Bounds of the body of a form: of who has signed in, and of anybody.
const (
	maxForm   = 4 << 20
	maxSignIn = 16 << 10
)

// visit is one request of a browser.
type visit struct {
	*http.Request
	p    *Page
	who  *httpapi.Visitor // nil on the way to signing in
	zone *time.Location
	now  time.Time
	nav  string // the entry of the menu that is current
	// editing is the revision of what the form edits that is shown or was sent.
	editing string
	// answers are those of the API's answers that a form was made of, by their addresses, until something is changed: its revision, its fields and the
	// name of what it is about are in one of them. nil: answers are not kept.
	answers map[string]*answer
}

func (p *Page) newVisit(r *http.Request, who *httpapi.Visitor) *visit {
	return &visit{Request: r, p: p, who: who, zone: zoneOf(r), now: p.o.Clock.Now()}
}

// visit finds out who sends a request. Who has to sign in is led there, and back
// afterwards.
func (p *Page) visit(w http.ResponseWriter, r *http.Request) (*visit, bool) {
	who, err := p.visitor(r)
	switch {
	case err == nil:
		return p.newVisit(r, who), true
	case errors.Is(err, httpapi.ErrSignIn) && r.Header.Get("Sec-Fetch-Dest") == "empty":
		http.Error(w, err.Error(), http.StatusUnauthorized) // of the page's own script, which reloads then
	case errors.Is(err, httpapi.ErrSignIn):
		to := r.URL.RequestURI()
		if r.URL.Path == "/zone" || r.URL.Path == "/sign-out" { // forms that have no page of their own
			to = "/"
		}
		http.Redirect(w, r, p.base+"/sign-in?"+url.Values{"to": {to}}.Encode(), http.StatusSeeOther)
	default:
		p.fail(w, p.newVisit(r, nil), err)
	}
	return nil, false
}

// visitor gives who sends a request, by its session.
func (p *Page) visitor(r *http.Request) (*httpapi.Visitor, error) {
	name, err := p.o.API.SessionName(r.Context())
	if err != nil {
		return nil, err
	}
	sealed := ""
	if c, err := r.Cookie(name); err == nil {
		sealed = c.Value
	}
	return p.o.API.Visitor(r, sealed)
}

// proven refuses forms that another site has made.
func (p *Page) proven(w http.ResponseWriter, r *http.Request, q *visit) bool {
	most := int64(maxSignIn)
	if q.who != nil {
		leave, err := p.o.API.Turn(r.Context(), q.who, httpapi.TurnToSend)
		if err != nil {
			p.fail(w, q, err)
			return false
		}
		defer leave()
		most = maxForm
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		p.fail(w, q, &apiError{Status: http.StatusForbidden, Text: "origin: forms of other sites are refused"})
		return false
	}
	if err := r.ParseForm(); err != nil {
		p.fail(w, q, &apiError{Status: http.StatusBadRequest, Text: "the form cannot be read: it is longer than " + strconv.FormatInt(most>>10, 10) + " KiB, or was cut off"})
		return false
	}
	if q.who != nil && !q.who.Proves(r.PostForm.Get(proofField)) {
		p.fail(w, q, &apiError{Status: http.StatusForbidden, Text: "the form was not made for this session: load the page again, and send it again"})
		return false
	}
	return true
}

// cookie makes a cookie of the page.
func (p *Page) cookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure if the connection is
		Name: name, Value: value, Path: p.base + "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteLaxMode,
	}
}

// goesTo gives where a form leads back to: an address of this page, and no other.
func (p *Page) goesTo(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") ||
		strings.ContainsAny(to, "\\\r\n\t") || leadsUp(u) {
		return p.base + "/"
	}
	return p.base + u.RequestURI()
}

// leadsUp reports whether a path has a segment that browsers take for the way up, out of the page: also an encoded one.
func leadsUp(u *url.URL) bool {
	for s := range strings.SplitSeq(u.EscapedPath(), "/") {
		if s, err := url.PathUnescape(s); err != nil || s == "." || s == ".." {
			return true
		}
	}
	return false
}

func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request) {
	q := p.newVisit(r, nil)
	if !p.o.API.NeedsSignIn() {
		http.Redirect(w, r, p.base+"/", http.StatusSeeOther)
		return
	}
	p.render(w, q, http.StatusOK, view{Title: "Sign in", SignIn: &signIn{To: r.URL.Query().Get("to")}})
}

// signIn is the form of who signs in.
type signIn struct {
	To    string
	Error string
}

func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	q := p.newVisit(r, nil)
	if !p.proven(w, r, q) {
		return
	}
	to := r.PostForm.Get("to")
	sealed, err := p.o.API.SignIn(r, strings.TrimSpace(r.PostForm.Get("token")))
	if err != nil {
		status, text := httpapi.StatusOf(err)
		if status == http.StatusUnauthorized {
			text = "This token is unknown, or has expired."
		}
		p.render(w, q, status, view{Title: "Sign in", SignIn: &signIn{To: to, Error: text}})
		return
	}
	name, err := p.o.API.SessionName(r.Context())
	if err != nil {
		p.fail(w, q, err)
		return
	}
	http.SetCookie(w, p.cookie(r, name, sealed, httpapi.SessionTime))
	http.Redirect(w, r, p.goesTo(to), http.StatusSeeOther) //nolint:gosec // goesTo gives addresses of the page alone
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	q, ok := p.visit(w, r)
	if !ok || !p.proven(w, r, q) {
		return
	}
	name, err := p.o.API.SessionName(r.Context())
	if err != nil {
		p.fail(w, q, err)
		return
	}
	http.SetCookie(w, p.cookie(r, name, "", -time.Second))
	http.Redirect(w, r, p.base+"/sign-in", http.StatusSeeOther)
}

// setZone chooses the zone of the times that the page shows.
func (p *Page) setZone(w http.ResponseWriter, r *http.Request) {
	q, ok := p.visit(w, r)
	if !ok || !p.proven(w, r, q) {
		return
	}
	name := r.PostForm.Get("zone")
	if _, err := schedule.LoadZone(name); err != nil {
		p.fail(w, q, &apiError{Status: http.StatusBadRequest, Text: err.Error()})
		return
	}
	http.SetCookie(w, p.cookie(r, zoneCookie, url.QueryEscape(name), 365*24*time.Hour))
	http.Redirect(w, r, p.goesTo(r.PostForm.Get("to")), http.StatusSeeOther) //nolint:gosec // as in signIn
}

// zoneOf gives the zone that the browser has chosen: UTC unless it has.
func zoneOf(r *http.Request) *time.Location {
	c, err := r.Cookie(zoneCookie)
	if err != nil {
		return time.UTC
	}
	name, err := url.QueryUnescape(c.Value)
	if err != nil {
		return time.UTC
	}
	zone, err := schedule.LoadZone(name)
	if err != nil {
		return time.UTC
	}
	return zone.Location()
}
