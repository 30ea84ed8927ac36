package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	sender = effects.Ref{Kind: "pipeline", ID: uuid.MustParse("00000000-0000-4000-8000-000000000001")}
	stuck  = effects.Notify{N: 1, Title: "Task stuck", Message: "merge <main> & more", Sound: true}
)

// interpreter is what the engine asks of one.
type interpreter interface {
	Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error)
}

var _ interpreter = (*notify.Interpreter)(nil)

// heard is a channel that remembers what it was told.
type heard struct{ got []effects.Notify }

func (h *heard) Notify(_ context.Context, n effects.Notify) error {
	h.got = append(h.got, n)
	return nil
}

func TestANotificationGoesToItsChannelOrElseToTheDefaultOne(t *testing.T) {
	ops, dev := &heard{}, &heard{}
	i, err := notify.New(notify.Options{Channels: map[string]notify.Channel{"ops": ops, "dev": dev}, Default: "dev"})
	require.NoError(t, err)

	res, err := i.Carry(t.Context(), sender, stuck)
	require.NoError(t, err)
	assert.JSONEq(t, `{"channel":"dev"}`, string(res))
	named := stuck
	named.Channel = "ops"
	res, err = i.Carry(t.Context(), sender, named)
	require.NoError(t, err)
	assert.JSONEq(t, `{"channel":"ops"}`, string(res))

	assert.Equal(t, []effects.Notify{stuck}, dev.got)
	assert.Equal(t, []effects.Notify{named}, ops.got)
}

func TestTheOnlyChannelIsTheDefaultOne(t *testing.T) {
	ops := &heard{}
	i, err := notify.New(notify.Options{Channels: map[string]notify.Channel{"ops": ops}})
	require.NoError(t, err)
	_, err = i.Carry(t.Context(), sender, stuck)
	require.NoError(t, err)
	assert.Len(t, ops.got, 1)
}

func TestAChannelThatIsNotThereIsAPermanentErrorThatNamesThoseThatAre(t *testing.T) {
	two := map[string]notify.Channel{"ops": &heard{}, "dev": &heard{}}
	for name, row := range map[string]struct {
		channels map[string]notify.Channel
		channel  string
		want     string
	}{
		"unknown":    {two, "pager", `notify channel "pager": there is no such channel: use one of dev, ops`},
		"none named": {two, "", "notify: the notification names no channel, and there is no default one: use one of dev, ops"},
		"none there": {nil, "ops", `notify channel "ops": there is no such channel: none is configured`},
	} {
		t.Run(name, func(t *testing.T) {
			i, err := notify.New(notify.Options{Channels: row.channels})
			require.NoError(t, err)
			_, err = i.Carry(t.Context(), sender, effects.Notify{N: 1, Channel: row.channel})
			require.EqualError(t, err, row.want)
			assert.True(t, shell.IsPermanent(err))
		})
	}
}

func TestAnEffectThatIsNoNotificationIsAPermanentError(t *testing.T) {
	i, err := notify.New(notify.Options{})
	require.NoError(t, err)
	_, err = i.Carry(t.Context(), sender, effects.Kill{N: 1, Session: "x"})
	require.ErrorContains(t, err, "effects.Kill, which is no notification")
	assert.True(t, shell.IsPermanent(err))
}

func TestWrongOptionsAreRefusedByName(t *testing.T) {
	for want, o := range map[string]notify.Options{
		`Default: there is no channel "x": use one of ops`:     {Channels: map[string]notify.Channel{"ops": &heard{}}, Default: "x"},
		`Default: there is no channel "x": none is configured`: {Default: "x"},
		`Channels: "ops" is nil`:                               {Channels: map[string]notify.Channel{"ops": nil}},
		"Channels: one has no name":                            {Channels: map[string]notify.Channel{"": &heard{}}},
	} {
		_, err := notify.New(o)
		assert.EqualError(t, err, want)
	}
}

func TestANotificationThatHangsIsEnded(t *testing.T) {
	hangs := notify.ChannelFunc(func(ctx context.Context, _ effects.Notify) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	i, err := notify.New(notify.Options{Channels: map[string]notify.Channel{"ops": hangs}, TimeLimit: time.Millisecond})
	require.NoError(t, err)
	_, err = i.Carry(t.Context(), sender, stuck)
	require.EqualError(t, err, `notify channel "ops": it reached the time limit of 1ms`)
	assert.False(t, shell.IsPermanent(err))
}

func TestANotificationHasThirtySecondsUnlessTheOptionsSayOtherwise(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 30 * time.Second, time.Minute: time.Minute, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			var got time.Duration
			asks := notify.ChannelFunc(func(ctx context.Context, _ effects.Notify) error {
				if until, bounded := ctx.Deadline(); bounded {
					got = time.Until(until)
				}
				return nil
			})
			i, err := notify.New(notify.Options{Channels: map[string]notify.Channel{"ops": asks}, TimeLimit: limit})
			require.NoError(t, err)
			_, err = i.Carry(t.Context(), sender, stuck)
			require.NoError(t, err)
			assert.Equal(t, want, got, "%v", limit)
			got = 0
			require.NoError(t, i.Test(t.Context(), "ops", notify.Message{Title: "x"}))
			assert.Equal(t, want, got, "%v, of a test", limit)
		})
	}
}

func TestTheLogHasTitleAndMessage(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, notify.NewLog(slog.New(slog.NewJSONHandler(&out, nil))).Notify(t.Context(), stuck))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	assert.Equal(t, "Task stuck", line["title"])
	assert.Equal(t, "merge <main> & more", line["message"])
}

// server answers all requests so, and gives what it was asked.
func server(t *testing.T, answer http.HandlerFunc) (url string, requests chan *http.Request, bodies chan []byte) {
	t.Helper()
	requests, bodies = make(chan *http.Request, 10), make(chan []byte, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- r
		bodies <- body
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests, bodies
}

// webhook makes a channel whose connections are closed at the test's end.
func webhook(t *testing.T, o notify.WebhookOptions) *notify.Webhook {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	o.Transport = transport
	w, err := notify.NewWebhook(o)
	require.NoError(t, err)
	return w
}

func TestAWebhookPostsTheNotificationWithItsHeaders(t *testing.T) {
	url, requests, bodies := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	w := webhook(t, notify.WebhookOptions{URL: url + "/hook?token=secret", Headers: map[string]string{"authorization": "Bearer x", "Host": "hooks.example"}})
	require.NoError(t, w.Notify(t.Context(), stuck))
	r := <-requests
	assert.Equal(t, http.MethodPost, r.Method)
	assert.Equal(t, "/hook?token=secret", r.RequestURI)
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	assert.Equal(t, "Bearer x", r.Header.Get("Authorization"))
	assert.Equal(t, "hooks.example", r.Host)
	assert.JSONEq(t, `{"title":"Task stuck","message":"merge <main> & more","sound":true}`, string(<-bodies))
}

func TestWhetherAWebhookIsTriedAgainDependsOnTheAnswer(t *testing.T) {
	for status, permanent := range map[int]bool{
		http.StatusFound: true, http.StatusBadRequest: true, http.StatusUnauthorized: true, http.StatusNotFound: true, http.StatusGone: true,
		http.StatusRequestTimeout: false, http.StatusConflict: false, http.StatusTooManyRequests: false, http.StatusInternalServerError: false, http.StatusServiceUnavailable: false,
	} {
		url, requests, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no\nluck\xff")
		})
		err := webhook(t, notify.WebhookOptions{URL: url + "/secret"}).Notify(t.Context(), stuck)
		require.ErrorContains(t, err, http.StatusText(status)+`: "no\nluck�"`)
		assert.Equal(t, permanent, shell.IsPermanent(err), "%d", status)
		assert.NotContains(t, err.Error(), "secret")
		assert.Len(t, requests, 1, "no redirect is followed")
	}
}

func TestAWebhookThatCannotBeReachedNamesItsHostAlone(t *testing.T) {
	s := httptest.NewServer(nil)
	url := s.URL
	s.Close()
	err := webhook(t, notify.WebhookOptions{URL: url + "/secret"}).Notify(t.Context(), stuck)
	require.ErrorContains(t, err, "post to "+url+": dial tcp")
	assert.NotContains(t, err.Error(), "secret")
	assert.False(t, shell.IsPermanent(err))
}

func TestAWebhookThatDoesNotAnswerIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	url, _, _ := server(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	err := webhook(t, notify.WebhookOptions{URL: url, Timeout: 10 * time.Millisecond}).Notify(t.Context(), stuck)
	require.EqualError(t, err, "post to "+url+": no answer within 10ms")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the engine is stopping"))
	err = webhook(t, notify.WebhookOptions{URL: url}).Notify(ctx, stuck)
	require.EqualError(t, err, "post to "+url+": the engine is stopping")
	assert.False(t, shell.IsPermanent(err))
}

func TestWrongOptionsOfAWebhookAreRefusedByName(t *testing.T) {
	for want, o := range map[string]notify.WebhookOptions{
		"URL: ":                                  {URL: "example.com"},
		"URL: it is not the URL of a web server": {URL: "file:///etc/passwd"},
		"URL":                                    {URL: "http://\x00"},
		`Headers: "a b" is not the name of a header`:     {URL: "http://x", Headers: map[string]string{"a b": ""}},
		`Headers: the value of "a" has a character that`: {URL: "http://x", Headers: map[string]string{"a": "b\r\nc: d"}},
		"Timeout: -1ns is negative":                      {URL: "http://x", Timeout: -1},
	} {
		_, err := notify.NewWebhook(o)
		assert.ErrorContains(t, err, want)
	}
}

func TestWhatAChannelCannotTakeNowIsToldLater(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		later error
		want  string // the result
	}{
		"it is taken":                      {nil, errors.New("not asked"), `{"channel":"ops"}`},
		"it is down":                       {errors.New("connection refused"), nil, `{"channel":"ops","later":true}`},
		"it will never take it":            {shell.Permanent(errors.New("no_service")), nil, ""},
		"it is down, and so is what waits": {errors.New("connection refused"), errors.New("stopping"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var later []notify.Message
			i, err := notify.New(notify.Options{
				Channels: map[string]notify.Channel{"ops": notify.ChannelFunc(func(context.Context, effects.Notify) error { return row.err })},
				Later: func(_ context.Context, channel string, m notify.Message) error {
					assert.Equal(t, "ops", channel)
					later = append(later, m)
					return row.later
				},
			})
			require.NoError(t, err)
			res, err := i.Carry(t.Context(), sender, stuck)
			if row.want == "" {
				require.ErrorContains(t, err, `notify channel "ops": `+row.err.Error())
				assert.Equal(t, shell.IsPermanent(row.err), shell.IsPermanent(err))
				return
			}
			require.NoError(t, err)
			assert.JSONEq(t, row.want, string(res))
			if row.err != nil {
				require.Len(t, later, 1)
				assert.Equal(t, "Task stuck", later[0].Title)
				assert.Equal(t, "merge <main> & more", later[0].Text)
				assert.True(t, later[0].Sound)
			}
		})
	}
	i, err := notify.New(notify.Options{
		Channels: map[string]notify.Channel{"ops": notify.ChannelFunc(func(context.Context, effects.Notify) error { return errors.New("no") })},
		Later:    func(context.Context, string, notify.Message) error { return nil },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = i.Carry(ctx, sender, stuck)
	require.Error(t, err, "the engine stops: the effect is carried out again")
}

func TestWhatIsSaidAgainUnderTheSameKeyIsTheSame(t *testing.T) {
	var ids []string
	i, err := notify.New(notify.Options{
		Channels: map[string]notify.Channel{"ops": notify.ChannelFunc(func(context.Context, effects.Notify) error { return errors.New("down") })},
		Later: func(_ context.Context, _ string, m notify.Message) error {
			ids = append(ids, m.ID)
			return nil
		},
	})
	require.NoError(t, err)
	for _, key := range []string{"run 1", "run 1", "run 2"} {
		require.NoError(t, i.Say(t.Context(), key, stuck))
	}
	require.Len(t, ids, 3)
	assert.Equal(t, ids[0], ids[1])
	assert.NotEqual(t, ids[0], ids[2], "the same words about another run")
	other := stuck
	other.Message = "other words"
	require.NoError(t, i.Say(t.Context(), "run 1", other))
	assert.NotEqual(t, ids[0], ids[3], "other words about the same run")
	lost := stuck
	lost.Channel = "pager"
	require.ErrorContains(t, i.Say(t.Context(), "run 1", lost), `there is no such channel`)
}

func TestWhatItsSenderAsksForAgainIsNotPutOff(t *testing.T) {
	url, _, bodies := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	i, err := notify.New(notify.Options{
		Channels: map[string]notify.Channel{"ops": webhook(t, notify.WebhookOptions{URL: url})},
		Later:    func(context.Context, string, notify.Message) error { return errors.New("not asked") },
	})
	require.NoError(t, err)
	ids := map[string]int{}
	for _, key := range []string{"digest 1", "digest 1", "digest 2"} {
		_, err := i.CarryUnder(t.Context(), key, stuck)
		require.ErrorContains(t, err, "answered 503")
		assert.False(t, shell.IsPermanent(err))
		var body struct{ ID string }
		require.NoError(t, json.Unmarshal(<-bodies, &body))
		ids[body.ID]++
	}
	assert.Len(t, ids, 2, "what says the same another day is another message")
}

func TestAWebhookTellsProgramsWhichEventItIs(t *testing.T) {
	url, _, bodies := server(t, func(http.ResponseWriter, *http.Request) {})
	ev := event("action", "failed", `{"label":"nightly"}`)
	m, err := (*notify.Templates)(nil).Message(ev, notify.NoticeOf(ev, notify.Hint{Does: "show it", Line: "orreryd actions show 1"}))
	require.NoError(t, err)
	require.NoError(t, webhook(t, notify.WebhookOptions{URL: url}).Tell(t.Context(), m))
	var body struct {
		ID       string
		Title    string
		Event    effects.Event
		Commands []notify.Hint
	}
	require.NoError(t, json.Unmarshal(<-bodies, &body))
	assert.Equal(t, m.ID, body.ID)
	assert.Equal(t, `Action "nightly" failed`, body.Title)
	assert.Equal(t, ev, body.Event)
	assert.Equal(t, []notify.Hint{{Does: "show it", Line: "orreryd actions show 1"}}, body.Commands)
}

func TestAWebhookIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	url, _, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	wait, asked := notify.RetryDelay(webhook(t, notify.WebhookOptions{URL: url}).Notify(t.Context(), stuck))
	assert.True(t, asked)
	assert.Equal(t, 7*time.Second, wait)
}
