package httpcall

import "net/http"

// NewTransport gives a transport that keeps the rules of Options.DenyPrivate, Allow
// and TLS, for a client other than this tool: the address is checked when the
// connection is made. The client must not follow redirects: their rules are the
// tool's alone. The error names the option that cannot be right.
func NewTransport(o Options) (http.RoundTripper, error) {
	t, err := New(o)
	if err != nil {
		return nil, err
	}
	return t.router, nil
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] release what is kept
// for later requests.
func (r *router) CloseIdleConnections() {
	for _, tr := range r.transports {
		tr.CloseIdleConnections()
	}
}
