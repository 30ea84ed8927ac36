package httpcall

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/internal/told"
)

const (
	maxURL         = 8 << 10
	maxHeaders     = 100
	maxHeaderValue = 8 << 10
	maxCodes       = 100
)

// input is the tool's JSON input.
type input struct {
	Method              string            `json:"method"`
	URL                 string            `json:"url"`
	Headers             map[string]string `json:"headers"`
	Body                json.RawMessage   `json:"body"`
	BodyText            *string           `json:"body_text"`
	TimeoutSeconds      *float64          `json:"timeout_seconds"`
	TotalTimeoutSeconds *float64          `json:"total_timeout_seconds"`
	SuccessCodes        []codes           `json:"success_codes"`
	MaxResponseBytes    *int64            `json:"max_response_bytes"`
	Retries             *int64            `json:"retries"`
	Idempotent          bool              `json:"idempotent"`
	FollowRedirects     *bool             `json:"follow_redirects"`

	url *url.URL
}

// codes is a range of status codes: 200, "2xx" or "200-299" in JSON.
type codes struct{ from, to int }

// UnmarshalJSON reads one of the three forms.
func (c *codes) UnmarshalJSON(b []byte) error {
	want := fmt.Errorf(`want a status code from 100 to 599, "2xx" or "200-299", got %s`, clip.Text(string(b), maxQuoted))
	if n, err := strconv.Atoi(string(b)); err == nil {
		c.from, c.to = n, n
	} else if err := c.parse(string(b)); err != nil {
		return want
	}
	if c.from < 100 || c.to > 599 || c.from > c.to {
		return want
	}
	return nil
}

func (c *codes) parse(quoted string) error {
	var s string
	if err := json.Unmarshal([]byte(quoted), &s); err != nil {
		return err
	}
	if class, ok := strings.CutSuffix(strings.ToLower(s), "xx"); ok && len(class) == 1 {
		n, err := strconv.Atoi(class)
		c.from, c.to = n*100, n*100+99
		return err
	}
	from, to, ok := strings.Cut(s, "-")
	if !ok {
		to = from
	}
	var errFrom, errTo error
	c.from, errFrom = strconv.Atoi(from)
	c.to, errTo = strconv.Atoi(to)
	return errors.Join(errFrom, errTo)
}

// ValidateInput checks everything about an input that does not depend on the
// network: the error names the field, its value and what would be right.
func (t *Tool) ValidateInput(raw json.RawMessage) error {
	_, err := t.parse(raw)
	return err
}

func (t *Tool) parse(raw json.RawMessage) (input, error) {
	return strictjson.Checked("tool_input", raw, checkURL, checkMethod, checkHeaders, t.checkLimits)
}

func checkURL(in *input) error {
	if in.URL == "" {
		return errors.New("tool_input.url: is missing: want one such as \"https://example.com/path\"")
	}
	if len(in.URL) > maxURL {
		return fmt.Errorf("tool_input.url: has %d bytes: want at most %d", len(in.URL), maxURL)
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return fmt.Errorf("tool_input.url: %q is not a URL: %w", clip.Text(in.URL, maxQuoted), err)
	}
	switch {
	case u.Scheme == "":
		return fmt.Errorf("tool_input.url: %q has no scheme: use http or https", clip.Text(in.URL, maxQuoted))
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("tool_input.url: %q has scheme %q: use http or https", clip.Text(in.URL, maxQuoted), u.Scheme)
	case u.User != nil:
		// They would stand in lists and logs. Do not repeat them here either.
		return errors.New("tool_input.url: has a user or password in it: use an Authorization header")
	case u.Hostname() == "":
		return fmt.Errorf("tool_input.url: %q has no host", clip.Text(in.URL, maxQuoted))
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("tool_input.url: %q has port %s: want 1 to 65535", clip.Text(in.URL, maxQuoted), port)
		}
	}
	u.Fragment, u.RawFragment = "", ""
	in.url = u
	return nil
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// bodiless are the methods with which no body is sent. They are also RFC 9110's
// safe ones.
var bodiless = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

func checkMethod(in *input) error {
	if in.Method != "" && !slices.Contains(methods, in.Method) {
		if up := strings.ToUpper(in.Method); slices.Contains(methods, up) {
			return fmt.Errorf("tool_input.method: %q must be in upper case: use %q", in.Method, up)
		}
		return fmt.Errorf("tool_input.method: %q is not known: use one of %s", clip.Text(in.Method, maxQuoted), strings.Join(methods, ", "))
	}
	if in.Body != nil && in.BodyText != nil {
		return errors.New("tool_input.body_text: stands beside body: use one of the two")
	}
	if (in.Body != nil || in.BodyText != nil) && slices.Contains(bodiless, in.Method) {
		return fmt.Errorf("tool_input.method: %q sends no body: leave body and body_text out, or use another method", in.Method)
	}
	return nil
}

// own are headers that are the transport's business: to set them by hand is
// either without effect or a way to smuggle a request.
var own = map[string]string{
	"Host":                "it follows from url",
	"Content-Length":      "it follows from the body",
	"Transfer-Encoding":   "it follows from the body",
	"Accept-Encoding":     "the tool decompresses by itself",
	"Connection":          "the tool keeps connections by itself",
	"Keep-Alive":          "the tool keeps connections by itself",
	"Upgrade":             "the tool speaks HTTP only",
	"Expect":              "the tool sends the body at once",
	"Te":                  "the tool reads no trailers",
	"Trailer":             "the tool sends no trailers",
	"Proxy-Authorization": "the tool uses no proxy",
	"Proxy-Connection":    "the tool uses no proxy",
}

func checkHeaders(in *input) error {
	if len(in.Headers) > maxHeaders {
		return fmt.Errorf("tool_input.headers: has %d: want at most %d", len(in.Headers), maxHeaders)
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		value := in.Headers[name]
		if name == "" || strings.ContainsFunc(name, notToken) {
			return fmt.Errorf("tool_input.headers: %q is not a header name", clip.Text(name, maxQuoted))
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if why, ok := own[canonical]; ok {
			return fmt.Errorf("tool_input.headers: %s cannot be set: %s", canonical, why)
		}
		if strings.HasPrefix(canonical, told.Prefix) {
			return fmt.Errorf("tool_input.headers: %s is reserved: Orrery sets those that begin with %s", canonical, told.Prefix)
		}
		if other, ok := seen[canonical]; ok {
			return fmt.Errorf("tool_input.headers: %q and %q are the same header", other, name)
		}
		seen[canonical] = name
		// The value may be a secret: say where the fault is, not what stands there.
		if i := strings.IndexFunc(value, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }); i >= 0 {
			return fmt.Errorf("tool_input.headers: the value of %s has the control character %q at offset %d", canonical, value[i], i)
		}
		if len(value) > maxHeaderValue {
			return fmt.Errorf("tool_input.headers: the value of %s has %d bytes: want at most %d", canonical, len(value), maxHeaderValue)
		}
	}
	return nil
}

func notToken(r rune) bool {
	alnum := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func (t *Tool) checkLimits(in *input) error {
	const least = 0.001
	err := cmp.Or(errors.Join(
		strictjson.Within("tool_input.timeout_seconds", in.TimeoutSeconds, least, maxTimeout.Seconds()),
		strictjson.Within("tool_input.total_timeout_seconds", in.TotalTimeoutSeconds, least, maxTimeout.Seconds()),
	), strictjson.Within("tool_input.max_response_bytes", in.MaxResponseBytes, 0, int64(max(maxResponse, t.o.MaxResponse))),
		strictjson.Within("tool_input.retries", in.Retries, 0, maxRetries))
	if err != nil {
		return err
	}
	if in.SuccessCodes != nil && len(in.SuccessCodes) == 0 {
		return errors.New(`tool_input.success_codes: must have at least one element, or be left out for ["2xx"]`)
	}
	if len(in.SuccessCodes) > maxCodes {
		return fmt.Errorf("tool_input.success_codes: has %d elements: want at most %d", len(in.SuccessCodes), maxCodes)
	}
	return nil
}

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 128
