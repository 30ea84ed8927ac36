//go:build unix

package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// httpTarget is the daemon as its clients see it.
type httpTarget struct {
	at      *link
	client  *http.Client
	effects string // the file of the side effects
	book    notebook
	// full: the disk may be full, so that 503 is a right answer; how often it
	// was given with that reason.
	full          atomic.Bool
	refusedAsFull atomic.Int64
}

func newHTTPTarget(at *link, effects string, book notebook) *httpTarget {
	return &httpTarget{
		at: at, effects: effects, book: book,
		client: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
	}
}

func (t *httpTarget) close() { t.client.CloseIdleConnections() }

// scope is what the requests about recurring actions name.
const scope = "?namespace=" + scopeName + "&tenant=" + scopeName

// do sends a request and decodes its answer. An answer that was not read whole
// is none.
func (t *httpTarget) do(ctx context.Context, method, path string, body []byte, into any) error {
	base, err := t.at.wait(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode < 300 {
		if into == nil {
			return nil
		}
		return json.Unmarshal(raw, into)
	}
	return t.fault(method, path, resp.StatusCode, raw)
}

// fault tells a refusal from an unknown outcome, and complains of answers that
// should never be.
func (t *httpTarget) fault(method, path string, status int, raw []byte) error {
	var e struct {
		Error string `json:"error"`
	}
	err := json.Unmarshal(raw, &e)
	switch {
	case err != nil || e.Error == "":
		t.book.write(note{Plaint: fmt.Sprintf("%s %s: %d with %q, which is no error body", method, path, status, raw)})
	case status == http.StatusConflict && strings.HasPrefix(e.Error, "id:"):
		return fmt.Errorf("%w: %s", errExists, e.Error)
	case status == http.StatusConflict || status == http.StatusNotFound:
		return fmt.Errorf("%w: %s", errRefused, e.Error)
	case status == http.StatusServiceUnavailable && strings.Contains(e.Error, "disk is full"):
		t.refusedAsFull.Add(1)
		if !t.full.Load() {
			t.book.write(note{Plaint: "the disk is said to be full: " + e.Error})
		}
	case status == http.StatusServiceUnavailable:
	default:
		t.book.write(note{Plaint: fmt.Sprintf("%s %s: %d %s", method, path, status, e.Error)})
	}
	return errors.New(strconv.Itoa(status) + ": " + e.Error)
}

func (t *httpTarget) post(ctx context.Context, path string, body, into any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return t.do(ctx, http.MethodPost, path, raw, into)
}

// input is the tool's input for that work.
func (t *httpTarget) input(w work) map[string]any {
	seconds := func(ms int) string { return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) }
	code := "0"
	if w.Fails {
		code = "7"
	}
	return map[string]any{"argv": []string{"/bin/sh", "-c", toolScript, "line", t.effects, seconds(w.BeforeMS), seconds(w.AfterMS), code}}
}

func (t *httpTarget) createAction(ctx context.Context, o order) error {
	var a core.Action
	if err := t.post(ctx, "/v1/actions", t.body(o), &a); err != nil {
		return err
	}
	if a.ID != o.ID {
		t.book.write(note{Plaint: fmt.Sprintf("action %s was asked for, %s was answered", o.ID, a.ID)})
	}
	return nil
}

func (t *httpTarget) createAll(ctx context.Context, list []order) error {
	bodies := make([]map[string]any, len(list))
	for i, o := range list {
		bodies[i] = t.body(o)
	}
	var answer struct {
		Results []struct{ Action core.Action }
	}
	if err := t.post(ctx, "/v1/actions/batch", map[string]any{"actions": bodies}, &answer); err != nil {
		return err
	}
	for i, o := range list {
		if len(answer.Results) != len(list) || answer.Results[i].Action.ID != o.ID {
			t.book.write(note{Plaint: fmt.Sprintf("action %s was asked for with %d, and is not answered: %v", o.ID, len(list), answer)})
		}
	}
	return nil
}

// body is what asks for an action.
func (t *httpTarget) body(o order) map[string]any {
	body := map[string]any{
		"id": o.ID, "namespace": scopeName, "tenant": scopeName, "label": "order", "tool_name": toolName, "tool_input": t.input(o.Work),
		"policy": policyOf(o),
	}
	if o.AtMS != 0 {
		body["trigger"] = map[string]any{"type": "scheduled", "next_tick_at": core.Time(o.AtMS)}
	}
	if o.Every {
		body["recurrence"] = 1
	}
	if o.Dedup != "" {
		body["dedup_key"] = o.Dedup
	}
	return body
}

func (t *httpTarget) action(ctx context.Context, id uuid.UUID) (a core.Action, err error) {
	err = t.do(ctx, http.MethodGet, "/v1/actions/"+id.String(), nil, &a)
	return a, err
}

func (t *httpTarget) cancel(ctx context.Context, id uuid.UUID) error {
	return t.post(ctx, "/v1/actions/"+id.String()+"/cancel", map[string]string{"reason": "for a test"}, nil)
}

func (t *httpTarget) trigger(ctx context.Context, id uuid.UUID) error {
	return t.post(ctx, "/v1/actions/"+id.String()+"/trigger", nil, nil)
}

func (t *httpTarget) webhook(ctx context.Context, body string) (uuid.UUID, error) {
	var answer struct {
		WebhookID uuid.UUID `json:"webhook_id"`
		ActionID  uuid.UUID `json:"action_id"`
	}
	err := t.do(ctx, http.MethodPost, "/v1/webhooks/"+routeName, []byte(body), &answer)
	if err == nil && (answer.WebhookID != answer.ActionID || answer.ActionID == uuid.Nil) {
		t.book.write(note{Plaint: fmt.Sprintf("webhook %s was answered with action %s", answer.WebhookID, answer.ActionID)})
	}
	return answer.ActionID, err
}

func (t *httpTarget) createRecurring(ctx context.Context, r recurringOrder) (uuid.UUID, error) {
	body := map[string]any{
		"namespace": scopeName, "tenant": scopeName, "cron_expr": "* * * * * *", "provider": toolName, "action_type": "each",
		"payload": t.input(r.Work), "policy": core.RunPolicy{OnInterrupt: retryOf(r.Retry)},
	}
	if r.Dedup != "" {
		body["dedup_key"] = r.Dedup
	}
	var answer struct {
		ID uuid.UUID `json:"recurring_id"`
	}
	err := t.post(ctx, "/v1/recurring", body, &answer)
	return answer.ID, err
}

func (t *httpTarget) recurring(ctx context.Context, id uuid.UUID) (recState, error) {
	var r core.RecurringAction
	err := t.do(ctx, http.MethodGet, "/v1/recurring/"+id.String()+scope, nil, &r)
	return recStateOf(r, err, errRefused)
}

func (t *httpTarget) changeRecurring(ctx context.Context, id uuid.UUID, what op) error {
	path := "/v1/recurring/" + id.String()
	if what == opDelete {
		return t.do(ctx, http.MethodDelete, path+scope, nil, nil)
	}
	if what == opFire {
		what = opTrigger
	}
	return t.post(ctx, path+"/"+string(what)+scope, nil, nil)
}

// snapshot reads, page by page, what endAll and drained need to know.
func (t *httpTarget) snapshot(ctx context.Context) (*snapshot, error) {
	s := &snapshot{actions: make(map[uuid.UUID]core.Action), recurring: make(map[uuid.UUID]core.RecurringAction)}
	// Twice, since what is interrupted goes from running to pending meanwhile.
	for _, status := range []core.StatusType{core.StatusRunning, core.StatusPending, core.StatusRunning} {
		for token, more := "", true; more; more = token != "" {
			var page struct {
				Actions []core.Action `json:"actions"`
				Next    string        `json:"next_page_token"`
			}
			if err := t.do(ctx, http.MethodGet, "/v1/actions?limit=1000&status="+string(status)+"&page_token="+token, nil, &page); err != nil {
				return nil, err
			}
			for _, a := range page.Actions {
				s.actions[a.ID] = a
			}
			token = page.Next
		}
	}
	for token, more := "", true; more; more = token != "" {
		var page struct {
			List []struct {
				ID      uuid.UUID `json:"id"`
				Enabled bool      `json:"enabled"`
			} `json:"recurring_actions"`
			Next string `json:"next_page_token"`
		}
		query := scope + "&limit=100"
		if token != "" {
			query += "&page_token=" + token
		}
		if err := t.do(ctx, http.MethodGet, "/v1/recurring"+query, nil, &page); err != nil {
			return nil, err
		}
		for _, r := range page.List {
			s.recurring[r.ID] = core.RecurringAction{RecurringSpec: core.RecurringSpec{ID: r.ID, Enabled: r.Enabled}}
		}
		token = page.Next
	}
	return s, nil
}
