package audit

import (
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Bounds of what is remembered of a minute, for each of which there are at most two lines in it:
// the first request and the count of the others.
const (
	minute = time.Minute
	// maxSources bounds the sources of each class: addresses without a token, tokens and
	// routes. There are as many of the latter as are configured; of addresses there is no end.
	maxSources = 256
	// maxStrange bounds the kinds of one address without a token, maxKinds those of a token.
	maxStrange, maxKinds = 8, 256
	// maxLines bounds the lines of one source with a token that stand for one request each.
	maxLines = 1000
)

// kind is what makes requests equal: a minute's further ones are counted in one line. The path is
// not in it, so that a search for ids of others is one line.
type kind struct {
	actor, address, operation, namespace, tenant string
	status                                       int
}

// window counts the requests of a kind since its last line.
type window struct {
	sample Entry     // the first one; Count are those since the last line
	ends   time.Time // of the minute
}

// source is who sends requests, as far as it is known.
type source struct {
	strange bool // without a token
	windows map[kind]*window
	lines   int // of this minute
	resets  time.Time
}

// merger decides what is a line of its own. Who uses it holds a lock.
type merger struct {
	sources map[string]*source
	strange int // how many of them are without a token
}

func newMerger() *merger { return &merger{sources: make(map[string]*source)} }

// streamOf names the source of an entry whose lines stand together.
func streamOf(e *Entry) string {
	switch route, ok := strings.CutPrefix(e.Actor, "webhook:"); {
	case e.Token != "":
		return "token." + e.Token
	case ok && e.Status != http.StatusUnauthorized: // else anybody may say so
		return "webhook." + route
	}
	return nobody
}

// nobody is the stream of requests without a token.
const nobody = "nobody"

// sourceOf finds the source of an entry, or makes it. Beyond the bound all addresses without a
// token are one source, and crowd is true.
func (m *merger) sourceOf(e *Entry) (s *source, crowd bool) {
	name := streamOf(e)
	strange := name == nobody
	if strange {
		name += " " + network(e.Address)
		if crowd = m.sources[name] == nil && m.strange >= maxSources; crowd {
			name = nobody
		}
	}
	s = m.sources[name]
	if s == nil {
		s = &source{strange: strange, windows: make(map[kind]*window)}
		m.sources[name] = s
		if strange {
			m.strange++
		}
	}
	return s, crowd
}

// network is an address as far as one machine has it: of IPv6 the first 64 bits.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	if ip = ip.Unmap(); ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}

// add counts an entry, and reports whether it is a line of its own, now.
func (m *merger) add(e *Entry, now time.Time) bool {
	s, crowd := m.sourceOf(e)
	if !now.Before(s.resets) {
		s.lines, s.resets = 0, now.Add(minute)
	}
	if !e.Refused() && !s.strange && s.lines < maxLines {
		s.lines++
		return true
	}
	k := kind{e.Actor, e.Address, e.Operation, e.Namespace, e.Tenant, e.Status}
	if crowd {
		k.address = ""
	}
	most := maxKinds
	if s.strange {
		most = maxStrange
	}
	if s.windows[k] == nil && len(s.windows) >= most {
		k = kind{operation: Other}
	}
	w := s.windows[k]
	if w == nil {
		s.windows[k] = &window{ends: now.Add(minute)}
		return true
	}
	w.count(k, e)
	return false
}

// count adds a request that gets no line of its own.
func (w *window) count(k kind, e *Entry) {
	if w.sample.Count == 0 {
		w.sample = *e
		w.sample.Address, w.sample.Count = k.address, 0
		if k.operation == Other { // what differs between requests of several kinds is left out
			w.sample = Entry{Since: e.Since, Token: e.Token, Operation: Other, Status: e.Status}
			if streamOf(e) != nobody {
				w.sample.Actor = e.Actor
			}
		}
	}
	w.sample.Count++
	w.sample.At = e.At
}

// take gives the line of what a window has counted.
func (w *window) take() Entry {
	e := w.sample
	w.sample.Count = 0
	return e
}

// due gives the lines of the minutes that are over, or all lines, and forgets who was silent for
// a minute.
func (m *merger) due(now time.Time, all bool, visit func(Entry)) {
	for name, s := range m.sources {
		for k, w := range s.windows {
			over := !now.Before(w.ends)
			switch {
			case w.sample.Count > 0 && (over || all):
				visit(w.take())
				if over {
					w.ends = now.Add(minute)
				}
			case over:
				delete(s.windows, k)
			}
		}
		if len(s.windows) == 0 && !now.Before(s.resets) {
			delete(m.sources, name)
			if s.strange {
				m.strange--
			}
		}
	}
}
