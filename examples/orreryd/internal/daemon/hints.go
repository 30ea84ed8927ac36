package daemon

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// hints are the commands that the log and notifications give their reader to type.
type hints struct {
	program string        // how this program is called
	server  func() string // where the API answers
}

// show gives the command that shows a machine; "" if no command does.
func (h hints) show(s core.State) string {
	switch s := s.(type) {
	case core.Action:
		return h.byID("actions show", s)
	case core.RecurringAction:
		return h.scoped("recurring show", s.ID.String(), s.Namespace, s.Tenant)
	case core.Pipeline:
		return h.byID("pipeline show", s)
	case core.Task:
		return h.byID("task show", s)
	case core.Strategy:
		return h.byID("strategy show", s)
	case core.Queue:
		return h.scoped("queue show", s.Name, s.Namespace, s.Tenant)
	case core.Lock:
		return h.scoped("lock show", s.Name, s.Namespace, s.Tenant)
	case core.Semaphore:
		return h.scoped("semaphore show", s.Name, s.Namespace, s.Tenant)
	case core.Backfill:
		return h.byID("backfill show", s)
	case core.Job:
		return h.scoped("job show", s.ID, s.Namespace, s.Tenant)
	case core.Digest:
		return h.line("alerts list", nil, "--status="+core.AlertOpen)
	case core.Orchestrator:
		return h.scoped("run show", s.RunID, s.Namespace, s.Tenant)
	}
	return ""
}

// approve gives the command that approves what a pipeline waits for. It names the phase: typed once more, or late, it
// approves no other one.
func (h hints) approve(p core.Pipeline) string { return h.answer("pipeline approve", p) }

// reject gives the command that refuses the same.
func (h hints) reject(p core.Pipeline) string { return h.answer("pipeline reject", p) }

// answer is a command that answers the phase at which a pipeline stands.
func (h hints) answer(verb string, p core.Pipeline) string {
	return h.line(verb, []string{p.ID.String(), p.Phase.Name})
}

// byID is a command about a machine that its id names.
func (h hints) byID(verb string, s core.State) string {
	return h.line(verb, []string{s.Ref().ID.String()})
}

// scoped is a command about a machine that has its name within a tenant.
func (h hints) scoped(verb, name, namespace, tenant string) string {
	var flags []string
	if namespace != config.DefaultScope {
		flags = append(flags, "--namespace="+namespace)
	}
	if tenant != config.DefaultScope {
		flags = append(flags, "--tenant="+tenant)
	}
	return h.line(verb, []string{name}, flags...)
}

// line is a command line, as a shell reads it.
func (h hints) line(verb string, names []string, flags ...string) string {
	if server := h.server(); server != config.DefaultServer {
		flags = append(flags, "--server="+server)
	}
	return text.CommandLine(h.program+" "+verb, names, flags...)
}
