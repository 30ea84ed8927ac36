package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
)

// headerCharged says that whoever passes a request on has charged it, or the request that it is a part of: it is charged no second time. The value is sealed with
// [Options.PageKey], which callers do not have, for the method, the path and the caller of the request.
const headerCharged = "Orrery-Charged"

// chargedBeforeKey marks the context of a request that was charged before.
type chargedBeforeKey struct{}

func withCharged(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), chargedBeforeKey{}, true))
}

func chargedBefore(ctx context.Context) bool { return ctx.Value(chargedBeforeKey{}) != nil }

// sealedFor is what the header is good for.
func sealedFor(r *http.Request) []byte {
	of := hashOf("charged", r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get(headerSession))
	return of[:]
}

// saysCharged has a request to another process say that it was charged. If the processes share no key it says nothing, and is charged there as any.
func (rt *Router) saysCharged(r *http.Request) {
	if rt.o.API.PageKey == nil {
		return
	}
	aead, err := rt.front.sealer(r.Context())
	if err != nil {
		return
	}
	r.Header.Set(headerCharged, base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, nil, sealedFor(r)))) //nolint:gosec // the cipher makes a random nonce itself
}

// readCharged marks a request that another process has charged.
func (rt *Router) readCharged(r *http.Request) *http.Request {
	text := r.Header.Get(headerCharged)
	if text == "" || rt.o.API.PageKey == nil {
		return r
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return r
	}
	if _, err := rt.front.sealer(r.Context()); err != nil || !rt.front.pageTokens.opens(sealed, sealedFor(r)) {
		return r
	}
	return withCharged(r)
}
