// Package page is the web page of Orrery: what runs, what is late, what failed and why, what comes
// next, and the acts on it. It is an [http.Handler] over the HTTP API of package httpapi, which it
// asks within the process, as the holder of the token who has signed in: it reads no record and
// sends no event by itself, so that what it shows is what the API answers, and what it may do is
// what the token may.
//
// Its answers are HTML that works without script. docs/page.md is the guide for its users.
package page

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// DefaultMount is the path at which the page stands unless [Options] says otherwise.
const DefaultMount = "/ui"

// Options configure a [Page]. The zero value of each field but API is a sound default.
type Options struct {
	// API answers what the page asks. Required.
	API *httpapi.Server
	// Mount is the path below which the page is served, such as "/ui" (default [DefaultMount]). It begins with a slash
	// and does not end with one; "/" is the root.
	Mount string
	// BasePath is what a reverse proxy takes off the paths that browsers ask for, such as "/orrery"
	// (default: nothing). It stands before Mount in each link.
	BasePath string
	// TrustedProxies are the addresses of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are
	// believed (default: nobody's).
	TrustedProxies []netip.Prefix
	// Version is the program's version, shown on each page.
	Version string
	// Logger gets errors (default slog.Default()).
	Logger *slog.Logger
	// Clock tells what "in 5 minutes" is counted from (default [shell.SystemClock]).
	Clock shell.Clock
}

// Page is the web page over one API. It is safe for concurrent use, starts no goroutines and needs no
// closing.
type Page struct {
	o         Options
	base      string // of each link
	mux       *http.ServeMux
	acts      []act
	views     map[string]bool // the patterns of the pages that are read
	templates *template.Template
	assets    map[string]asset
}

//go:embed static templates
var files embed.FS

// New checks the options and builds the page.
func New(o Options) (*Page, error) {
	if o.API == nil {
		return nil, errors.New("page: Options.API is nil: make one with httpapi.New")
	}
	o.Mount = cmp.Or(o.Mount, DefaultMount)
	for _, prefix := range []struct{ field, value string }{{"Mount", o.Mount}, {"BasePath", o.BasePath}} {
		if err := CheckPath(prefix.value); err != nil {
			return nil, fmt.Errorf("page: Options.%s is %q: %w", prefix.field, prefix.value, err)
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Clock == nil {
		o.Clock = shell.SystemClock{}
	}
	p := &Page{o: o, base: strings.TrimSuffix(o.BasePath, "/") + strings.TrimSuffix(o.Mount, "/")}
	var err error
	if p.assets, err = readAssets(); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	if p.templates, err = template.New("page").Funcs(p.funcs()).ParseFS(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	p.acts = acts()
	p.mux = p.routes()
	return p, nil
}

// CheckPath refuses what [Options] take neither as Mount nor as BasePath.
func CheckPath(path string) error {
	switch {
	case path == "" || path == "/":
		return nil
	case path[0] != '/', strings.HasSuffix(path, "/"), strings.Contains(path, "//"):
		return errors.New(`it must begin with a slash and must not end with one, such as "/ui"`)
	case strings.ContainsAny(path, "\\?#%{}\"<> "), strings.Contains(path, "/."):
		return errors.New("it must be plain segments, such as \"/ui\"")
	}
	return nil
}

// headers are those of every answer. Scripts and styles are files of this page alone, no other site may frame it, and no form
// leads elsewhere.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; worker-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// ServeHTTP serves the page below [Options.Mount].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	r = p.asSent(r)
	if err := p.o.API.AdmitPage(r); err != nil {
		status, text := httpapi.StatusOf(err)
		http.Error(w, text, status)
		return
	}
	if mount := strings.TrimSuffix(p.o.Mount, "/"); r.URL.Path == mount {
		http.Redirect(w, r, p.base+"/", http.StatusSeeOther)
		return
	}
	if rest := strings.TrimPrefix(r.URL.EscapedPath(), strings.TrimSuffix(p.o.Mount, "/")); cleaned(rest) != rest { // the mux would lead out of the page
		http.Redirect(w, r, p.base+withQuery(cleaned(rest), r.URL.Query()), http.StatusTemporaryRedirect)
		return
	}
	http.StripPrefix(strings.TrimSuffix(p.o.Mount, "/"), p.mux).ServeHTTP(w, r)
}

// cleaned gives a path without empty segments and dots.
func cleaned(s string) string {
	out := path.Clean("/" + s)
	if strings.HasSuffix(s, "/") && out != "/" {
		out += "/"
	}
	return out
}

// asSent gives the request as the browser has sent it, if it comes through a proxy that is trusted.
func (p *Page) asSent(r *http.Request) *http.Request {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.trusts(ap.Addr()) {
		return r
	}
	r = r.Clone(r.Context())
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) { // from the nearest on, as far as they are trusted
		ip, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		r.RemoteAddr = netip.AddrPortFrom(ip, 0).String()
		if !p.trusts(ip) {
			break
		}
	}
	if r.Header.Get("X-Forwarded-Proto") == "https" {
		r.URL.Scheme = "https"
	}
	return r
}

func (p *Page) trusts(ip netip.Addr) bool {
	for _, proxy := range p.o.TrustedProxies {
		if proxy.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}

// secure reports whether the browser's connection is encrypted.
func secure(r *http.Request) bool { return r.TLS != nil || r.URL.Scheme == "https" }

// routes is the whole page: its views, its acts, and what every browser needs.
func (p *Page) routes() *http.ServeMux {
	mux := http.NewServeMux()
	p.views = make(map[string]bool)
	for _, rt := range viewRoutes() {
		p.views[rt.pattern] = true
		mux.HandleFunc("GET "+rt.pattern, p.serveView(rt))
	}
	for _, a := range p.acts {
		if a.many != nil {
			mux.HandleFunc("GET "+a.pattern(), p.serveManyForm(a))
			mux.HandleFunc("POST "+a.pattern(), p.serveMany(a))
			continue
		}
		mux.HandleFunc("GET "+a.pattern(), p.serveActForm(a))
		mux.HandleFunc("POST "+a.pattern(), p.serveAct(a))
	}
	mux.HandleFunc("GET /runs/{id}/logs/download", p.downloadLogs)
	mux.HandleFunc("GET /actions/{id}/logs/download", p.downloadWritten)
	mux.HandleFunc("GET /sign-in", p.showSignIn)
	mux.HandleFunc("POST /sign-in", p.signIn)
	mux.HandleFunc("POST /sign-out", p.signOut)
	mux.HandleFunc("POST /zone", p.setZone)
	mux.HandleFunc("GET /find", p.find)
	mux.HandleFunc("GET /live", p.live)
	mux.HandleFunc("GET /static/{name}", p.serveAsset)
	mux.HandleFunc("/", p.unknown)
	return mux
}

func (p *Page) unknown(w http.ResponseWriter, r *http.Request) {
	q, ok := p.visit(w, r)
	if !ok {
		return
	}
	p.fail(w, q, &apiError{Status: http.StatusNotFound, Text: "there is no such page: the search field finds what has an id or a name"})
}
