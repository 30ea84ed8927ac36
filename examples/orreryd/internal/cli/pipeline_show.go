package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func pipelineView(p core.Pipeline) view {
	status := string(p.Phase.Type)
	if p.Phase.Type == core.PhaseFailure && p.Phase.Recoverable {
		status += ", can be retried"
	}
	ids := make([]string, 0, len(p.DependsOn))
	for _, id := range p.DependsOn {
		ids = append(ids, id.String())
	}
	return view{
		fields: [][2]string{
			{"id", p.ID.String()}, {"pipeline", p.Definition.Name}, {"label", p.Label}, {"runbook", p.Runbook},
			{"scope", p.Namespace + "/" + p.Tenant}, {"status", status}, {"reason", cmp.Or(p.Phase.Error, p.Phase.Reason)},
			{"waits for", waitText(p)}, {"depends on", strings.Join(ids, ", ")},
			{"created", timeText(p.CreatedAt)}, {"started", timeText(p.StartedAt)}, {"finished", timeText(p.FinishedAt)},
			{"ends by", timeText(p.EndsBy)}, {"holds", holdsText(p.Holds)},
		},
		tables: []table{
			{[]string{"PHASE:32", "DOES", "STATE", "ATTEMPTS", "STARTED (UTC)", "TOOK", "NOTE:300"}, phaseRows(p)},
			{[]string{"CHECKPOINT (UTC)", "PHASE:32", "MESSAGE:80"}, rowsOf(p.Checkpoints, func(c core.Checkpoint) []string {
				return []string{shortTime(c.Timestamp), text.OrDash(c.Phase), text.OrDash(c.Message)}
			})},
			{[]string{"WORKTREE:80", "REPOSITORY:80", "HOME:64"}, rowsOf(p.Worktrees, func(w core.Worktree) []string { return []string{w.Path, w.Repo, w.Home} })},
		},
	}
}

// phaseRows shows each phase of the definition: how it went last, what it does
// now, or that it has not come yet.
func phaseRows(p core.Pipeline) [][]string {
	last := make(map[string]core.PhaseRecord, len(p.History))
	for _, h := range p.History {
		last[h.Name] = h
	}
	rows := make([][]string, 0, len(p.Definition.Phases))
	for _, d := range p.Definition.Phases {
		row := []string{d.Name, d.Kind(), "-", "-", "-", "-", "-"}
		h, gone := last[d.Name]
		switch {
		case p.Phase.Type == core.PhaseRunning && p.Phase.Name == d.Name:
			row[2], row[3], row[4] = "running", number(p.Attempt), shortTime(p.PhaseStartedAt)
			row[6] = text.OrDash(noteOf(p, d))
		case gone:
			row[2], row[3], row[4], row[5] = string(h.Outcome), number(h.Attempts), shortTime(h.StartedAt), took(h.StartedAt, h.EndedAt)
			row[6] = text.OrDash(h.Reason)
		}
		rows = append(rows, row)
	}
	return rows
}

// noteOf says what the running phase wants of people, or why its last attempt
// failed.
func noteOf(p core.Pipeline, d core.PhaseDef) string {
	switch {
	case p.Waiting.Error != "":
		return "last attempt: " + p.Waiting.Error
	case p.Waiting.For == core.WaitApproval || p.Waiting.For == core.WaitManual:
		return p.Waiting.Name
	case d.Signal != nil:
		return "signal " + p.Waiting.Name
	}
	return ""
}

// waitText says what a pipeline waits for.
func waitText(p core.Pipeline) string {
	switch p.Phase.Type {
	case core.PhaseInit:
		if p.Hold {
			return "its start: orreryd pipeline begin " + p.ID.String()
		}
		return ""
	case core.PhaseRunning:
	case core.PhaseBlocked, core.PhaseDone, core.PhaseFailure, core.PhaseCancelled:
		return "" // a blocked one says it as its reason
	}
	w := p.Waiting
	parts := []string{waitedFor(p)}
	if w.Name != "" {
		parts = append(parts, strconv.Quote(text.Clip(w.Name, 60)))
	}
	for i, c := range w.Children {
		if i == 5 {
			parts = append(parts, fmt.Sprintf("and %d more", len(w.Children)-i))
			break
		}
		if !c.Ended && c.Ref.Kind != core.KindQueue { // an item is named above
			parts = append(parts, string(c.Ref.Kind)+" "+c.Ref.ID.String())
		}
	}
	if !w.Until.IsZero() {
		parts = append(parts, "until "+w.Until.String())
	}
	if !w.Deadline.IsZero() {
		parts = append(parts, "at most until "+w.Deadline.String())
	}
	return strings.Join(parts, " ")
}

// waitedFor says what kind of thing a running phase waits for.
func waitedFor(p core.Pipeline) string {
	w := p.Waiting
	i := slices.IndexFunc(p.Definition.Phases, func(d core.PhaseDef) bool { return d.Name == p.Phase.Name })
	if i < 0 {
		return string(w.For)
	}
	switch d := p.Definition.Phases[i]; {
	case w.For == core.WaitEffect:
		return "the end of its " + d.Kind()
	case w.For == core.WaitChild && d.Push != nil:
		return fmt.Sprintf("an item of queue %q", text.Clip(d.Push.Queue, 60))
	}
	return string(w.For)
}

func holdsText(list []core.Hold) string {
	var out []string
	for _, h := range list {
		kind, state := "lock ", ""
		if h.Semaphore {
			kind = "semaphore "
		}
		if !h.Granted {
			state = " (waits)"
		}
		out = append(out, kind+h.Name+state)
	}
	return strings.Join(out, ", ")
}

// watchEvery lies between two looks at a pipeline that is watched.
const watchEvery = 500 * time.Millisecond

func (a *app) pipelineWatch(m machine[core.Pipeline]) *cobra.Command {
	return m.sending(verb{
		use:   "watch",
		short: "Print how a pipeline goes until it ends, and end with 1 if it failed or was cancelled",
		long: `Print how a pipeline goes, from its first phase until it ends: a line for each phase
that begins to run or that has ended, what it waits for, and what became of it. It
looks twice a second: of a phase that is quicker only the end is seen. A daemon that is
restarted meanwhile is waited for, up to a minute. With --json each line is the
pipeline as it is then.`,
		example: "  orreryd pipeline watch 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
	}, func(ctx context.Context, c *client, _ request, args []string) error {
		seen := map[string]bool{}
		for known := false; ; known = true {
			var p core.Pipeline
			raw, err := m.look(ctx, c, args[0], nil, &p, known)
			if err != nil {
				return err
			}
			if err := a.printNews(raw, p, seen); err != nil {
				return err
			}
			if p.Phase.Type.Ended() {
				return pipelineError(p)
			}
			if err := pause(ctx, watchEvery); err != nil {
				return fmt.Errorf("interrupted while watching pipeline %s: %w", p.ID, err)
			}
		}
	})
}

// printNews prints what was not seen before.
func (a *app) printNews(raw json.RawMessage, p core.Pipeline, seen map[string]bool) error {
	news := false
	for _, line := range watchLines(p) {
		if seen[line] {
			continue
		}
		seen[line], news = true, true
		if a.json {
			continue
		}
		if _, err := fmt.Fprintln(a.out, line); err != nil {
			return err
		}
	}
	if !a.json || !news {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err := fmt.Fprintln(a.out, b.String())
	return err
}

// watchLines tells how a pipeline has gone so far. A line stays the same for as
// long as what it says does.
func watchLines(p core.Pipeline) []string {
	var lines []string
	line := func(at core.Time, phase, state, note string) {
		if note != "" {
			note = "  " + text.Clip(note, 200)
		}
		lines = append(lines, fmt.Sprintf("%s  %-16s  %s%s", shortTime(at), text.Clip(phase, 32), state, note))
	}
	for _, h := range p.History {
		state := string(h.Outcome)
		if h.Outcome != core.HistorySkipped {
			state += " after " + took(h.StartedAt, h.EndedAt)
		}
		line(h.EndedAt, h.Name, state, h.Reason)
	}
	switch p.Phase.Type {
	case core.PhaseRunning:
		state := "running"
		if p.Attempt > 1 {
			state += ", attempt " + number(p.Attempt)
		}
		line(p.PhaseStartedAt, p.Phase.Name, state, waitText(p))
	case core.PhaseInit, core.PhaseBlocked:
		line(p.CreatedAt, "-", string(p.Phase.Type), cmp.Or(p.Phase.Reason, waitText(p)))
	case core.PhaseDone, core.PhaseFailure, core.PhaseCancelled:
		line(p.FinishedAt, "-", string(p.Phase.Type), cmp.Or(p.Phase.Error, p.Phase.Reason))
	}
	return lines
}
