package daemon

import (
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
)

// addPage serves the page at its own address if it has one, else beside the API.
func (d *daemon) addPage(api *httpapi.Server) error {
	proxies, err := d.c.Page.Proxies()
	if err != nil {
		return err
	}
	ui, err := page.New(page.Options{API: api, BasePath: d.c.Page.BasePath, TrustedProxies: proxies, Version: version.String(), Logger: d.log})
	if err != nil {
		return err
	}
	if d.c.Page.Apart() {
		d.page.listen(api, d.withPage(ui, probes(api.Handler())))
	} else {
		d.api.server.Handler = d.withPage(ui, api.Handler())
	}
	return nil
}

// withPage serves the page beside something else, and leads browsers from the root to it. A proxy may take base_path off or leave
// it: nginx decodes the names in a path that it takes something off.
func (d *daemon) withPage(ui, rest http.Handler) http.Handler {
	const mount = page.DefaultMount
	base := d.c.Page.BasePath
	left := http.StripPrefix(base, ui)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case below(path, base+mount):
			left.ServeHTTP(w, r)
		case below(path, mount):
			ui.ServeHTTP(w, r)
		case (path == "/" || path == base || path == base+"/") && asksForAPage(r):
			http.Redirect(w, r, base+mount+"/", http.StatusSeeOther)
		default:
			rest.ServeHTTP(w, r)
		}
	})
}

func below(path, mount string) bool { return path == mount || strings.HasPrefix(path, mount+"/") }

// asksForAPage reports whether somebody opens an address in a browser.
func asksForAPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// probes lets through to the API what a load balancer before the page asks whether the daemon lives.
func probes(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path == "/healthz" || path == "/readyz" {
			api.ServeHTTP(w, r)
			return
		}
		http.Error(w, "this address has the page alone, at "+page.DefaultMount+"/; the API has its own, which the setting listen says", http.StatusNotFound)
	})
}

// pageURL is where the page is reached; "" if it is not enabled.
func (d *daemon) pageURL() string {
	switch {
	case !d.c.Page.Enabled:
		return ""
	case d.c.Page.Apart():
		return d.page.url() + page.DefaultMount + "/"
	}
	return d.api.url() + page.DefaultMount + "/"
}
