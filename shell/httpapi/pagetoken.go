package httpapi

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell"
)

// pageTokenForm begins each page token, so that another form can be told from it.
const pageTokenForm = "p1."

// errPageToken refuses a page token that cannot be opened: one that was forged, was given
// out to somebody else or for something else, or comes from before an upgrade.
var errPageToken = failf(http.StatusBadRequest, "page_token: is none that this list gave out to this token with these filters: start again without page_token")

// boundTo is what a page token is good for.
func boundTo(r *http.Request, c *call, q query) []byte {
	filters := maps.Clone(q.v)
	for _, of := range []string{"limit", "page_token", "include"} { // they may change from page to page
		filters.Del(of)
	}
	for name, values := range filters {
		filters[name] = slices.Sorted(slices.Values(values))
	}
	return []byte(strings.Join([]string{"page 1", c.token.Name, r.URL.Path, filters.Encode()}, "\n"))
}

// openPage gives the position that the page token of a query stands for; empty: the
// beginning.
func (s *Server) openPage(r *http.Request, c *call, q query) (string, error) {
	token := q.get("page_token")
	if token == "" {
		return "", nil
	}
	text, ok := strings.CutPrefix(token, pageTokenForm)
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return "", errPageToken
	}
	if _, err := s.sealer(r.Context()); err != nil {
		return "", err
	}
	position := s.pageTokens.open(sealed, boundTo(r, c, q))
	if len(position) == 0 {
		return "", errPageToken
	}
	return string(position), nil
}

// sealPage gives the page token for a position; empty for the end.
func (s *Server) sealPage(r *http.Request, c *call, q query, position string) (string, error) {
	if position == "" {
		return "", nil
	}
	aead, err := s.sealer(r.Context())
	if err != nil {
		return "", err
	}
	return pageTokenForm + base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, []byte(position), boundTo(r, c, q))), nil //nolint:gosec // the cipher makes a random nonce itself
}

// maxScopes bounds the tenants whose indexes one list reads side by side. A token that is
// bound to more is served from the lists of all tenants, see among, like one that is bound
// to namespaces or to tenants alone.
const maxScopes = 256

// scopes gives the tenants that a list is about, if the token or the query names them;
// else none.
func (t *Token) scopes(namespace, tenant *string) []shell.Scope {
	namespaces, tenants := oneOr(namespace, t.Namespaces), oneOr(tenant, t.Tenants)
	if len(namespaces)*len(tenants) > maxScopes {
		return nil
	}
	var out []shell.Scope
	for _, n := range namespaces {
		for _, t := range tenants {
			out = append(out, shell.Scope{Namespace: n, Tenant: t})
		}
	}
	return out
}

// among tells of which tenants a list may show something, if the token and the query name
// namespaces or tenants alone; nil: of all.
func (t *Token) among(q query) func(shell.Scope) bool {
	if len(t.Namespaces) == 0 && len(t.Tenants) == 0 && q.opt("namespace") == nil && q.opt("tenant") == nil {
		return nil
	}
	return func(s shell.Scope) bool {
		return t.seesScope(s.Namespace, s.Tenant) && matches(q, s.Namespace, s.Tenant)
	}
}

// oneOr gives the value that is asked for, or else those that the token is bound to, in
// their order.
func oneOr(asked *string, bound []string) []string {
	if asked != nil {
		return []string{*asked}
	}
	return slices.Compact(slices.Sorted(slices.Values(bound)))
}
