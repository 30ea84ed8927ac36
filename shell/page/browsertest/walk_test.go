package browsertest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eachShape bounds how many pages of one shape, such as /ui/actions/{id}, are opened in the browser: the others are only
// asked for.
const eachShape = 2

// walker visits the pages that can be reached from the overview.
type walker struct {
	*tab
	d     *daemon
	seen  map[string]bool
	shape map[string]int
	next  []string
}

// walk leads a visit to each page. An address is visited once.
func walk(t *testing.T, d *daemon, visit func(b *tab, path string)) *walker {
	t.Helper()
	w := &walker{tab: newTab(t, d), d: d, seen: map[string]bool{}, shape: map[string]int{}}
	w.found("/ui/")
	for len(w.next) > 0 {
		path := w.next[0]
		w.next = w.next[1:]
		status, header, body := d.request("GET", path, "")
		if !assert.Equal(t, http.StatusOK, status, "%s", path) || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			continue
		}
		assert.Equal(t, 1, strings.Count(string(body), "<h1"), "the headings h1 of %s", path)
		if s := shapeOf(path); w.shape[s] < eachShape {
			w.shape[s]++
			require.Equal(t, http.StatusOK, w.open(path), path)
			visit(w.tab, path)
			assert.Empty(t, w.complained(), "%s", path)
		}
		w.links()
	}
	return w
}

// found notes an address, unless it was met before.
func (w *walker) found(path string) {
	if !w.seen[path] {
		w.seen[path] = true
		w.next = append(w.next, path)
	}
}

// links notes what the page that is open leads to.
func (w *walker) links() {
	for _, href := range js[[]string](w.tab, `[...document.querySelectorAll("a[href]")].map((a) => new URL(a.getAttribute("href"), document.baseURI).href)`) {
		u, err := url.Parse(href)
		require.NoError(w.t, err)
		if u.Scheme+"://"+u.Host != w.d.url {
			w.t.Errorf("%s leads to %s, which is not of the page", w.path(), href)
			continue
		}
		u.Fragment = ""
		w.found(u.RequestURI())
	}
}

var (
	ids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	names   = regexp.MustCompile(`^/ui/(jobs|queues|workers|locks|semaphores|calendars|subscribers|events|instances|partitions)/[^/]+`)
	runbook = regexp.MustCompile(`/phases/[^/]+`)
)

// shapeOf gives what pages of the same sort have in common: the address without ids and names, and the names of its parameters.
func shapeOf(path string) string {
	u, err := url.Parse(path)
	if err != nil {
		return path
	}
	shape := ids.ReplaceAllString(u.Path, "{id}")
	shape = names.ReplaceAllString(shape, "/ui/$1/{name}")
	shape = runbook.ReplaceAllString(shape, "/phases/{name}")
	var params []string
	for name := range u.Query() {
		params = append(params, name)
	}
	if len(params) > 0 {
		shape += "?…"
	}
	return shape
}

// databases are those over which each page is looked at.
var databases = []struct {
	name  string
	words words // nil: it is empty
}{{"of an empty database", nil}, {"of a database with markup in each string", hostile}}

// One walk looks at all that is to hold of each page: to fill a database and to open its pages takes most of the time.
func TestEachPageAnswersIsAccessibleAndTheBrowserComplainsOfNothing(t *testing.T) {
	source := ""
	if os.Getenv("ORRERY_AXE") != "" || os.Getenv("ORRERY_REQUIRE_PROGRAMS") == "1" {
		source = axe(t)
	} else {
		t.Log("ORRERY_AXE is not set: whether the pages are accessible is not checked")
	}
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			d := startDaemon(t)
			if db.words != nil {
				fill(d, db.words)
			}
			shown, checked := 0, map[string]bool{}
			w := walk(t, d, func(b *tab, path string) {
				assert.True(t, js[bool](b, `window.hacked === undefined`), "a script of a string ran on %s", path)
				assert.Equal(t, 0, js[int](b, `document.querySelectorAll("main script, img[src=x], [onerror]").length`), "elements made of a string on %s", path)
				assert.Equal(t, 1, js[int](b, `document.querySelectorAll("h1").length`), path)
				if js[bool](b, fmt.Sprintf(`document.body.textContent.includes(%q)`, markup)) {
					shown++
				}
				if s := shapeOf(path); source != "" && (!checked[s] || s == "/ui/actions/{id}") {
					checked[s] = true
					accessible(b, source, path)
				}
			})
			t.Logf("%d addresses, %d shapes, markup as text on %d pages", len(w.seen), len(w.shape), shown)
			assert.Equal(t, source != "", len(checked) > 0)
			if db.words != nil {
				assert.Greater(t, shown, len(w.shape)/3, "pages that show the markup as text")
				for _, shape := range []string{"/ui/actions/{id}", "/ui/actions/{id}/retry", "/ui/recurring/{id}", "/ui/recurring/{id}/edit", "/ui/occurrences?…"} {
					assert.Positive(t, w.shape[shape], "a page %s", shape)
				}
			}
		})
	}
}

// accessible checks a page that is open, at two widths and in two themes.
func accessible(b *tab, source, path string) {
	b.t.Helper()
	for _, width := range []int64{360, 1280} {
		b.look(width, "light")
		b.open(path)
		for _, theme := range []string{"light", "dark"} {
			if theme == "dark" && width == 360 {
				continue // its colours are those of the wider one
			}
			b.look(width, theme)
			for _, v := range violations(b, source, theme) {
				b.t.Errorf("%s at %d px, %s: %s", path, width, theme, v)
			}
		}
		assert.True(b.t, js[bool](b, `document.documentElement.scrollWidth <= innerWidth`), "%s is wider than %d px", path, width)
	}
	b.look(1280, "light")
}

func TestTheTestsSeeWhatTheBrowserComplainsOf(t *testing.T) {
	b := newTab(t, startDaemon(t))
	b.open("/ui/")
	require.Empty(t, b.complained())

	js[bool](b, `document.body.insertAdjacentHTML("beforeend", "<p style='color: red'>red</p><img src=x>"), true`)
	b.eventually(`document.images[document.images.length - 1].complete`, patience, "the image that does not exist")

	complaints := strings.Join(b.complained(), "\n")
	assert.Contains(t, complaints, "Content Security Policy")
	assert.Contains(t, complaints, "404")
}

// axe gives the source of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	browser(t) // which skips the test where there is to be none
	path := os.Getenv("ORRERY_AXE")
	if path == "" {
		missing(t, "ORRERY_AXE is not set: give it the path of axe.js (npm pack axe-core)")
	}
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(source)
}

// violations runs axe-core on the page that is open, and gives what it finds. In a theme but light it checks the
// colours: a theme changes nothing else.
func violations(b *tab, source, theme string) []string {
	b.t.Helper()
	js[bool](b, `window.axe !== undefined || (`+"() => {"+source+`})() || true`)
	only := ""
	if theme != "light" {
		only = `, runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}`
	}
	return js[[]string](b, `axe.run(document, {resultTypes: ["violations"]`+only+`}).then((r) => r.violations.map((v) =>
		v.id + ": " + v.help + "\n" + v.nodes.slice(0, 3).map((n) => "    " + n.html.slice(0, 200) + "\n    " + n.failureSummary.replaceAll("\n", " ")).join("\n")))`)
}

func TestAxeFindsWhatIsNotAccessible(t *testing.T) {
	source := axe(t)
	b := newTab(t, startDaemon(t))
	b.open("/ui/")

	js[bool](b, `document.querySelector("footer").insertAdjacentHTML("beforeend", "<img src='/ui/static/icon.svg'><input>"), true`)

	found := strings.Join(violations(b, source, "light"), "\n")
	assert.Contains(t, found, "image-alt")
	assert.Contains(t, found, "label")
}
