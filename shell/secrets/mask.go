package secrets

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Mask hides values of secrets: as they are, as JSON, Go, URLs, base64 and hexadecimal
// digits write them, and each line of one that has several. It does not find a value that
// was cut, hashed, compressed, or put into base64 together with something else. The zero
// Mask hides nothing.
type Mask struct {
	r     *strings.Replacer
	forms *forms // for what comes in pieces, see [Mask.Writer]
}

// NewMask makes a mask of values by the names of their secrets.
func NewMask(values map[string]string) Mask {
	type form struct{ text, name string }
	var forms []form
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range formsOf(values[name]) {
			forms = append(forms, form{v, name})
		}
	}
	// The longest first: one may be a part of another.
	slices.SortStableFunc(forms, func(a, b form) int { return cmp.Compare(len(b.text), len(a.text)) })
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f.text, "[secret "+f.name+"]")
	}
	if len(pairs) == 0 {
		return Mask{}
	}
	return Mask{strings.NewReplacer(pairs...), newForms(pairs)}
}

// formsOf gives the forms in which a value may come back.
func formsOf(value string) []string {
	bare := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	html, _ := json.Marshal(value) // a text always encodes
	forms := []string{
		value, bare(string(html)), bare(string(quoteJSON(value))), bare(strconv.Quote(value)),
		url.QueryEscape(value), url.PathEscape(value), hex.EncodeToString([]byte(value)),
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, e.EncodeToString([]byte(value)))
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= 2*MinValue {
			forms = append(forms, line)
		}
	}
	slices.Sort(forms)
	return slices.DeleteFunc(slices.Compact(forms), func(s string) bool { return len(s) < MinValue })
}

// Text gives the text with [secret NAME] in the place of the values.
func (m Mask) Text(s string) string {
	if m.r == nil {
		return s
	}
	return m.r.Replace(s)
}

// JSON masks the texts of a JSON value, and its numbers; of what is no JSON, all.
func (m Mask) JSON(raw json.RawMessage) json.RawMessage {
	if m.r == nil || len(raw) == 0 {
		return raw
	}
	if !json.Valid(raw) {
		return json.RawMessage(m.Text(string(raw)))
	}
	masked, err := mapJSON(raw, func(s string) (string, error) { return m.Text(s), nil }, func(token string) string {
		if t := m.Text(token); t != token {
			return strconv.Quote(t)
		}
		return token
	})
	if err != nil { // it was valid
		return nil
	}
	return masked
}

// Error gives an error with a masked text, which wraps err.
func (m Mask) Error(err error) error {
	if err == nil || m.r == nil {
		return err
	}
	return &maskedError{m.Text(err.Error()), err}
}

type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }

// Logger gives a logger that masks what it is told.
func (m Mask) Logger(log *slog.Logger) *slog.Logger {
	if m.r == nil {
		return log
	}
	return slog.New(handler{log.Handler(), m})
}

type handler struct {
	slog.Handler
	mask Mask
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.mask.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.mask.Text(v.String()))
	case slog.KindGroup:
		var inner []slog.Attr
		for _, g := range v.Group() {
			inner = append(inner, h.attr(g))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(inner...)}
	case slog.KindAny:
		if text := v.String(); h.mask.Text(text) != text {
			return slog.String(a.Key, h.mask.Text(text))
		}
	default: // numbers, times and words hold no text
	}
	return a
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return handler{h.Handler.WithAttrs(masked), h.mask}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.mask}
}
