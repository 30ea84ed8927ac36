package daemon

import (
	"strings"

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
	case core.Orchestrator:
		return h.scoped("run show", s.RunID, s.Namespace, s.Tenant)
	}
	return ""
}

// byID is a command about a machine that its id names.
func (h hints) byID(verb string, s core.State) string { return h.line(verb, s.Ref().ID.String()) }

// scoped is a command about a machine that has its name within a tenant.
func (h hints) scoped(verb, name, namespace, tenant string) string {
	var flags []string
	if namespace != config.DefaultScope {
		flags = append(flags, "--namespace="+namespace)
	}
	if tenant != config.DefaultScope {
		flags = append(flags, "--tenant="+tenant)
	}
	return h.line(verb, name, flags...)
}

// line is a command line, as a shell reads it. A name that looks like a flag is none: whoever may name a queue must not
// choose the server that a pasted command talks to.
func (h hints) line(verb, name string, flags ...string) string {
	if server := h.server(); server != config.DefaultServer {
		flags = append(flags, "--server="+server)
	}
	words := []string{h.program, verb}
	if strings.HasPrefix(name, "-") {
		flags = append(flags, "--")
	} else {
		words = append(words, text.ShellWord(name))
	}
	for _, f := range flags {
		words = append(words, text.ShellWord(f))
	}
	if strings.HasPrefix(name, "-") {
		words = append(words, text.ShellWord(name))
	}
	return strings.Join(words, " ")
}
