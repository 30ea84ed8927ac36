package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
			{[]string{"PHASE", "DOES", "STATE", "ATTEMPTS", "STARTED (UTC)", "TOOK", "NOTE"}, phaseRows(p)},
			{[]string{"CHECKPOINT (UTC)", "PHASE", "MESSAGE"}, rowsOf(p.Checkpoints, func(c core.Checkpoint) []string {
				return []string{shortTime(c.Timestamp), cell(c.Phase, 32), cell(c.Message, 80)}
			})},
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
		row := []string{text.Clip(d.Name, 32), d.Kind(), "-", "-", "-", "-", "-"}
		h, gone := last[d.Name]
		switch {
		case p.Phase.Type == core.PhaseRunning && p.Phase.Name == d.Name:
			row[2], row[3], row[4] = "running", number(p.Attempt), shortTime(p.PhaseStartedAt)
			row[6] = cell(noteOf(p, d), 300)
		case gone:
			row[2], row[3], row[4], row[5] = string(h.Outcome), number(h.Attempts), shortTime(h.StartedAt), took(h.StartedAt, h.EndedAt)
			row[6] = cell(h.Reason, 300)
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
