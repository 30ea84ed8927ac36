package httpapi_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

var (
	standardSecret = base64.StdEncoding.EncodeToString([]byte("a standard secret of many bytes"))
	olderSecret    = "whsec_" + base64.StdEncoding.EncodeToString([]byte("the one before it, also long"))
)

const gitHubSecret = "It's a Secret to Everybody"

func webhookAPI(t *testing.T, s setup) *api {
	t.Helper()
	more := s.api
	s.api = func(o *httpapi.Options) {
		o.Webhooks = map[string]httpapi.WebhookAuth{
			"std":  {Scheme: httpapi.SchemeStandard, Secrets: []string{standardSecret, olderSecret}},
			"gh":   {Scheme: httpapi.SchemeGitHub, Secrets: []string{"older", gitHubSecret}},
			"open": {Scheme: httpapi.SchemeNone},
			"gone": {Scheme: httpapi.SchemeNone}, // the engine has no such route
		}
		if more != nil {
			more(o)
		}
	}
	return start(t, s)
}

// standard signs as Standard Webhooks have it.
func standard(t *testing.T, secret, id string, at time.Time, body string) func(*http.Request) {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	sig, err := wh.Sign(id, at, []byte(body))
	require.NoError(t, err)
	return func(r *http.Request) {
		r.Header.Set("Webhook-Id", id)
		r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
		r.Header.Set("Webhook-Signature", sig)
	}
}

// gitHub signs as GitHub does.
func gitHub(secret, delivery, body string) func(*http.Request) {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, body)
	sum := hex.EncodeToString(mac.Sum(nil))
	return func(r *http.Request) {
		r.Header.Set("X-Hub-Signature-256", "sha256="+sum)
		if delivery != "" {
			r.Header.Set("X-GitHub-Delivery", delivery)
		}
	}
}

func TestWebhookSignaturesAreChecked(t *testing.T) {
	const body = `{"ref":"refs/heads/main"}`
	now := time.Now()
	tests := map[string]struct {
		route  string
		sign   func(*http.Request)
		status int
		says   string
	}{
		"standard":                     {"std", standard(t, standardSecret, "msg_1", now, body), 202, ""},
		"standard, the secret before":  {"std", standard(t, olderSecret, "msg_2", now, body), 202, ""},
		"standard, four minutes old":   {"std", standard(t, standardSecret, "msg_3", now.Add(-4*time.Minute), body), 202, ""},
		"standard, four minutes ahead": {"std", standard(t, standardSecret, "msg_4", now.Add(4*time.Minute), body), 202, ""},
		"standard, unsigned":           {"std", func(*http.Request) {}, 401, "signature: missing"},
		"standard, no id": {"std", func(r *http.Request) {
			standard(t, standardSecret, "msg_5", now, body)(r)
			r.Header.Del("Webhook-Id")
		}, 401, "signature: missing"},
		"standard, another id": {"std", func(r *http.Request) {
			standard(t, standardSecret, "msg_6", now, body)(r)
			r.Header.Set("Webhook-Id", "msg_7")
		}, 401, "signature: does not match"},
		"standard, another body":   {"std", standard(t, standardSecret, "msg_8", now, body+" "), 401, "signature: does not match"},
		"standard, another secret": {"std", standard(t, base64.StdEncoding.EncodeToString([]byte("guess")), "msg_9", now, body), 401, "signature: does not match"},
		"standard, old":            {"std", standard(t, standardSecret, "msg_10", now.Add(-6*time.Minute), body), 401, "webhook-timestamp: is more than five minutes old"},
		"standard, of the future":  {"std", standard(t, standardSecret, "msg_11", now.Add(6*time.Minute), body), 401, "webhook-timestamp: is more than five minutes ahead"},
		"standard, a fresh timestamp on an old signature": {"std", func(r *http.Request) {
			standard(t, standardSecret, "msg_12", now.Add(-6*time.Minute), body)(r)
			r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		}, 401, "signature: does not match"},
		"standard, no number": {"std", func(r *http.Request) {
			standard(t, standardSecret, "msg_13", now, body)(r)
			r.Header.Set("Webhook-Timestamp", "now")
		}, 401, "webhook-timestamp: is not a number"},
		"github":                        {"gh", gitHub(gitHubSecret, "d1", body), 202, ""},
		"github, the secret before":     {"gh", gitHub("older", "d2", body), 202, ""},
		"github, unsigned":              {"gh", func(*http.Request) {}, 401, "signature: missing"},
		"github, SHA-1":                 {"gh", with("X-Hub-Signature-256", "sha1=00"), 401, "signature: missing"},
		"github, no hexadecimal number": {"gh", with("X-Hub-Signature-256", "sha256=zz"), 401, "is not hexadecimal"},
		"github, empty":                 {"gh", with("X-Hub-Signature-256", "sha256="), 401, "signature: does not match"},
		"github, cut": {"gh", func(r *http.Request) {
			gitHub(gitHubSecret, "d3", body)(r)
			r.Header.Set("X-Hub-Signature-256", r.Header.Get("X-Hub-Signature-256")[:len("sha256=")+32])
		}, 401, "signature: does not match"},
		"github, another secret": {"gh", gitHub("guess", "d4", body), 401, "signature: does not match"},
		"github, another body":   {"gh", gitHub(gitHubSecret, "d5", "{}"), 401, "signature: does not match"},
		"github, no delivery":    {"gh", gitHub(gitHubSecret, "", body), 400, "X-GitHub-Delivery: missing"},
		"none":                   {"open", func(*http.Request) {}, 202, ""},
		"unknown route":          {"nowhere", func(*http.Request) {}, 404, `webhook route "nowhere" not found`},
		"route of the API alone": {"gone", func(*http.Request) {}, 404, "webhook route not found"},
	}
	a := webhookAPI(t, setup{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a.t = t
			r := a.do("POST", "/v1/webhooks/"+test.route, body, test.sign)
			require.Equal(t, test.status, r.status, r.body)
			if test.status == http.StatusAccepted {
				assert.Equal(t, r.str("webhook_id"), r.str("action_id"))
				return
			}
			assert.Contains(t, r.errorText(), test.says)
			assert.Equal(t, test.status == http.StatusUnauthorized, r.header.Get("Www-Authenticate") != "")
			assert.NotContains(t, r.body+a.logs.String(), gitHubSecret)
			assert.NotContains(t, r.body+a.logs.String(), standardSecret)
		})
	}
}

// ended waits for the action of a webhook.
func (a *api) ended(id string) core.Action {
	a.t.Helper()
	act, err := a.engine.Actions().Wait(a.t.Context(), uuid.MustParse(id))
	require.NoError(a.t, err)
	return act
}

func TestAWebhookIsKeptRawWithoutItsCredentials(t *testing.T) {
	body := "\x00\xff not JSON \r\n"
	got := make(chan shell.Call, 1)
	a := webhookAPI(t, setup{engine: func(o *shell.Options) {
		o.Tools["echo"] = shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			got <- c
			return nil, nil
		})
	}})
	r := a.do("POST", "/v1/webhooks/gh", body, gitHub(gitHubSecret, "d1", body),
		with("X-GitHub-Event", "push"), with("User-Agent", "GitHub-Hookshot/1"), with("Content-Type", "application/octet-stream"),
		with("Authorization", "Bearer secret"), with("Cookie", "session=secret"), with("X-Api-Key", "secret"),
		with("Proxy-Authorization", "secret"), with("X-GitHub-Long", strings.Repeat("x", 2000)))
	require.Equal(t, http.StatusAccepted, r.status, r.body)
	act := a.ended(r.str("action_id"))
	call := <-got
	assert.Equal(t, body, string(call.Payload))
	assert.Equal(t, "ns", act.Namespace)
	assert.Equal(t, "gh", act.Trigger.Route)
	var kept map[string]string
	require.NoError(t, json.Unmarshal(call.Header, &kept))
	mac := hmac.New(sha256.New, []byte(gitHubSecret))
	_, _ = io.WriteString(mac, body)
	assert.Equal(t, map[string]string{
		"content-type": "application/octet-stream", "user-agent": "GitHub-Hookshot/1",
		"x-github-event": "push", "x-github-delivery": "d1", "x-hub-signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	}, kept)
	assert.NotContains(t, a.logs.String(), "session=secret")
}

func TestARepeatedDeliveryIsStoredOnceAndAnsweredTheSame(t *testing.T) {
	c := newClock()
	a := webhookAPI(t, setup{engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) { o.Clock = c }})
	const body = "hello"
	now := time.Now()
	send := func(route string, sign func(*http.Request)) string {
		t.Helper()
		r := a.do("POST", "/v1/webhooks/"+route, body, sign)
		require.Equal(t, http.StatusAccepted, r.status, r.body)
		return r.str("webhook_id")
	}
	first := send("std", standard(t, standardSecret, "msg", now, body))
	assert.Equal(t, first, send("std", standard(t, standardSecret, "msg", now, body)), "byte for byte")
	assert.Equal(t, first, send("std", standard(t, olderSecret, "msg", now.Add(time.Second), body)), "signed anew by the sender")
	assert.NotEqual(t, first, send("std", standard(t, standardSecret, "msg2", now, body)), "another message")
	hub := send("gh", gitHub(gitHubSecret, "msg", body))
	assert.NotEqual(t, first, hub, "another route")
	assert.Equal(t, hub, send("gh", gitHub(gitHubSecret, "msg", body)))
	unsigned := send("open", func(*http.Request) {})
	assert.NotEqual(t, unsigned, send("open", func(*http.Request) {}), "nothing tells a repetition")

	c.advance(10 * time.Minute)
	assert.Equal(t, first, send("std", standard(t, standardSecret, "msg", now, body)), "still within the window")
	c.advance(time.Second)
	assert.NotEqual(t, hub, send("gh", gitHub(gitHubSecret, "msg", body)), "remembered for ten minutes, not for ever")
}

func TestADeliveryThatCouldNotBeStoredIsTakenAgain(t *testing.T) {
	st := &failing{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := webhookAPI(t, setup{store: st})
	sign := gitHub(gitHubSecret, "d", "x")
	st.fail(syscall.ENOSPC)
	r := a.do("POST", "/v1/webhooks/gh", "x", sign)
	require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
	assert.Equal(t, "the disk is full: nothing was stored", r.errorText())
	st.fail(nil)
	r = a.do("POST", "/v1/webhooks/gh", "x", sign)
	require.Equal(t, http.StatusAccepted, r.status, r.body)
}

func TestASenderThatHangsUpFindsItsDeliveryStored(t *testing.T) {
	a := webhookAPI(t, setup{})
	sign := gitHub(gitHubSecret, "d", "x")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := a.do("POST", "/v1/webhooks/gh", "x", sign, func(r *http.Request) { *r = *r.WithContext(gone) })
	require.Equal(t, http.StatusAccepted, r.status, r.body) // nobody hears it
	assert.Equal(t, r.body, a.do("POST", "/v1/webhooks/gh", "x", sign).body)
	st, err := a.engine.Stats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, st.Webhooks)
}

func TestEqualDeliveriesAtOnceAreOne(t *testing.T) {
	a := webhookAPI(t, setup{})
	sign := gitHub(gitHubSecret, "same", "x")
	ids := make([]string, 50)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			r := a.do("POST", "/v1/webhooks/gh", "x", sign)
			if assert.Equal(t, http.StatusAccepted, r.status) {
				ids[i] = r.str("webhook_id")
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		assert.Equal(t, ids[0], id)
	}
	st, err := a.engine.Stats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, st.Webhooks)
}

func TestABurstOfWebhooksIsStoredWhole(t *testing.T) {
	a := webhookAPI(t, setup{})
	const senders, each = 50, 200
	ids := make([][]string, senders)
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for j := range each {
				body := fmt.Sprintf("%d/%d", i, j)
				r := a.do("POST", "/v1/webhooks/gh", body, gitHub(gitHubSecret, body, body))
				if !assert.Equal(t, http.StatusAccepted, r.status, r.body) {
					return
				}
				ids[i] = append(ids[i], r.str("action_id"))
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for i := range ids {
		require.Len(t, ids[i], each)
		for j, id := range ids[i] {
			seen[id] = true
			if j%50 == 0 { // each of them would be slow under the race detector
				act := a.ended(id)
				assert.Equal(t, core.StatusCompleted, act.Status.Type)
				assert.Equal(t, fmt.Sprintf("%d/%d", i, j), string(act.Trigger.RawPayload))
			}
		}
	}
	assert.Len(t, seen, senders*each)
}

func TestWebhookBodiesOfEverySizeUpToTheLimit(t *testing.T) {
	a := webhookAPI(t, setup{})
	for _, n := range []int{0, 1, 10 << 20} {
		body := bytes.Repeat([]byte("w"), n)
		r := a.do("POST", "/v1/webhooks/gh", body, gitHub(gitHubSecret, strconv.Itoa(n), string(body)))
		require.Equal(t, http.StatusAccepted, r.status, "%d bytes: %s", n, r.body)
		assert.Len(t, a.ended(r.str("action_id")).Trigger.RawPayload, n)
	}
	over := bytes.Repeat([]byte("w"), 10<<20+1)
	for name, body := range map[string]io.Reader{"with its length": bytes.NewReader(over), "without": io.MultiReader(bytes.NewReader(over))} {
		r := a.do("POST", "/v1/webhooks/open", body)
		assert.Equal(t, http.StatusRequestEntityTooLarge, r.status, name)
		assert.Equal(t, "body: is larger than the limit of 10485760 bytes", r.errorText(), name)
	}
}

func TestAPageOfLargeWebhooksEndsEarly(t *testing.T) {
	raced.Skip(t)
	a := webhookAPI(t, setup{})
	body := strings.Repeat("w", 2<<20)
	want := map[string]bool{}
	for range 9 {
		r := a.do("POST", "/v1/webhooks/open", body)
		require.Equal(t, http.StatusAccepted, r.status)
		a.ended(r.str("action_id"))
		want[r.str("action_id")] = true
	}
	pages, token := 0, ""
	for {
		r := a.do("GET", "/v1/actions?limit=1000&include=raw_payload&page_token="+token, nil)
		require.Equal(t, http.StatusOK, r.status)
		require.Less(t, len(r.body), 64<<20)
		var page struct {
			Actions []struct {
				ID string `json:"id"`
			} `json:"actions"`
			Next string `json:"next_page_token"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.body), &page))
		for _, act := range page.Actions {
			require.True(t, want[act.ID], "each once")
			delete(want, act.ID)
		}
		pages++
		if token = page.Next; token == "" {
			break
		}
	}
	assert.Empty(t, want)
	assert.Greater(t, pages, 1)
}

// failing is a store whose commits fail while told so.
type failing struct {
	store.Store
	mu  sync.Mutex
	err error
}

func (f *failing) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) Update(ctx context.Context, fn func(store.Tx) error) error {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return fmt.Errorf("commit /var/lib/secret/orrery.db: %w", err)
	}
	return f.Store.Update(ctx, fn)
}
