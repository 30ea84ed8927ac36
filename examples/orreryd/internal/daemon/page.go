package daemon

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
)

// addPage serves the page at its own address if it has one, else beside the API.
func (d *daemon) addPage(api *httpapi.Server) error {
	ui, err := newPage(d.c, api, d.log)
	if err != nil {
		return err
	}
	if d.c.Page.Apart() {
		d.page.listen(api, withPage(d.c, ui, probes(api.Handler())))
	} else {
		d.api.server.Handler = withPage(d.c, ui, api.Handler())
	}
	return nil
}

func newPage(c config.Config, api *httpapi.Server, log *slog.Logger) (*page.Page, error) {
	proxies, err := c.Page.Proxies()
	if err != nil {
		return nil, err
	}
	return page.New(page.Options{API: api, BasePath: c.Page.BasePath, TrustedProxies: proxies, Version: version.String(), Logger: log})
}

// withPage serves the page beside something else, and leads browsers from the root to it. A proxy may take base_path off or leave
// it: nginx decodes the names in a path that it takes something off.
func withPage(c config.Config, ui, rest http.Handler) http.Handler {
	const mount = page.DefaultMount
	base := c.Page.BasePath
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
