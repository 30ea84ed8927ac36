package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell"
)

// demo shows a newcomer a schedule that fires.
type demo struct {
	engine  *shell.Engine
	out     io.Writer
	command string // how this program is called in what is to be typed next
	tokens  bool   // whether the API asks for one
	sub     *shell.Subscription
	wg      sync.WaitGroup
}

// newDemo subscribes at once, so that it misses no firing.
func newDemo(e *shell.Engine, out io.Writer, command string, tokens bool) *demo {
	return &demo{engine: e, out: out, command: command, tokens: tokens, sub: e.Subscribe(func(ev effects.Event) bool {
		return ev.Kind.Category == "action"
	}, 1024)}
}

// close waits until everything was printed that was announced.
func (d *demo) close() {
	d.sub.Close()
	d.wg.Wait()
}

const demoCron = "*/5 * * * * *"

// start adds the schedule if the database has none, prints what to type next, and prints
// each firing from then on.
func (d *demo) start(ctx context.Context, url, page, db string) {
	note, err := d.schedule(ctx)
	if err != nil {
		note = "The demonstration's schedule could not be made: " + text.CleanLines(err.Error())
	}
	server := ""
	if url != config.DefaultServer {
		server = " --server " + url
	}
	if page != "" {
		page = ", page " + page
	}
	needs := ""
	if d.tokens {
		needs = "\nBoth need a token of the configuration: export ORRERY_TOKEN=…, or add --token …"
	}
	text.Sayf(d.out, `Orrery is running: database %s, API %s%s
%s
In another terminal, try next:
  %[5]s recurring list%[6]s
  %[5]s actions add --wait%[6]s -- echo hello%[7]s
Ctrl-C stops it cleanly. After a kill -9, start it again: nothing is lost or fired twice.

`, text.Clean(db), url, page, note, d.command, server, needs)
	d.wg.Go(func() {
		for ev := range d.sub.C {
			d.print(context.WithoutCancel(ctx), ev.Source.ID)
		}
	})
}

// schedule makes the recurring action, unless there is any.
func (d *demo) schedule(ctx context.Context) (note string, err error) {
	list, _, err := d.engine.Recurring().List(ctx, shell.RecurringFilter{}, shell.Page{Limit: 1})
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		r := list[0]
		if !r.Enabled {
			return fmt.Sprintf("The database has schedules already; the newest, %s, is not enabled (%s).", r.ID, text.Clean(r.DisabledReason)), nil
		}
		return fmt.Sprintf("The database has a schedule already: %q runs %s, next at %s.",
			text.Clean(r.CronExpr), text.Clean(commandLine(r.ActionTemplate.Payload)), r.NextExecutionAt), nil
	}
	argv := []string{"date", "-u"}
	if runtime.GOOS == "windows" {
		argv = []string{"cmd", "/c", "date", "/t"}
	}
	payload, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		return "", err
	}
	_, err = d.engine.Recurring().Create(shell.WithActor(ctx, "demo"), core.RecurringSpec{
		Namespace: config.DefaultScope, Tenant: config.DefaultScope,
		CronExpr: demoCron, Timezone: "UTC", Enabled: true,
		Description: "demo: the time, every 5 seconds",
		ActionTemplate: core.RecurringActionTemplate{
			Provider: config.TypeCommand, ActionType: "demo", Payload: payload,
		},
		Labels: map[string]string{"demo": "true"},
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("A new schedule, %q, runs `%s` every 5 seconds.", demoCron, strings.Join(argv, " ")), nil
}

// print says how an action ended, and what its command printed.
func (d *demo) print(ctx context.Context, id uuid.UUID) {
	a, err := d.engine.Actions().Get(ctx, id)
	if err != nil {
		if !errors.Is(err, shell.ErrNotFound) { // its retention may be over
			text.Sayf(d.out, "orreryd: action %s cannot be shown: %s\n", id, text.CleanLines(err.Error()))
		}
		return
	}
	st, due, started, finished := a.Status, a.Trigger.KeyTime(), a.StartedAt, a.FinishedAt
	if r := a.LastRun; r != nil && !st.Type.Terminal() { // it waits for its next time
		st, due, started, finished = r.Status, r.DueAt, r.StartedAt, r.FinishedAt
	}
	if started.IsZero() { // cancelled before it ran
		text.Sayf(d.out, "%s  %s  %s\n", a.UpdatedAt.Std().Format(time.TimeOnly), cmp.Or(text.Clip(a.Label, 40), id.String()), text.Clip(string(st.Type)+": "+st.Reason, 200))
		return
	}
	outcome := string(st.Type)
	switch {
	case st.Reason != "":
		outcome += ": " + text.Clip(st.Reason, 200)
	case st.Type == core.StatusCompleted:
		outcome += ": " + text.Clip(Summary(st.Result), 200)
	}
	text.Sayf(d.out, "%s  %s  %s  (%s late, took %s)\n", started.Std().Format(time.TimeOnly),
		cmp.Or(text.Clip(a.Label, 40), id.String()), outcome, max(started.Sub(due), 0), finished.Sub(started))
}

// Summary shows a tool's result in one line: what a command printed, or the
// JSON.
func Summary(result json.RawMessage) string {
	var r struct {
		Stdout *string `json:"stdout"`
	}
	if json.Unmarshal(result, &r) == nil && r.Stdout != nil {
		return strings.TrimSpace(*r.Stdout)
	}
	return string(result)
}

// commandLine shows a tool's input in short: a command's argv, or the JSON.
func commandLine(input json.RawMessage) string {
	var in struct {
		Argv []string `json:"argv"`
	}
	if json.Unmarshal(input, &in) == nil && len(in.Argv) > 0 {
		return strings.Join(in.Argv, " ")
	}
	return string(input)
}
