package httpapi

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// pageTokens seals the page tokens of lists: who holds one learns nothing of the
// position that it stands for, and cannot make one. A token is good for the bearer
// token, the path and the filters that it was given out for.
//
// The key is made once and kept in the store, beside the state of the machines and not
// in the journal. If the store does not take it, one is made that ends with the process,
// and page tokens with it.
type pageTokens struct {
	mu   sync.Mutex
	aead cipher.AEAD // nil: not yet made
}

// metaPageKey is the name of the key in the store.
const metaPageKey = "httpapi/page_token_key"

// pageTokenForm begins each page token, so that another form can be told from it.
const pageTokenForm = "p1."

// pageKeyBytes is the length of the key: AES-256.
const pageKeyBytes = 32

// errPageToken refuses a page token that cannot be opened: one that was forged, was given
// out to somebody else or for something else, or comes from before an upgrade.
var errPageToken = failf(http.StatusBadRequest, "page_token: is none that this list gave out to this token with these filters: start again without page_token")

// sealer gives the cipher, with the key of the store.
func (s *Server) sealer(ctx context.Context) (cipher.AEAD, error) {
	p := &s.pageTokens
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aead != nil {
		return p.aead, nil
	}
	key, err := storedKey(ctx, s.engine.Store())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.log.Warn("the key of page tokens cannot be kept in the store: page tokens end with this process", "error", err)
		key = newKey()
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("page tokens: %w", err)
	}
	p.aead, err = cipher.NewGCMWithRandomNonce(block)
	return p.aead, err
}

func newKey() []byte {
	key := make([]byte, pageKeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

// storedKey reads the key, which is made if there is none.
func storedKey(ctx context.Context, st store.Store) (key []byte, err error) {
	read := func(tx store.ReadTx) error {
		b, err := tx.Meta(metaPageKey)
		if err != nil || b == nil {
			return err
		}
		if err := json.Unmarshal(b, &key); err != nil || len(key) != pageKeyBytes {
			return errors.Join(fmt.Errorf("%w: %s holds no key of %d bytes", store.ErrCorrupt, metaPageKey, pageKeyBytes), err)
		}
		return nil
	}
	if err := st.View(ctx, read); err != nil || key != nil {
		return key, err
	}
	made := newKey()
	b, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	err = st.Update(ctx, func(tx store.Tx) error {
		if err := read(tx); err != nil || key != nil { // another process may have been quicker
			return err
		}
		return tx.SetMeta(metaPageKey, b)
	})
	if key == nil {
		key = made
	}
	return key, err
}

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
	aead, err := s.sealer(r.Context())
	if err != nil {
		return "", err
	}
	position, err := aead.Open(nil, nil, sealed, boundTo(r, c, q))
	if err != nil || len(position) == 0 {
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
// bound to more is served from the index of all tenants, like one that is bound to
// namespaces or to tenants alone.
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

// oneOr gives the value that is asked for, or else those that the token is bound to, in
// their order.
func oneOr(asked *string, bound []string) []string {
	if asked != nil {
		return []string{*asked}
	}
	return slices.Compact(slices.Sorted(slices.Values(bound)))
}
