package page

import "net/http"

// live is the stream of a browser: it says that something has changed.
func (p *Page) live(w http.ResponseWriter, r *http.Request) {
	q, ok := p.visit(w, r)
	if !ok {
		return
	}
	if err := p.o.API.StreamChanges(w, r, q.who); err != nil {
		status, text := p.statusOf(err)
		http.Error(w, text, status)
	}
}
