package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// TestStories plays testdata/stories: requests against a running engine, and
// what they are answered, byte for byte but for ids, which are numbered in the
// order of their appearance. Commands:
//
//	do [raw] [until=TEXT]
//	METHOD path
//	Header: value
//	body
//
// sends a request, again and again until the answer has the text; the answer's
// JSON is indented unless raw.
//
//	errors METHOD path
//	body
//	body
//
// sends one request for each line, and shows the status and the error.
//
//	advance 1h [until=recurring:dispatched]
//
// moves the clock, and waits until the bus has announced that.
//
//	await {id-1}
//
// waits until an action has ended.
//
//	pod {id-1} [exit=3]
//
// says that the pod of a job's run runs, or has ended.
//
// What has the argument alone is left out where there are several partitions: it is answered otherwise.
func TestStories(t *testing.T) { playStories(t, false, 1) }

// Each request of the stories that changes something is sent twice under a key, and all goes as if it was sent once.
func TestStoriesWhoseRequestsAreSentTwice(t *testing.T) { playStories(t, true, 1) }

func playStories(t *testing.T, twice bool, partitions int) {
	datadriven.Walk(t, filepath.Join("testdata", "stories"), func(t *testing.T, path string) {
		s := newStory(t, strings.HasPrefix(filepath.Base(path), "tokens"), partitions)
		s.twice = twice
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.api.t = t
			if partitions > 1 && d.HasArg("alone") {
				return d.Expected
			}
			switch d.Cmd {
			case "do":
				return s.do(d)
			case "errors":
				return s.errors(d)
			case "advance":
				return s.advance(t, d)
			case "await":
				return s.await(t, d)
			case "pod":
				return s.pod(t, d)
			case "stop":
				s.api.stop()
				return ""
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
				return ""
			}
		})
	})
}

type story struct {
	api   *api
	clock *clock
	ids   []string
	fence string // the last fencing token that was seen
	twice bool   // each request that changes something is sent twice, under a key
}

// Tokens of the stories whose names begin with "tokens".
var storyTokens = []httpapi.Token{
	{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true},
	{Name: "alice", SHA256: httpapi.HashToken("alice-secret"), Namespaces: []string{"ns"}, Tenants: []string{"alice"}},
	{Name: "bob", SHA256: httpapi.HashToken("bob-secret"), Namespaces: []string{"ns"}, Tenants: []string{"bob", "alice"}, Tools: []string{"echo"}},
	{Name: "kate", SHA256: httpapi.HashToken("kate-secret"), Namespaces: []string{"ns"}, Tenants: []string{"alice"}, Tools: []string{"kubernetes", "echo"}},
	{Name: "watch", SHA256: httpapi.HashToken("watch-secret"), ReadOnly: true},
	{Name: "old", SHA256: httpapi.HashToken("old-secret"), Admin: true, Expires: time.Date(2026, 2, 9, 15, 0, 0, 0, time.UTC)},
}

func newStory(t *testing.T, tokens bool, partitions int) *story {
	s := &story{clock: newClock()}
	s.api = start(t, setup{
		partitions: partitions,
		engine: func(o *shell.Options) {
			o.Clock = s.clock
			withCluster(o)
		},
		api: func(o *httpapi.Options) {
			o.Clock = s.clock
			withJobs(o)
			o.Webhooks = map[string]httpapi.WebhookAuth{"open": {Scheme: httpapi.SchemeNone}}
			if tokens {
				o.Tokens = storyTokens
			}
		},
	})
	return s
}

var (
	uuidForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// A page token holds an id, so it differs from run to run.
	tokenForm = regexp.MustCompile(`("next_page_token": ?)"[^"]+"`)
	// A fencing token counts batches, of which there may be more.
	fenceForm = regexp.MustCompile(`("token": ?)(\d{5,})`)
	// The epoch of a ledger counts inputs, which come in fewer or more batches.
	epochForm = regexp.MustCompile(`("epoch": ?)\d+`)
	// A time within a second comes of a jitter, which follows from an id.
	jitterForm = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d{3})Z"`)
	nameForm   = regexp.MustCompile(`\{id-(\d+)\}`)
)

// number replaces ids by their numbers.
func (s *story) number(text string) string {
	text = tokenForm.ReplaceAllString(text, `$1"{token}"`)
	if m := fenceForm.FindStringSubmatch(text); m != nil {
		s.fence = m[2]
	}
	text = epochForm.ReplaceAllString(fenceForm.ReplaceAllString(text, `${1}N`), `${1}N`)
	return uuidForm.ReplaceAllStringFunc(text, func(id string) string {
		if id == uuid.Nil.String() {
			return id
		}
		if !slices.Contains(s.ids, id) {
			s.ids = append(s.ids, id)
		}
		return fmt.Sprintf("{id-%d}", slices.Index(s.ids, id)+1)
	})
}

// name replaces numbers by their ids, and N as a token by the last fencing token that was seen.
func (s *story) name(text string) string {
	text = strings.ReplaceAll(text, `"token":N`, `"token":`+s.fence)
	return nameForm.ReplaceAllStringFunc(text, func(n string) string {
		var i int
		_, _ = fmt.Sscanf(n, "{id-%d}", &i)
		if i < 1 || i > len(s.ids) {
			return n
		}
		return s.ids[i-1]
	})
}

var storyHeaders = []string{"Allow", "Location", "Retry-After", "Www-Authenticate", "X-Orrery-Attempt", "X-Orrery-Logs-Truncated", "X-Orrery-Logs-Dropped-Bytes"}

func (s *story) do(d *datadriven.TestData) string {
	head, rest, _ := strings.Cut(s.name(d.Input), "\n")
	method, target, _ := strings.Cut(head, " ")
	var opts []func(*http.Request)
	for {
		line, more, _ := strings.Cut(rest, "\n")
		k, v, ok := strings.Cut(line, ": ")
		if !ok || strings.ContainsAny(k, `{"[ `) {
			break
		}
		if k == "Host" {
			opts = append(opts, func(r *http.Request) { r.Host = v })
		} else {
			opts = append(opts, with(k, v))
		}
		rest = more
	}
	var body any
	if rest != "" {
		body = rest
	}
	a := s.ask(method, target, body, opts...)
	var until string
	d.MaybeScanArgs(s.api.t, "until", &until)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(a.body, until) && time.Now().Before(deadline); {
		a = s.api.do(method, target, body, opts...)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d\n", a.status)
	for _, h := range storyHeaders {
		if v := a.header.Get(h); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", h, v)
		}
	}
	text := strings.TrimSpace(a.body)
	if buf := new(bytes.Buffer); !d.HasArg("raw") && json.Indent(buf, []byte(text), "", "  ") == nil {
		text = buf.String()
	}
	if d.HasArg("jitter") {
		text = jitterForm.ReplaceAllStringFunc(text, func(at string) string {
			if strings.HasSuffix(at, `:00:00.000Z"`) { // a jitter that comes to whole hours is rare enough
				return at
			}
			return `"{within a second}"`
		})
	}
	return s.number(out.String() + text)
}

func (s *story) errors(d *datadriven.TestData) string {
	var out strings.Builder
	for line := range strings.Lines(s.name(d.Input)) {
		line = strings.TrimSuffix(line, "\n")
		method, target := d.CmdArgs[0].Key, s.name(d.CmdArgs[1].String())
		var body any = line
		if strings.HasPrefix(line, "?") { // a line of parameters instead of a body
			target, body = target+line, nil
		}
		a := s.ask(method, target, body)
		if a.status < 400 {
			fmt.Fprintf(&out, "%d %s\n", a.status, strings.TrimSpace(a.body))
			continue
		}
		fmt.Fprintf(&out, "%d %s\n", a.status, a.errorText())
	}
	return s.number(out.String())
}

func (s *story) advance(t *testing.T, d *datadriven.TestData) string {
	by, err := time.ParseDuration(d.CmdArgs[0].Key)
	require.NoError(t, err)
	var until string
	d.MaybeScanArgs(t, "until", &until)
	announced := make(chan effects.Event, 1)
	var subs []*shell.Subscription
	defer func() {
		for _, sub := range subs {
			sub.Close()
		}
	}()
	for _, e := range s.api.engines {
		subs = append(subs, e.Subscribe(func(e effects.Event) bool {
			if e.Kind.String() == until {
				select {
				case announced <- e:
				default:
				}
			}
			return false
		}, 1))
	}
	s.clock.advance(by)
	s.api.wake()
	if until != "" {
		select {
		case <-announced:
		case <-t.Context().Done():
		}
	}
	return s.clock.Now().Format(time.RFC3339)
}

func (s *story) await(t *testing.T, d *datadriven.TestData) string {
	id, err := uuid.Parse(s.name(d.CmdArgs[0].Key))
	require.NoError(t, err)
	a, err := s.api.engineOf(effects.Ref{Kind: core.KindAction, ID: id}).Actions().Wait(t.Context(), id)
	require.NoError(t, err)
	require.NotEqual(t, core.StatusPending, a.Status.Type)
	return string(a.Status.Type)
}

// ask sends a request; twice if the story is one of those: then under a key, and both are answered alike.
func (s *story) ask(method, target string, body any, opts ...func(*http.Request)) answer {
	if !s.twice || method == http.MethodGet {
		return s.api.do(method, target, body, opts...)
	}
	opts = append(opts, key(uuid.NewString()))
	first := s.api.do(method, target, body, opts...)
	again := s.api.do(method, target, body, opts...)
	dry := strings.Contains(fmt.Sprint(body), `"dry_run":true`) // has ids that it makes up
	if first.status < 300 && !dry && !strings.HasPrefix(target, "/v1/webhooks/") {
		assert.Equal(s.api.t, first.status, again.status, "%s %s again: %s", method, target, again.body)
		assert.Equal(s.api.t, first.body, again.body, "%s %s again", method, target)
		for _, h := range []string{"Location", "Etag", "Content-Type", "Retry-After"} {
			assert.Equal(s.api.t, first.header.Get(h), again.header.Get(h), "%s %s again: %s", method, target, h)
		}
	}
	return first
}
