package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

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
