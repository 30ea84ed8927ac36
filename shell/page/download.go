package page

import (
	"net/http"
	"strings"
)

// partParam names the part of a page that is downloaded: it has the page's own address, and so the same rights.
const partParam = "part"

// offerDownloads gives the long values of a page the addresses at which all of them are.
func (q *visit) offerDownloads(v view) {
	for i, b := range v.Body {
		if b.Text == nil {
			continue
		}
		if b.Text.Tree != nil {
			b.Text.Tree.name("tree-" + slug(b.Title))
		}
		if b.Text.all != nil {
			params := q.URL.Query()
			params.Del("done")
			params.Set(partParam, b.Title)
			v.Body[i].Text.Get = "?" + params.Encode()
		}
	}
}

// download sends one value of a page as a file.
func (p *Page) download(w http.ResponseWriter, q *visit, v view) {
	title := q.URL.Query().Get(partParam)
	for _, b := range v.Body {
		if b.Title != title || b.Text == nil || b.Text.all == nil {
			continue
		}
		kind, ending := "text/plain; charset=utf-8", ".txt"
		if b.Text.JSON {
			kind, ending = "application/json", ".json"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Disposition", `attachment; filename="`+strings.Trim(slug(clip(title, 100)), "-")+ending+`"`)
		_, _ = w.Write(b.Text.all)
		return
	}
	p.fail(w, q, &apiError{Status: http.StatusNotFound, Text: "the page has no part with this name to download"})
}
