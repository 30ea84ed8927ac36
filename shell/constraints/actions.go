package constraints

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Types of actions that leave the machine.
const (
	actionWebhook = "webhook"
	actionNotify  = "notify"
	actionLog     = "log"
)

var builtinActions = []string{
	core.ActionSkip, core.ActionFailRun, core.ActionRetryRun, core.ActionSkipNext, core.ActionKickOffJob, core.ActionCancelRun,
	core.ActionKillLatest, core.ActionKillAll, core.ActionEnqueue, core.ActionStartPipeline, actionWebhook, actionNotify, actionLog,
}

func builtinAction(typ string) bool { return slices.Contains(builtinActions, typ) }

// decides reports whether an action says what becomes of the run.
func decides(typ string) bool {
	return typ == core.ActionSkip || typ == core.ActionFailRun || typ == core.ActionRetryRun
}

// textFields are the fields of each action whose texts may have references.
var textFields = map[string][]string{
	core.ActionSkip: {"reason"}, core.ActionFailRun: {"reason"}, core.ActionRetryRun: {"reason"}, core.ActionSkipNext: {"reason"},
	core.ActionKillLatest: {"reason"}, core.ActionKillAll: {"reason"}, core.ActionCancelRun: {"reason", "run_id"},
	core.ActionEnqueue: {"data", "key", "dedup_key"}, core.ActionStartPipeline: {"context", "label"},
	actionWebhook: {"data"}, actionNotify: {"title", "message"}, actionLog: {"message"},
}

// The configurations of the machine's own actions, as it takes them.
type (
	kickOffConfig struct {
		Job string `json:"job"`
	}
	cancelConfig struct {
		RunID  string `json:"run_id"`
		Reason string `json:"reason"`
	}
	enqueueConfig struct {
		Queue    string          `json:"queue"`
		Data     json.RawMessage `json:"data"`
		Priority int32           `json:"priority"`
		Key      string          `json:"key"`
		DedupKey string          `json:"dedup_key"`
	}
	pipelineConfig struct {
		Definition core.PipelineDef           `json:"definition"`
		Context    map[string]json.RawMessage `json:"context"`
		Label      string                     `json:"label"`
	}
)

// builtin checks the configuration of a built-in action, and notes what it reaches.
func (r *reading) builtin(at, typ string, raw json.RawMessage) error {
	if err := r.builtinConfig(at, typ, raw); err != nil {
		return err
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	for _, f := range textFields[typ] {
		if err := checkTexts(at+"."+f, o[f]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) builtinConfig(at, typ string, raw json.RawMessage) error {
	switch typ {
	case core.ActionKickOffJob:
		var c kickOffConfig
		err := decodeNaming(at, raw, &c, "job", &c.Job, "the id of the job to trigger")
		r.reach.Jobs = append(r.reach.Jobs, c.Job)
		return err
	case core.ActionCancelRun:
		var c cancelConfig
		err := decodeNaming(at, raw, &c, "run_id", &c.RunID, "the id of the run to cancel, \"job:time\"")
		id, _, _ := strings.Cut(c.RunID, ":")
		switch {
		case c.RunID == "${run_id}":
			id = r.job.ID
		case strings.Contains(id, "${") && err == nil:
			return fmt.Errorf("%s.run_id: %q: the job must be named, as in \"other-job:${scheduled_at}\"", at, clip.Text(c.RunID, maxQuoted))
		}
		r.reach.Cancels = append(r.reach.Cancels, id)
		return err
	case core.ActionEnqueue:
		var c enqueueConfig
		err := decodeNaming(at, raw, &c, "queue", &c.Queue, "the name of the queue")
		r.reach.Queues = append(r.reach.Queues, c.Queue)
		return err
	case core.ActionStartPipeline:
		return r.pipeline(at, raw)
	case actionWebhook:
		c, err := newWebhook(at, raw)
		r.reach.Webhooks = true
		if c.Secret != "" {
			r.need(need{what: needSecret, name: c.Secret, path: at + ".secret"})
		}
		return err
	case actionNotify:
		r.reach.Notify = true
		r.need(need{what: needNotify, path: at})
		return strictjson.DecodeAt(at, raw, &notifyConfig{})
	case actionLog:
		_, err := newLog(at, raw)
		return err
	}
	var c struct {
		Reason string `json:"reason"`
	}
	return strictjson.DecodeAt(at, raw, &c)
}

func (r *reading) pipeline(at string, raw json.RawMessage) error {
	var c pipelineConfig
	if err := strictjson.DecodeAt(at, raw, &c); err != nil {
		return err
	}
	if err := c.Definition.CheckGiven(); err != nil { // before what is large is compiled
		r.refused = errors.Join(r.refused, fmt.Errorf("%s.definition: %w", at, err))
	} else if err := c.Definition.ValidateWith(slices.Collect(maps.Keys(c.Context))...); err != nil {
		return fmt.Errorf("%s.definition: %w", at, err)
	}
	r.reach.Pipelines = append(r.reach.Pipelines, c.Definition)
	return nil
}

// decodeNaming decodes a configuration whose field v, a part of dst, is required.
func decodeNaming(at string, raw json.RawMessage, dst any, field string, v *string, what string) error {
	err := strictjson.DecodeAt(at, raw, dst)
	if err == nil && *v == "" {
		return fmt.Errorf("%s.%s: is missing: give %s", at, field, what)
	}
	return err
}

func permanent(format string, args ...any) error { return shell.Permanent(fmt.Errorf(format, args...)) }

// Take implements [jobs.ActionExecutor].
func (c *Checker) Take(ctx context.Context, job *jobs.Job, runID string, a jobs.Action) error {
	source, err := c.engine()
	if err != nil {
		return err
	}
	run, err := source.JobRun(ctx, core.RunRef(job.Namespace, job.Tenant, runID).ID)
	if err != nil {
		return fmt.Errorf("action %s: read run %s: %w", clip.Text(a.Type, maxQuoted), clip.Text(runID, maxQuoted), err)
	}
	action, err := c.action(a)
	if err != nil {
		return shell.Permanent(err)
	}
	in := &ActionInput{Job: job, Run: run, Constraint: a.Constraint, Phase: effects.CheckPre, Key: a.Key, Logger: c.logger(run)}
	if run.State == core.OrchestratorTerminating {
		in.Phase = effects.CheckPost
	}
	for _, check := range slices.Backward(run.Checks) { // the latest
		if check.Name == a.Constraint {
			in.Met, in.Message = check.Met, check.Message
			break
		}
	}
	return action.Take(ctx, in)
}

// action makes the action that was asked for.
func (c *Checker) action(a jobs.Action) (Action, error) {
	raw := object(a.Config)
	switch a.Type {
	case actionWebhook:
		w, err := newWebhook(a.Type, raw)
		w.checker = c
		return w, err
	case actionNotify:
		n := &notifyConfig{checker: c}
		return n, strictjson.DecodeAt(a.Type, raw, n)
	case actionLog:
		return newLog(a.Type, raw)
	}
	if make, ok := c.o.Actions[a.Type]; ok {
		return make(a.Type, raw)
	}
	return nil, fmt.Errorf("there is no action %q", clip.Text(a.Type, maxQuoted))
}

// logger gives the log with the fields of a run (004 Structured Logging Fields).
func (c *Checker) logger(run core.Orchestrator) *slog.Logger {
	return c.o.Logger.With("run_id", run.RunID, "job_id", run.JobID, "scheduled_at", run.ScheduledAt.String(), "state", string(run.State), "attempt", run.RetryAttempt)
}

// notifyConfig is the action notify.
type notifyConfig struct {
	Title   string `json:"title"`
	Message string `json:"message"`
	Sound   bool   `json:"sound"`
	Channel string `json:"channel"`

	checker *Checker
}

// Take implements [Action].
func (n *notifyConfig) Take(ctx context.Context, in *ActionInput) error {
	if n.checker.o.Notify == nil {
		return permanent("notify: no notifications are configured here")
	}
	return n.checker.o.Notify(ctx, in.Key, effects.Notify{
		Title:   cmp.Or(n.Title, fmt.Sprintf("Job %s: %s is %s", in.Run.JobID, in.Constraint, metText(in.Met))),
		Message: cmp.Or(n.Message, strings.TrimSuffix(fmt.Sprintf("Run %s: %s", in.Run.RunID, in.Message), ": ")),
		Sound:   n.Sound, Channel: n.Channel,
	})
}

func metText(met bool) string {
	if met {
		return "met"
	}
	return "violated"
}

// logConfig is the action log.
type logConfig struct {
	Level   string `json:"level"`
	Message string `json:"message"`

	level slog.Level
}

func newLog(at string, raw json.RawMessage) (*logConfig, error) {
	var l logConfig
	if err := strictjson.DecodeAt(at, raw, &l); err != nil {
		return nil, err
	}
	levels := map[string]slog.Level{"": slog.LevelInfo, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[l.Level]
	if !ok {
		return nil, fmt.Errorf("%s.level: %q is unknown: use debug, info, warn or error", at, clip.Text(l.Level, maxQuoted))
	}
	l.level = level
	return &l, nil
}

// Take implements [Action].
func (l *logConfig) Take(ctx context.Context, in *ActionInput) error {
	in.Logger.Log(ctx, l.level, "constraint", "constraint", in.Constraint, "met", in.Met, "message", cmp.Or(l.Message, in.Message))
	return nil
}

// idOf names something for a tool that wants an id, the same for the same key.
func idOf(key string) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte(key)) }
