package cli

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) lockCommand() *cobra.Command {
	var s scoped
	m := machine[core.Lock]{a: a, path: "/v1/locks", arg: "NAME", args: oneArg("NAME"), scope: &s, view: lockView}
	return a.addClientFlags(group("lock", "Take, show and break locks",
		"A lock is held by one holder at a time, and exists as long as somebody holds it.",
		a.withScope(&s, a.lockList(), m.show("Show a lock and who waits for it"),
			patient(holding(m, "acquire", "Take a lock that is free, or renew one's own", takesTTL)),
			holding(m, "renew", "Let a lease last from now on", takesTTL|takesToken),
			holding(m, "release", "Give a lock back", takesToken), breaking(m, "Take a lock away from its holder", false))...))
}

func (a *app) semaphoreCommand() *cobra.Command {
	var s scoped
	m := machine[core.Semaphore]{a: a, path: "/v1/semaphores", arg: "NAME", args: oneArg("NAME"), scope: &s, view: semaphoreView}
	return a.addClientFlags(group("semaphore", "Declare semaphores, take, show and break their slots",
		"A semaphore has a number of slots, of which each holder holds some.",
		a.withScope(&s, a.semaphoreList(), m.show("Show a semaphore, who holds slots and who waits"),
			semaphoreDeclare(m), patient(holding(m, "acquire", "Take slots that are free, or renew one's own", takesTTL|takesSlots)),
			holding(m, "renew", "Let a lease last from now on", takesTTL|takesToken),
			holding(m, "release", "Give slots back", takesToken), breaking(m, "Take slots away from one holder, or from all", true))...))
}

// Flags that a verb of a holder takes beside --holder.
const (
	takesTTL = 1 << iota
	takesToken
	takesSlots
)

// holding is a command of somebody who holds a lock or slots, or wants to.
func holding[S any](m machine[S], name, short string, takes int) *cobra.Command {
	var holder string
	var token uint64
	var ttl time.Duration
	var slots, total uint32
	cmd := m.verb(verb{use: name, short: short, path: name, body: func([]string) (any, error) {
		if holder == "" {
			return nil, usagef("--holder is missing: say who holds it")
		}
		if ttl < 0 {
			return nil, usagef("--ttl: %s is in the past", ttl)
		}
		b := map[string]any{"holder": holder}
		if takes&takesTTL != 0 {
			b["ttl_ms"] = ttl.Milliseconds()
		}
		if takes&takesToken != 0 {
			b["token"] = token
		}
		if takes&takesSlots != 0 {
			b["slots"], b["total"] = slots, total
		}
		return b, nil
	}})
	f := cmd.Flags()
	f.StringVar(&holder, "holder", "", "`name` of who holds it")
	if takes&takesTTL != 0 {
		f.DurationVar(&ttl, "ttl", 0, "`duration` of the lease (default until it is released)")
	}
	if takes&takesToken != 0 {
		f.Uint64Var(&token, "fencing", 0, "fencing `token` of the grant (default whichever the holder has)")
	}
	if takes&takesSlots != 0 {
		f.Uint32Var(&slots, "slots", 1, "`number` of slots that are wanted")
		f.Uint32Var(&total, "total", 0, "`number` of slots in total, if the semaphore was not declared")
	}
	return cmd
}

// acquireEvery is the delay between two tries to acquire what another holder has.
const acquireEvery = 500 * time.Millisecond

// patient lets a command that acquires something retry while another holder has it. It
// does not wait in the queue of waiters: pipelines, which do, may get the lock first.
func patient(cmd *cobra.Command) *cobra.Command {
	var wait time.Duration
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to try again, twice a second, while there is none to be had (default not at all)")
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		end := time.Now().Add(wait)
		for {
			err := once(cmd, args)
			_, taken := errors.AsType[conflictError](err)
			left := time.Until(end)
			if !taken || left <= 0 {
				return err
			}
			if pause(cmd.Context(), min(acquireEvery, left)) != nil {
				return err
			}
		}
	}
	return cmd
}

// breaking is the command that takes a lock or slots from whoever holds them.
func breaking[S any](m machine[S], short string, fenced bool) *cobra.Command {
	var token uint64
	var reason string
	cmd := m.verb(verb{use: "break", short: short, path: "break", body: func([]string) (any, error) {
		return wire.BreakSlotsRequest{Token: token, Reason: reason}, nil
	}})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	if fenced {
		cmd.Flags().Uint64Var(&token, "fencing", 0, "fencing `token` of the one holder (default all holders)")
	}
	return cmd
}

func semaphoreDeclare(m machine[core.Semaphore]) *cobra.Command {
	var slots uint32
	cmd := m.verb(verb{
		use: "declare", short: "Declare how many slots there are; 0 takes that back", method: http.MethodPut,
		body: func([]string) (any, error) { return wire.SlotsRequest{Slots: &slots}, nil },
	})
	cmd.Flags().Uint32Var(&slots, "slots", 1, "`number` of slots in total")
	return cmd
}

func (a *app) lockList() *cobra.Command {
	return listing[core.Lock]{
		path: "/v1/locks", field: "locks", none: "no locks are held", short: "List the locks that are held, newest first",
		header: []string{"NAME", "SCOPE", "HOLDER", "SINCE (UTC)", "UNTIL (UTC)", "WAITING"},
		row: func(l core.Lock) []string {
			return []string{
				text.Clip(l.Name, 40), text.Clip(l.Namespace+"/"+l.Tenant, 40), cell(l.Holder, 48),
				shortTime(l.Since), shortTime(l.Until), number(len(l.Waiters)),
			}
		},
	}.command(a)
}

func lockView(l core.Lock) view {
	return view{
		fields: [][2]string{
			{"name", l.Name}, {"scope", l.Namespace + "/" + l.Tenant}, {"holder", l.Holder}, {"fencing", number(l.Token)},
			{"since", timeText(l.Since)}, {"until", timeText(l.Until)}, {"waiting", number(len(l.Waiters))},
		},
		tables: []table{{[]string{"WAITS", "SINCE (UTC)"}, rowsOf(l.Waiters, func(w core.LockWaiter) []string {
			return []string{text.Clip(w.Holder, 60), shortTime(w.Since)}
		})}},
	}
}

func (a *app) semaphoreList() *cobra.Command {
	return listing[core.Semaphore]{
		path: "/v1/semaphores", field: "semaphores", none: "no semaphores", short: "List semaphores, newest first",
		header: []string{"NAME", "SCOPE", "HELD", "OF", "HOLDERS", "WAITING"},
		row: func(s core.Semaphore) []string {
			return []string{
				text.Clip(s.Name, 40), text.Clip(s.Namespace+"/"+s.Tenant, 40), number(s.Held()), number(s.Total),
				number(len(s.Holders)), number(len(s.Waiters)),
			}
		},
	}.command(a)
}

func semaphoreView(s core.Semaphore) view {
	var rows [][]string
	for _, h := range s.Holders {
		rows = append(rows, []string{text.Clip(h.Holder, 60), "holds", number(h.Slots), number(h.Token), shortTime(h.Since), shortTime(h.Until)})
	}
	for _, w := range s.Waiters {
		rows = append(rows, []string{text.Clip(w.Holder, 60), "waits", number(w.Slots), "-", shortTime(w.Since), "-"})
	}
	return view{
		fields: [][2]string{
			{"name", s.Name}, {"scope", s.Namespace + "/" + s.Tenant}, {"held", fmt.Sprintf("%d of %d", s.Held(), s.Total)},
			{"waiting", number(len(s.Waiters))},
		},
		tables: []table{{[]string{"HOLDER", "STATE", "SLOTS", "FENCING", "SINCE (UTC)", "UNTIL (UTC)"}, rows}},
	}
}
