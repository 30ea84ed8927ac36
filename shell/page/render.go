package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// asset is a file of the page that every browser gets.
type asset struct {
	body     []byte
	mimeType string
	tag      string
}

func readAssets() (map[string]asset, error) {
	out := make(map[string]asset)
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		body, err := fs.ReadFile(files, "static/"+e.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(body)
		out[e.Name()] = asset{body: body, mimeType: mime.TypeByExtension(path.Ext(e.Name())), tag: hex.EncodeToString(sum[:8])}
	}
	return out, nil
}

// serveAsset serves a file. Its address has the file's hash as the parameter v, so that a browser keeps it until it
// changes.
func (p *Page) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := p.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.mimeType)
	if r.URL.Query().Get("v") == a.tag {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(a.body)
}

// frame is what the templates get: a view within the page.
type frame struct {
	view
	Base   string
	Nav    []navEntry
	Who    string
	Signed bool // the visitor has a token, and can sign out
	Rights string
	Proof  string
	Zone   string
	Here   string // the address, to come back to
	Done   string
	Paused *link // what to do about a daemon that is paused; nil: it is not
	Ver    string
}

// render writes a view as HTML.
func (p *Page) render(w http.ResponseWriter, q *visit, status int, v view) {
	f := frame{view: v, Base: p.base, Zone: q.zone.String(), Ver: p.o.Version, Here: q.URL.RequestURI()}
	if q.who != nil {
		f.Nav, f.Who, f.Proof, f.Signed = navFor(q), q.who.Name(), q.who.Proof(), p.o.API.NeedsSignIn()
		f.Rights, f.Paused = rightsOf(q), q.paused()
	}
	f.Done = p.doneText(q.URL.Query().Get("done"))
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, "page.html", f); err != nil {
		p.o.Logger.Error("page: a view could not be written", "path", q.URL.Path, "error", err)
		http.Error(w, "the page could not be written: the daemon's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status == http.StatusOK && !v.Static {
		sum := sha256.Sum256(b.Bytes())
		tag := `"` + hex.EncodeToString(sum[:16]) + `"`
		w.Header().Set("ETag", tag)
		if q.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// rightsOf says what a visitor may not do in general.
func rightsOf(q *visit) string {
	switch {
	case q.who.ReadOnly():
		return "may only read"
	case !q.who.Unbound():
		return "sees its own tenants"
	}
	return ""
}

// fail shows an error as a page.
func (p *Page) fail(w http.ResponseWriter, q *visit, err error) {
	status, text := p.statusOf(err)
	title := http.StatusText(status)
	if status == http.StatusNotFound {
		title = "Not found"
	}
	p.render(w, q, status, view{Title: title, Fail: &apiError{Status: status, Text: text}, Static: true, More: q.whoWorks(status)})
}

// whoWorks links what tells why the work of a partition is not done at the moment, and what to do about that.
func (q *visit) whoWorks(status int) []link {
	const instances = "/instances"
	if status != http.StatusServiceUnavailable || q.nav == instances || q.who == nil || !q.p.o.API.HasCluster() || q.mayNot(http.MethodGet, "/v1/cluster") != "" {
		return nil
	}
	return []link{{Text: "Instances: which daemons work, and on what", Href: q.page(instances)}}
}

// viewRoute is a page that is read.
type viewRoute struct {
	pattern string
	nav     string // the entry of the menu
	show    func(q *visit) (view, error)
}

func (p *Page) serveView(rt viewRoute) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, ok := p.visit(w, r)
		if !ok {
			return
		}
		q.nav = rt.nav
		v, err := rt.show(q)
		if answered(err, http.StatusBadRequest) && q.URL.Query().Get("page_token") != "" && strings.HasPrefix(err.Error(), "page_token: ") {
			http.Redirect(w, r, q.toFirstPage(), http.StatusSeeOther) //nolint:gosec // it begins with the base of the page
			return
		}
		if err != nil {
			p.fail(w, q, err)
			return
		}
		q.offerDownloads(v)
		if r.URL.Query().Has(partParam) {
			p.download(w, q, v)
			return
		}
		p.render(w, q, http.StatusOK, v)
	}
}

// navEntry is one entry of the menu.
type navEntry struct {
	Name, Path string
	Current    bool
	Refused    string // why the visitor may not; then it leads nowhere
	api        string // the list of the API without which there is nothing to see
	cluster    bool   // it is there only if several daemons work on one database
}

// nav is the menu.
var nav = [...]navEntry{
	{Name: "Overview", Path: "/"},
	{Name: "Schedules", Path: "/schedules"},
	{Name: "Alerts", Path: "/alerts"},
	{Name: "Calendar", Path: "/calendar"},
	{Name: "Calendars", Path: "/calendars"},
	{Name: "Actions", Path: "/actions"},
	{Name: "Jobs", Path: "/jobs", api: "/v1/jobs"},
	{Name: "Runs", Path: "/runs", api: "/v1/runs"},
	{Name: "Pipelines", Path: "/pipelines"},
	{Name: "Tasks", Path: "/tasks"},
	{Name: "Strategies", Path: "/strategies"},
	{Name: "Queues", Path: "/queues", api: "/v1/queues"},
	{Name: "Workers", Path: "/workers"},
	{Name: "Locks", Path: "/locks"},
	{Name: "Backfills", Path: "/backfills"},
	{Name: "Webhooks", Path: "/webhooks"},
	{Name: "Events", Path: "/events", api: "/v1/events"},
	{Name: "Subscribers", Path: "/subscribers", api: "/v1/subscribers"},
	{Name: "Instances", Path: "/instances", api: "/v1/cluster", cluster: true},
	{Name: "System", Path: "/system"},
}

func navFor(q *visit) (out []navEntry) {
	for _, e := range nav {
		if e.cluster && !q.p.o.API.HasCluster() {
			continue
		}
		if e.api != "" {
			e.Refused = q.mayNot(http.MethodGet, e.api)
		}
		e.Current = e.Path == q.nav
		out = append(out, e)
	}
	return out
}

// navName is how a segment of an address is called.
func navName(segment string) string {
	for _, e := range nav {
		if e.Path == "/"+segment {
			return e.Name
		}
	}
	if segment == "" {
		return segment
	}
	return strings.ToUpper(segment[:1]) + segment[1:]
}

// funcs are what the templates may call beside what Go gives them.
func (p *Page) funcs() template.FuncMap {
	return template.FuncMap{
		"asset": func(name string) (string, error) {
			a, ok := p.assets[name]
			if !ok {
				return "", fmt.Errorf("there is no asset %q", name)
			}
			return p.base + "/static/" + name + "?v=" + a.tag, nil
		},
		"grouped": grouped, "picked": picked,
		"fieldID": func(name string) string { return "f-" + strings.NewReplacer(".", "-", "_", "-").Replace(name) },
	}
}

// shortID shortens an id of 36 characters to those by which people know it; other names stay.
func shortID(s string) string {
	if id, err := uuid.Parse(s); err == nil && len(s) == 36 {
		if s := id.String(); id.Version() >= 7 { // it begins with its time, or with its number in a queue, which is no help
			return s[:8] + "…" + s[len(s)-6:]
		}
		return s[:8]
	}
	return clip(s, 60)
}

// clip shortens a text to a number of characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if bytes := (most + 1) * utf8.UTFMax; len(s) > bytes { // what comes behind is not looked at: it may be megabytes
		s = s[:bytes]
	}
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
