package constraints_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobs"
)

// answers is a transport whose n-th answer is the n-th of a list, or its last.
type answers struct {
	list     []any // an int is a status, an error one of the connection
	header   http.Header
	requests []*http.Request
	bodies   [][]byte
	at       []time.Time
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	n := min(len(a.requests), len(a.list)-1)
	a.requests, a.bodies, a.at = append(a.requests, req), append(a.bodies, body), append(a.at, time.Now())
	switch v := a.list[n].(type) {
	case error:
		return nil, v
	case string:
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(v))}, nil
	}
	header := a.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: a.list[n].(int), Header: header, Body: io.NopCloser(strings.NewReader("never shown"))}, nil
}

const secretURL = "https://hooks.example.com/T0P/s3cret"

// violated is a run of the job whose constraint "window" is violated.
func violated(o *core.Orchestrator) {
	o.State = core.OrchestratorActionRunning
	o.Checks = []core.ConstraintCheck{{Name: "window", Met: true, Message: "of an earlier attempt"}, {Name: "window", Message: "too late"}}
}

func take(t *testing.T, c *constraints.Checker, w *world, typ, config string) error {
	t.Helper()
	j := job(t, "", "")
	run := w.run(j, noon, violated)
	return c.Take(t.Context(), j, run.RunID, jobs.Action{Constraint: "window", Type: typ, Config: json.RawMessage(config), Key: "run/7"})
}

func TestAWebhookTellsWhatHappenedSignedAndUnderAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		w, a := newWorld(), &answers{list: []any{503, errors.New("connection reset"), 204}}
		c := checker(t, w, func(o *constraints.Options) {
			o.Client, o.Secrets, o.Now = &http.Client{Transport: a}, map[string]constraints.Secret{"ops": {Key: secret}}, time.Now
		})
		require.NoError(t, take(t, c, w, "webhook", `{"url":"`+secretURL+`","headers":{"X-Team":"ops"},"secret":"ops","data":{"any":[1]}}`))
		require.Len(t, a.requests, 3, "it is tried again")
		verify, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		for i, req := range a.requests {
			assert.Equal(t, secretURL, req.URL.String())
			assert.Equal(t, http.MethodPost, req.Method)
			assert.Equal(t, "ops", req.Header.Get("X-Team"))
			assert.Equal(t, "run/7", req.Header.Get("Idempotency-Key"))
			require.NoError(t, verify.Verify(a.bodies[i], req.Header))
			assert.Equal(t, a.bodies[0], a.bodies[i])
		}
		assert.JSONEq(t, `{"type":"constraint.violated","constraint":"window","message":"too late","data":{"any":[1]},
			"run":{"run_id":"report:2026-03-10T12:00:00.000Z","job_id":"report","job_name":"Daily report","namespace":"","tenant":"acme",
			"scheduled_at":"2026-03-10T12:00:00.000Z","attempt":0,"phase":"pre","state":"action_running","exit_code":null}}`, string(a.bodies[0]))
		assert.Equal(t, 500*time.Millisecond, a.at[1].Sub(a.at[0]))
		assert.Equal(t, time.Second, a.at[2].Sub(a.at[1]))
	})
}

func TestAKeySignsTheWebhooksOfThoseAloneThatItIsFor(t *testing.T) {
	const config = `{"url":"` + secretURL + `","secret":"ops"}`
	for name, row := range map[string]struct {
		secret constraints.Secret
		signs  bool
	}{
		"of all":                       {constraints.Secret{}, true},
		"of its tenant":                {constraints.Secret{Tenants: []string{"other", "acme"}}, true},
		"of its namespace":             {constraints.Secret{Namespaces: []string{"lab"}}, true},
		"of its tenant and namespace":  {constraints.Secret{Namespaces: []string{"lab"}, Tenants: []string{"acme"}}, true},
		"of another tenant":            {constraints.Secret{Tenants: []string{"other"}}, false},
		"of another namespace":         {constraints.Secret{Namespaces: []string{"prod"}, Tenants: []string{"acme"}}, false},
		"of its namespace, not tenant": {constraints.Secret{Namespaces: []string{"lab"}, Tenants: []string{"other"}}, false},
		"of nobody":                    {constraints.Secret{Tenants: []string{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, a := newWorld(), &answers{list: []any{200}}
			row.secret.Key = "c2VjcmV0"
			c := checker(t, w, func(o *constraints.Options) {
				o.Client = &http.Client{Transport: a}
				o.Secrets = map[string]constraints.Secret{"ops": row.secret, "public": {Key: "c2VjcmV0"}}
			})
			j := job(t, `constraints: [{previousRun: {onViolation: [{webhook: `+config+`}]}}]`, "")
			j.Namespace, j.Tenant = "lab", "acme"
			run := w.run(j, noon, violated)
			valid := c.Validate(j)
			require.NoError(t, c.ValidateUnscoped(j), "somebody's may")
			err := c.Take(t.Context(), j, run.RunID, jobs.Action{Constraint: "window", Type: "webhook", Config: json.RawMessage(config), Key: "run/7"})
			if row.signs {
				require.NoError(t, valid)
				require.NoError(t, err)
				assert.NotEmpty(t, a.requests[0].Header.Get("Webhook-Signature"))
				return
			}
			require.EqualError(t, valid, `constraints[0].previousRun.onViolation[0].webhook.secret: there is no secret "ops": use one of public`)
			require.EqualError(t, err, `webhook: there is no secret "ops"`)
			assert.True(t, shell.IsPermanent(err))
			assert.Empty(t, a.requests)
		})
	}
}

func TestEachTryOfAWebhookIsSignedAsOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		w, a := newWorld(), &answers{list: []any{503}, header: http.Header{"Retry-After": {"30"}}}
		verify, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		client := &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := a.RoundTrip(req)
			// The other side takes no signature that is older than five minutes.
			assert.NoError(t, verify.Verify(a.bodies[len(a.bodies)-1], req.Header), "try %d", len(a.requests))
			<-time.After(30 * time.Second) // it takes its time to answer
			return resp, err
		})}
		c := checker(t, w, func(o *constraints.Options) {
			o.Client, o.Secrets, o.Now = client, map[string]constraints.Secret{"ops": {Key: secret}}, time.Now
		})
		require.ErrorContains(t, take(t, c, w, "webhook", `{"url":"`+secretURL+`","secret":"ops","timeout":"1m","retries":10}`), "503")
		require.Len(t, a.requests, 11)
		for i, req := range a.requests {
			assert.Equal(t, strconv.FormatInt(a.at[i].Unix(), 10), req.Header.Get("Webhook-Timestamp"))
			assert.Equal(t, "run/7", req.Header.Get("Webhook-Id"))
		}
	})
}

// roundTrip is a function as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestAWebhookIsTriedAgainWhereThatCanHelp(t *testing.T) {
	for _, row := range []struct {
		answer    any
		config    string
		tries     int
		permanent bool
		says      string
	}{
		{answer: 200, tries: 1},
		{answer: 400, tries: 1, permanent: true, says: "webhook: https://hooks.example.com answered 400 Bad Request"},
		{answer: 404, tries: 1, permanent: true, says: "webhook: https://hooks.example.com answered 404 Not Found"},
		{answer: 302, tries: 1, permanent: true, says: "webhook: https://hooks.example.com answered 302 Found"},
		{answer: 409, tries: 1, permanent: true, says: "webhook: https://hooks.example.com answered 409 Conflict"},
		{answer: 408, tries: 4, says: "webhook: https://hooks.example.com answered 408 Request Timeout"},
		{answer: 425, tries: 4, says: "webhook: https://hooks.example.com answered 425 Too Early"},
		{answer: 429, tries: 4, says: "webhook: https://hooks.example.com answered 429 Too Many Requests"},
		{answer: 500, tries: 4, says: "webhook: https://hooks.example.com answered 500 Internal Server Error"},
		{answer: 500, config: `,"retries":0`, tries: 1, says: "webhook: https://hooks.example.com answered 500 Internal Server Error"},
		{answer: errors.New("no route"), config: `,"retries":1`, tries: 2, says: "webhook: post to https://hooks.example.com: no route"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, a := newWorld(), &answers{list: []any{row.answer}, header: http.Header{"Location": {"https://elsewhere.example.com"}}}
			c := checker(t, w, func(o *constraints.Options) { o.Client = &http.Client{Transport: a} })
			err := take(t, c, w, "webhook", `{"url":"`+secretURL+`"`+row.config+`}`)
			assert.Len(t, a.requests, row.tries, "%v", row.answer)
			assert.Equal(t, row.permanent, shell.IsPermanent(err))
			if row.says == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, row.says)
		})
	}
}

func TestAWebhookWaitsAsLongAsTheServerAsksButNotForEver(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "86400": 30 * time.Second, "2000000": 30 * time.Second, "soon": 500 * time.Millisecond,
		"Sat, 01 Jan 2000 00:00:09 GMT": 9 * time.Second, // a bubble's time begins then
		"Sat, 01 Jan 2000 00:00:00 GMT": 500 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			w, a := newWorld(), &answers{list: []any{503, 200}, header: http.Header{"Retry-After": {header}}}
			c := checker(t, w, func(o *constraints.Options) { o.Client, o.Now = &http.Client{Transport: a}, time.Now })
			require.NoError(t, take(t, c, w, "webhook", `{"url":"`+secretURL+`"}`))
			assert.Equal(t, want, a.at[1].Sub(a.at[0]))
		})
	}
}

func TestAWebhookReachesNoPrivateAddressUnlessTheClientMay(t *testing.T) {
	called := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer server.Close()
	w := newWorld()
	err := take(t, checker(t, w, nil), w, "webhook", `{"url":"`+server.URL+`/s3cret"}`)
	require.ErrorContains(t, err, "only public addresses are allowed here")
	assert.True(t, shell.IsPermanent(err))
	assert.NotContains(t, err.Error(), "s3cret")
	assert.False(t, called)
	client := server.Client()
	defer client.CloseIdleConnections()
	require.NoError(t, take(t, checker(t, w, func(o *constraints.Options) { o.Client = client }), w, "webhook", `{"url":"`+server.URL+`"}`))
	assert.True(t, called)
}

func TestAHookWithAURLAsksTheServer(t *testing.T) {
	for _, row := range []struct {
		answer  any
		met     bool
		message string
		unknown string
	}{
		{answer: `{"proceed":false,"message":"frozen"}`, message: "frozen"},
		{answer: `{"proceed":true}`, met: true},
		{answer: 204, met: true},
		{answer: 403, unknown: "preRunHook: webhook: https://hooks.example.com answered 403 Forbidden"},
		{answer: 500, unknown: "preRunHook: webhook: https://hooks.example.com answered 500 Internal Server Error"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, a := newWorld(), &answers{list: []any{row.answer}}
			j := job(t, `constraints: [{preRunHook: {config: {url: "`+secretURL+`", headers: {Authorization: Bearer s3cret}}}}]`, "")
			run := w.run(j, noon, nil)
			c := checker(t, w, func(o *constraints.Options) { o.Client = &http.Client{Transport: a} })
			require.NoError(t, c.Validate(j))
			r, err := c.CheckPreExecution(t.Context(), j, run.RunID)
			assert.Contains(t, string(a.bodies[0]), `{"type":"hook.pre_run","constraint":"preRunHook","run":{"run_id":"report:`)
			assert.Equal(t, "Bearer s3cret", a.requests[0].Header.Get("Authorization"))
			if row.unknown != "" {
				require.EqualError(t, err, "could not be checked: "+row.unknown)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.met, checkOf(t, r).Met)
			assert.Equal(t, row.message, checkOf(t, r).Message)
		})
	}
}

func TestNotifySaysWhatHappenedUnlessItIsToldWhatToSay(t *testing.T) {
	for _, row := range []struct {
		config string
		want   effects.Notify
	}{
		{``, effects.Notify{Title: "Job report: window is violated", Message: "Run report:2026-03-10T12:00:00.000Z: too late"}},
		{`{"title":"T","message":"M","sound":true,"channel":"ops"}`, effects.Notify{Title: "T", Message: "M", Sound: true, Channel: "ops"}},
	} {
		w := newWorld()
		var got effects.Notify
		var under string
		c := checker(t, w, func(o *constraints.Options) {
			o.Notify = func(_ context.Context, key string, n effects.Notify) error { got, under = n, key; return nil }
		})
		require.NoError(t, take(t, c, w, "notify", row.config))
		assert.Equal(t, row.want, got)
		assert.NotEmpty(t, under)
	}
	w := newWorld()
	err := take(t, checker(t, w, nil), w, "notify", "")
	require.EqualError(t, err, "notify: no notifications are configured here")
	assert.True(t, shell.IsPermanent(err))
}

func TestLogWritesALineWithTheFieldsOfTheRun(t *testing.T) {
	var out bytes.Buffer
	w := newWorld()
	c := checker(t, w, func(o *constraints.Options) { o.Logger = slog.New(slog.NewJSONHandler(&out, nil)) })
	require.NoError(t, take(t, c, w, "log", `{"level":"error","message":"look"}`))
	first, _, _ := strings.Cut(out.String(), "\n")
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	delete(line, "time")
	assert.Equal(t, map[string]any{
		"level": "ERROR", "msg": "constraint", "constraint": "window", "met": false, "message": "look", "run_id": "report:2026-03-10T12:00:00.000Z",
		"job_id": "report", "scheduled_at": "2026-03-10T12:00:00.000Z", "state": "action_running", "attempt": 0.0,
	}, line)
}

func TestAnActionThatNobodyKnowsFailsForGood(t *testing.T) {
	w := newWorld()
	err := take(t, checker(t, w, nil), w, "page", "")
	require.EqualError(t, err, `there is no action "page"`)
	assert.True(t, shell.IsPermanent(err))
}

// paging is an action of the tests' own.
type paging struct{ told *constraints.ActionInput }

func (p paging) Take(_ context.Context, in *constraints.ActionInput) error {
	*p.told = *in
	return nil
}

func TestEmbeddersHaveActionsOfTheirOwn(t *testing.T) {
	w, told := newWorld(), constraints.ActionInput{}
	c := checker(t, w, func(o *constraints.Options) {
		o.Actions = map[string]constraints.ActionFactory{"page": func(path string, config json.RawMessage) (constraints.Action, error) {
			if string(config) != `{"who":"ann"}` {
				return nil, errors.New(path + ".who: is missing")
			}
			return paging{&told}, nil
		}}
	})
	require.NoError(t, c.Validate(job(t, `constraints: [{previousRun: {onViolation: [{page: {who: ann}}]}}]`, "")))
	require.EqualError(t, c.Validate(job(t, `constraints: [{previousRun: {onViolation: [page]}}]`, "")), "constraints[0].previousRun.onViolation[0].page.who: is missing")
	require.NoError(t, take(t, c, w, "page", `{"who":"ann"}`))
	assert.Equal(t, "window", told.Constraint)
	assert.Equal(t, "too late", told.Message)
	assert.Equal(t, "run/7", told.Key)
	assert.False(t, told.Met)
}
