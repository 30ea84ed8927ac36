package httpapi

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// tag tells the revision of the machine that the answer shows, if it has one.
func (c *call) tag(w http.ResponseWriter, r *http.Request, s core.State) {
	c.tagRevision(w, r, core.Revision(s))
}

func (c *call) tagRevision(w http.ResponseWriter, r *http.Request, revision string) {
	if revision == "" || revision == core.NoRevision {
		return
	}
	if shown := c.server.shownRevision(r.Context(), revision); shown != "" {
		w.Header().Set("ETag", `"`+shown+`"`)
	}
}

// shownRevision gives a revision as callers know it: keyed, since who does not see all of a definition could guess the rest
// from its hash. It is "" while the store does not give the key.
func (s *Server) shownRevision(ctx context.Context, revision string) string {
	if _, err := s.sealer(ctx); err != nil {
		return ""
	}
	return s.underKey(revision)
}

// underKey is shownRevision once there is a key: it asks no store, and the loop may call it.
func (s *Server) underKey(revision string) string {
	return hex.EncodeToString(s.hashed("httpapi/revision\x00" + revision)[:16])
}

// onRevision reads which revision of a machine a request is for, and has the engine refuse it for another one. What
// cannot take such a condition refuses it: to leave it out would be what the caller wants to prevent.
func (s *Server) onRevision(ctx context.Context, rt route, r *http.Request) (context.Context, error) {
	match, none := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	if len(match)+len(none) == 0 || !rt.changes() {
		return ctx, nil
	}
	switch {
	case rt.access&edits == 0:
		return nil, failf(http.StatusBadRequest, "If-Match, If-None-Match: %s %s takes no condition: only PUT and DELETE of what has an ETag do", rt.method, rt.path)
	case len(match) > 0 && len(none) > 0:
		return nil, failf(http.StatusBadRequest, "If-Match: stands beside If-None-Match: send one of them")
	case len(none) > 0:
		if len(none) > 1 || strings.TrimSpace(none[0]) != "*" {
			return nil, failf(http.StatusBadRequest, "If-None-Match: %s is not *, which stands for what does not exist yet", clip(strings.Join(none, ", ")))
		}
		return shell.WithRevision(ctx, core.NoRevision), nil
	}
	given := strings.TrimSpace(match[0])
	if given == "*" && len(match) == 1 {
		return shell.WithRevision(ctx, core.AnyRevision), nil
	}
	revision, ok := strings.CutPrefix(given, `"`)
	if ok {
		revision, ok = strings.CutSuffix(revision, `"`)
	}
	if !ok || len(match) > 1 || !isRevision(revision) {
		return nil, failf(http.StatusBadRequest, "If-Match: %s is not one ETag as GET gives it: 32 hexadecimal digits in quotation marks, or *", clip(strings.Join(match, ", ")))
	}
	if s.shownRevision(ctx, revision) == "" { // then there is no key
		return nil, failf(http.StatusServiceUnavailable, "If-Match: the store does not give the key by which revisions are known: try again").with("Retry-After", "5")
	}
	return shell.WithShownRevision(ctx, revision, s.underKey), nil
}

// changes reports whether the route may change something: it is none that only says that the path or its method does not exist.
func (rt route) changes() bool { return rt.method != http.MethodGet && rt.method != "" }

// takeOverHeader lets an edit change what a set of files owns.
const takeOverHeader = "Orrery-Take-Over"

// onTakeOver reads whether an edit takes over what a set of files owns. What changes no definition refuses the header, as
// [Server.onRevision] does.
func onTakeOver(ctx context.Context, rt route, r *http.Request) (context.Context, error) {
	given := r.Header.Values(takeOverHeader)
	switch {
	case len(given) == 0 || !rt.changes():
		return ctx, nil
	case rt.access&edits == 0:
		return nil, failf(http.StatusBadRequest, "%s: %s %s takes nothing over: only PUT and DELETE of what has an ETag do", takeOverHeader, rt.method, rt.path)
	case len(given) > 1 || given[0] != "true":
		return nil, failf(http.StatusBadRequest, "%s: %s is not true: leave it out to change only what no set declares", takeOverHeader, clip(strings.Join(given, ", ")))
	}
	return shell.WithTakeOver(ctx), nil
}

func isRevision(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}
