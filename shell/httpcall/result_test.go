package httpcall_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
	"github.com/orrery-go/orrery/store/memory"
)

// The largest answers that an input may ask for, in what grows as JSON.
var largest = map[string]struct {
	contentType, body string
	whole             bool // it has room
}{
	"plain text":           {"text/plain", strings.Repeat("x", 1<<20), false},
	"quotes":               {"text/plain", strings.Repeat(`"`, 1<<20), false},
	"NULs":                 {"application/octet-stream", strings.Repeat("\x00", 1<<20), false},
	"other controls":       {"text/plain", strings.Repeat("\x01", 1<<20), false},
	"no UTF-8":             {"text/plain", strings.Repeat("x\xff", 1<<19), false},
	"ends of line":         {"text/plain", strings.Repeat("\u2028", (1<<20)/3), false},
	"JSON without spaces":  {"application/json", `"` + strings.Repeat("x", 1<<20-2) + `"`, false},
	"JSON that is cut":     {"application/json", `["` + strings.Repeat("x", 1<<20) + `"]`, false},
	"JSON with spaces":     {"application/json", "[" + strings.Repeat("\n 1,", 1<<18-1) + "1]", true},
	"text of the room":     {"text/plain", strings.Repeat("x", httpcall.MaxResult-1<<10), true},
	"JSON nested too deep": {"application/json", strings.Repeat("[", 200) + strings.Repeat("]", 200), true},
}

func TestALargeAnswerNeverFailsTheRequestThatBroughtIt(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		row := largest[r.URL.Query().Get("row")]
		w.Header().Set("Content-Type", row.contentType)
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, row.body)
	})
	tool := newTool(t, httpcall.Options{})
	engine := startEngine(t, tool)
	for name, row := range largest {
		for method, want := range map[string]core.StatusType{"GET": core.StatusCompleted, "DELETE": core.StatusFailed} {
			t.Run(name+", "+method, func(t *testing.T) {
				a, err := engine.Actions().Create(t.Context(), core.ActionSpec{
					ToolName:  httpcall.Name,
					ToolInput: in("method", method, "url", s.URL+"?row="+strings.ReplaceAll(name, " ", "+"), "max_response_bytes", 1<<20),
				})
				require.NoError(t, err)
				a, err = engine.Actions().Wait(t.Context(), a.ID)
				require.NoError(t, err)
				require.Equal(t, want, a.Status.Type, a.Status.Reason)
				var got struct {
					Body      json.RawMessage
					Truncated bool
				}
				require.NoError(t, json.Unmarshal(a.Status.Result, &got))
				assert.Equal(t, !row.whole, got.Truncated)
				assert.LessOrEqual(t, len(a.Status.Result), httpcall.MaxResult)
				if !row.whole {
					assert.Greater(t, len(a.Status.Result), httpcall.MaxResult-8, "no more is cut than must be")
					assert.True(t, strings.HasPrefix(string(got.Body), `"`), "what is cut is text")
				}
			})
		}
	}
}

// startEngine runs an engine with the tool until the test ends.
func startEngine(t *testing.T, tool shell.Tool) *shell.Engine {
	st := memory.New()
	engine, err := shell.New(shell.Options{
		Store: st, Logger: slog.New(slog.DiscardHandler), Tools: map[string]shell.Tool{httpcall.Name: tool},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-done)
		assert.NoError(t, st.Close())
	})
	return engine
}

func TestACutTextTakesAllTheRoomAndNoMore(t *testing.T) {
	encoded := func(s string) int {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(s))
		return b.Len() - len(`""`+"\n")
	}
	odd := rapid.SampledFrom([]rune("\"\\\b\f\n\r\t\x01\x1f\x7f<>&é€\u2027\u2028\u2029\u2030\ufffd😀x"))
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringOf(odd), rapid.String()).Draw(t, "text")
		room := rapid.IntRange(0, 40).Draw(t, "room")
		got := httpcall.Cut(s, room)
		require.True(t, strings.HasPrefix(s, got))
		require.LessOrEqual(t, encoded(got), room)
		if rest := s[len(got):]; rest != "" {
			_, n := utf8.DecodeRuneInString(rest)
			require.Greater(t, encoded(got+rest[:n]), room, "one character more would not fit")
		}
	})
}

func TestAnAnswerOfTheWrongStatusIsTheResultOfTheFailure(t *testing.T) {
	for name, row := range map[string]struct {
		path, want string
	}{
		"a problem": {"/problem", `{"status":422,"headers":{"Content-Type":"application/problem+json"},"body":{"detail":"no such team"},"truncated":false,"attempts":1}`},
		"text":      {"/text", `{"status":404,"headers":{"Content-Type":"text/plain"},"body":"nothing he","truncated":true,"attempts":1}`},
		"repeated":  {"/busy", `{"status":503,"headers":{"Retry-After":"0"},"body":"","truncated":false,"attempts":3}`},
		"elsewhere": {"/moved", `{"status":422,"url":"URL/problem","headers":{"Content-Type":"application/problem+json"},"body":{"detail":"no such team"},"truncated":false,"attempts":1}`},
		"broken":    {"/broken", `{"status":500,"headers":{"Content-Type":"text/plain"},"body":"begun","truncated":true,"attempts":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Date"] = nil
				switch r.URL.Path {
				case "/problem":
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(http.StatusUnprocessableEntity)
					_, _ = io.WriteString(w, `{"detail":"no such team"}`)
				case "/text":
					w.Header().Set("Content-Type", "text/plain")
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, "nothing here, and more")
				case "/busy":
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(http.StatusServiceUnavailable)
				case "/moved":
					w.Header().Set("Location", "/problem?secret=1")
					w.WriteHeader(http.StatusTemporaryRedirect)
				case "/broken":
					w.Header().Set("Content-Type", "text/plain")
					w.Header().Set("Content-Length", "100")
					w.WriteHeader(http.StatusInternalServerError)
					_, _ = io.WriteString(w, "begun")
				}
			})
			limit := 1 << 10
			if name == "text" {
				limit = 10
			}
			got, err := run(t, newTool(t, httpcall.Options{}), in("url", s.URL+row.path, "max_response_bytes", limit))
			var status *httpcall.StatusError
			require.ErrorAs(t, err, &status)
			assert.Equal(t, row.want, strings.ReplaceAll(got, s.URL, "URL"))
		})
	}
}
