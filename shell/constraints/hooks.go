package constraints

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

const defaultHookTimeout = 30 * time.Second

// hook is preRunHook and postRunHook: a tool or a web server may stop the run.
type hook struct {
	Lists
	path    string
	tool    string
	input   json.RawMessage
	url     *url.URL
	headers map[string]string
	timeout time.Duration
}

func newHook(s Spec) (Constraint, error) {
	c := struct {
		Tool    string            `json:"tool"`
		Input   json.RawMessage   `json:"input"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Timeout span              `json:"timeout"`
	}{Timeout: span(defaultHookTimeout)}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	h := &hook{Lists: s.Lists, path: s.Path, tool: c.Tool, input: c.Input, headers: c.Headers, timeout: time.Duration(c.Timeout)}
	at := s.Path + ".config"
	var err error
	switch {
	case h.timeout > maxTimeout:
		return nil, s.Errorf("timeout", "%v is more than %v", h.timeout, maxTimeout)
	case c.Tool == "" && c.URL == "":
		return nil, s.Errorf("tool", "is missing: give the name of a tool, or a url instead")
	case c.Tool != "" && (c.URL != "" || len(c.Headers) > 0):
		return nil, s.Errorf("tool", "stands beside url or headers: use one of the two forms")
	case c.URL != "" && !isNull(c.Input):
		return nil, s.Errorf("input", "is for a tool: a web server is told of the run")
	case c.Tool != "":
		s.parsed.reach.Tools = append(s.parsed.reach.Tools, c.Tool)
		s.parsed.need(need{what: needTool, name: c.Tool, path: at + ".tool", input: c.Input})
		return h, checkTexts(at+".input", c.Input)
	}
	if h.url, err = parseURL(at+".url", c.URL); err != nil {
		return nil, err
	}
	s.parsed.reach.Webhooks = true
	return h, checkHeaders(at+".headers", c.Headers)
}

// Check implements [Constraint]. Without an answer in time there is an error, no verdict.
func (h *hook) Check(ctx context.Context, in *Input) (Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, fmt.Errorf("no verdict within %v", h.timeout))
	defer cancel()
	key := fmt.Sprintf("%s/%d/%s/%s", in.Run.ID, in.Run.RetryAttempt, in.Phase, in.name)
	if h.url != nil {
		return h.ask(ctx, in, key)
	}
	return h.run(ctx, in, key)
}

// run has the tool say it: by an error, or its result.
func (h *hook) run(ctx context.Context, in *Input, key string) (Outcome, error) {
	tool := in.checker.o.Tools[h.tool]
	if tool == nil {
		return Outcome{}, fmt.Errorf("there is no tool %q", clip.Text(h.tool, maxQuoted))
	}
	input, err := expand(h.input, variables(in, in.name, ""))
	if err != nil {
		return Outcome{}, fmt.Errorf("input: %w", err)
	}
	release, err := in.checker.slots[h.tool].take(ctx, shell.Scope{Namespace: in.Job.Namespace, Tenant: in.Job.Tenant})
	if err != nil {
		return Outcome{}, fmt.Errorf("tool %q: %w", clip.Text(h.tool, maxQuoted), err)
	}
	defer release()
	result, err := tool.Run(ctx, shell.Call{
		ActionID: idOf(key), Attempt: in.Run.RetryAttempt + 1, Namespace: in.Job.Namespace, Tenant: in.Job.Tenant,
		Label: in.name, Tool: h.tool, Input: input, DueAt: in.Run.ScheduledAt, IdempotencyKey: key, Labels: in.Job.Labels,
		Metadata: map[string]string{"run_id": in.Run.RunID, "job_id": in.Run.JobID, "phase": string(in.Phase), "constraint": in.name},
	})
	switch {
	case ctx.Err() != nil:
		return Outcome{}, context.Cause(ctx)
	case err != nil:
		return Outcome{Message: err.Error()}, nil
	}
	return verdict(result)
}

// ask has a web server say it.
func (h *hook) ask(ctx context.Context, in *Input, key string) (Outcome, error) {
	facts := factsOf(in.Run, in.Phase)
	body, err := plainjson.Marshal(struct {
		Type       string   `json:"type"`
		Constraint string   `json:"constraint"`
		Run        runFacts `json:"run"`
	}{"hook." + hookWhen(in.Phase), in.name, facts})
	if err != nil {
		return Outcome{}, err
	}
	answer, err := newPost(in.checker, h.url, h.headers, key, body, h.timeout).send(ctx, defaultRetries)
	if err != nil {
		return Outcome{}, err
	}
	return verdict(answer)
}

func hookWhen(phase effects.CheckPhase) string {
	if phase == effects.CheckPost {
		return "post_run"
	}
	return "pre_run"
}

// verdict reads {"proceed": bool, "message": "…"}: as the answer itself, or within
// what the tools http and command answer with. What has no proceed lets the run go
// on; other fields are passed over, since a tool has its own.
func verdict(result json.RawMessage) (Outcome, error) {
	v := fieldsOf(result)
	for _, in := range []string{"body", "stdout"} {
		if inner := v[in]; v["proceed"] == nil && inner != nil {
			var text string
			if json.Unmarshal(inner, &text) == nil {
				inner = json.RawMessage(text)
			}
			if o := fieldsOf(inner); o["proceed"] != nil {
				v = o
			}
		}
	}
	if v["proceed"] == nil {
		return Outcome{Met: true}, nil
	}
	var proceed bool
	if err := json.Unmarshal(v["proceed"], &proceed); err != nil || isNull(v["proceed"]) {
		return Outcome{}, fmt.Errorf("its answer has proceed %s: want true or false", clip.Text(string(v["proceed"]), maxQuoted))
	}
	var message string
	if json.Unmarshal(v["message"], &message) != nil {
		message = ""
	}
	return Outcome{Met: proceed, Message: strings.TrimSpace(message)}, nil
}

// fieldsOf gives the fields of an object; nil of anything else.
func fieldsOf(raw json.RawMessage) (o map[string]json.RawMessage) {
	if strictjson.Decode(raw, &o) != nil {
		return nil
	}
	return o
}
