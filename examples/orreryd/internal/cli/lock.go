package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) lockCommand() *cobra.Command {
	var s scoped
	m := machine[core.Lock]{a: a, path: "/v1/locks", show: a.printLock, query: s.query, args: oneArg("NAME"), arg: "NAME"}
	return a.addClientFlags(group("lock", "Take, show and break locks",
		"A lock is held by one holder at a time, and exists as long as somebody holds it.",
		a.withScope(&s, a.lockList(), m.verb("show", "Show a lock and who waits for it", http.MethodGet, "", nil),
			patient(holding(m, "acquire", "Take a lock that is free, or renew one's own", false)),
			holding(m, "renew", "Let a lease last from now on", true),
			releasing(m, "Give a lock back"), breaking(m, "Take a lock away from its holder", false))...))
}

func (a *app) semaphoreCommand() *cobra.Command {
	var s scoped
	m := machine[core.Semaphore]{a: a, path: "/v1/semaphores", show: a.printSemaphore, query: s.query, args: oneArg("NAME"), arg: "NAME"}
	return a.addClientFlags(group("semaphore", "Declare semaphores, take, show and break their slots",
		"A semaphore has a number of slots, of which each holder holds some.",
		a.withScope(&s, a.semaphoreList(), m.verb("show", "Show a semaphore, who holds slots and who waits", http.MethodGet, "", nil),
			semaphoreDeclare(m), patient(semaphoreAcquire(m)), holding(m, "renew", "Let a lease last from now on", true),
			releasing(m, "Give slots back"), breaking(m, "Take slots away from one holder, or from all", true))...))
}

// holder are the flags that say who holds something.
type holder struct {
	name  string
	token uint64
	ttl   time.Duration
}

func (h *holder) addName(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.name, "holder", "", "`name` of who holds it")
}

func (h *holder) addTTL(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&h.ttl, "ttl", 0, "`duration` of the lease (default until it is released)")
}

func (h *holder) addToken(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&h.token, "fencing", 0, "fencing `token` of the grant (default whichever the holder has)")
}

func (h *holder) body() (map[string]any, error) {
	if h.name == "" {
		return nil, usagef("--holder is missing: say who holds it")
	}
	if h.ttl < 0 {
		return nil, usagef("--ttl: %s is in the past", h.ttl)
	}
	return map[string]any{"holder": h.name}, nil
}

// holding is acquire or renew.
func holding[S any](m machine[S], verb, short string, fenced bool) *cobra.Command {
	var h holder
	cmd := m.verb(verb, short, http.MethodPost, verb, func() (any, error) {
		b, err := h.body()
		if err != nil {
			return nil, err
		}
		b["ttl_ms"] = h.ttl.Milliseconds()
		if fenced {
			b["token"] = h.token
		}
		return b, nil
	})
	h.addName(cmd)
	h.addTTL(cmd)
	if fenced {
		h.addToken(cmd)
	}
	return cmd
}

// askAgain lies between two tries to take what another one holds.
const askAgain = 500 * time.Millisecond

// patient lets a command that takes something try again while another one has it.
// It stands in no line: runs, which do, may have it first.
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
			select {
			case <-cmd.Context().Done():
				return err
			case <-time.After(min(askAgain, left)):
			}
		}
	}
	return cmd
}

func releasing[S any](m machine[S], short string) *cobra.Command {
	var h holder
	cmd := m.verb("release", short, http.MethodPost, "release", func() (any, error) {
		b, err := h.body()
		if err != nil {
			return nil, err
		}
		b["token"] = h.token
		return b, nil
	})
	h.addName(cmd)
	h.addToken(cmd)
	return cmd
}

func breaking[S any](m machine[S], short string, fenced bool) *cobra.Command {
	var h holder
	var reason string
	cmd := m.verb("break", short, http.MethodPost, "break", func() (any, error) {
		b := map[string]any{"reason": reason}
		if fenced {
			b["token"] = h.token
		}
		return b, nil
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	if fenced {
		cmd.Flags().Uint64Var(&h.token, "fencing", 0, "fencing `token` of the one holder (default all holders)")
	}
	return cmd
}

func semaphoreDeclare(m machine[core.Semaphore]) *cobra.Command {
	var slots uint32
	cmd := m.verb("declare", "Declare how many slots there are; 0 takes that back", http.MethodPut, "", func() (any, error) {
		return map[string]uint32{"slots": slots}, nil
	})
	cmd.Flags().Uint32Var(&slots, "slots", 1, "`number` of slots in total")
	return cmd
}

func semaphoreAcquire(m machine[core.Semaphore]) *cobra.Command {
	var h holder
	var slots, total uint32
	cmd := m.verb("acquire", "Take slots that are free, or renew one's own", http.MethodPost, "acquire", func() (any, error) {
		b, err := h.body()
		if err != nil {
			return nil, err
		}
		b["ttl_ms"], b["slots"], b["total"] = h.ttl.Milliseconds(), slots, total
		return b, nil
	})
	h.addName(cmd)
	h.addTTL(cmd)
	cmd.Flags().Uint32Var(&slots, "slots", 1, "`number` of slots that are wanted")
	cmd.Flags().Uint32Var(&total, "total", 0, "`number` of slots in total, where it was not declared")
	return cmd
}

func (a *app) lockList() *cobra.Command {
	return listing[core.Lock]{
		path: "/v1/locks", field: "locks", none: "no locks are held", short: "List the locks that are held, newest first",
		header: []string{"NAME", "SCOPE", "HOLDER", "SINCE (UTC)", "UNTIL (UTC)", "WAITING"},
		row: func(l core.Lock) []string {
			return []string{
				text.Clip(l.Name, 40), text.Clip(l.Namespace+"/"+l.Tenant, 40), text.OrDash(text.Clip(l.Holder, 48)),
				shortTime(l.Since), shortTime(l.Until), number(uint64(len(l.Waiters))),
			}
		},
	}.command(a)
}

func (a *app) printLock(raw json.RawMessage, l core.Lock) error {
	if a.json {
		return a.printJSON(raw)
	}
	err := a.printFields([][2]string{
		{"name", l.Name}, {"scope", l.Namespace + "/" + l.Tenant}, {"holder", l.Holder}, {"fencing", number(l.Token)},
		{"since", timeText(l.Since)}, {"until", timeText(l.Until)}, {"waiting", number(uint64(len(l.Waiters)))},
	})
	if err != nil || len(l.Waiters) == 0 {
		return err
	}
	rows := make([][]string, 0, len(l.Waiters))
	for _, w := range l.Waiters {
		rows = append(rows, []string{text.Clip(w.Holder, 60), shortTime(w.Since)})
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	return a.printTable([]string{"WAITS", "SINCE (UTC)"}, rows)
}

func (a *app) semaphoreList() *cobra.Command {
	return listing[core.Semaphore]{
		path: "/v1/semaphores", field: "semaphores", none: "no semaphores", short: "List semaphores, newest first",
		header: []string{"NAME", "SCOPE", "HELD", "OF", "HOLDERS", "WAITING"},
		row: func(s core.Semaphore) []string {
			return []string{
				text.Clip(s.Name, 40), text.Clip(s.Namespace+"/"+s.Tenant, 40), number(s.Held()), number(uint64(s.Total)),
				number(uint64(len(s.Holders))), number(uint64(len(s.Waiters))),
			}
		},
	}.command(a)
}

func (a *app) printSemaphore(raw json.RawMessage, s core.Semaphore) error {
	if a.json {
		return a.printJSON(raw)
	}
	err := a.printFields([][2]string{
		{"name", s.Name}, {"scope", s.Namespace + "/" + s.Tenant}, {"held", fmt.Sprintf("%d of %d", s.Held(), s.Total)},
		{"waiting", number(uint64(len(s.Waiters)))},
	})
	if err != nil || len(s.Holders)+len(s.Waiters) == 0 {
		return err
	}
	var rows [][]string
	for _, h := range s.Holders {
		rows = append(rows, []string{text.Clip(h.Holder, 60), "holds", attempts(h.Slots), number(h.Token), shortTime(h.Since), shortTime(h.Until)})
	}
	for _, w := range s.Waiters {
		rows = append(rows, []string{text.Clip(w.Holder, 60), "waits", attempts(w.Slots), "-", shortTime(w.Since), "-"})
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	return a.printTable([]string{"HOLDER", "STATE", "SLOTS", "FENCING", "SINCE (UTC)", "UNTIL (UTC)"}, rows)
}
