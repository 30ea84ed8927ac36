package cli

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

const semaphoresPath = "/v1/semaphores"

func (a *app) lockCommand() *cobra.Command {
	var s scoped
	m := machine[core.Lock]{a: a, path: "/v1/locks", arg: "NAME", args: oneArg("NAME"), scope: &s, view: lockView, id: func(l core.Lock) string { return l.Name }}
	return a.addClientFlags(group("lock", "Take, show and break locks",
		"A lock is held by one holder at a time, and exists as long as somebody holds it.",
		a.withScope(&s, a.lockList(), m.show("Show a lock and who waits for it"),
			patient(holderVerb(m, "acquire", "Take a lock that is free, or renew one's own", leaseField())),
			holderVerb(m, "renew", "Let a lease last from now on", leaseField(), ownGrantField()),
			holderVerb(m, "release", "Give a lock back", releaseFields()...), breakVerb(m, "Take a lock away from its holder"))...))
}

func (a *app) semaphoreCommand() *cobra.Command {
	var s scoped
	m := machine[core.Semaphore]{a: a, path: semaphoresPath, arg: "NAME", args: oneArg("NAME"), scope: &s, view: semaphoreView, id: func(s core.Semaphore) string { return s.Name }}
	return a.addClientFlags(group("semaphore", "Declare semaphores, take, show and break their slots",
		"A semaphore has a number of slots, of which each holder holds some.",
		a.withScope(&s, a.semaphoreList(), m.show("Show a semaphore, who holds slots and who waits"),
			semaphoreDeclare(m), semaphoreAcquire(m),
			holderVerb(m, "renew", "Let a lease last from now on", leaseField(), ownGrantField()),
			holderVerb(m, "release", "Give slots back", releaseFields()...),
			breakVerb(m, "Take slots away from one holder, or from all",
				fencingField("fencing `token` of the one holder (default all holders)")))...))
}

// holderVerb is a command of somebody who holds a lock or slots, or wants to.
func holderVerb[S any](m machine[S], name, short string, more ...field) *cobra.Command {
	holder := textField("holder", "`name` of who holds it").needed("say who holds it")
	return m.verb(verb{use: name, short: short, path: name, fields: append([]field{holder}, more...)})
}

func leaseField() field {
	return millisField("ttl", "`duration` of the lease (default until it is released)", func(ttl time.Duration) error {
		if ttl < 0 {
			return usagef("--ttl: %s is in the past", ttl)
		}
		return nil
	})
}

func fencingField(usage string) field {
	return flagField((*pflag.FlagSet).Uint64Var, "fencing", 0, usage, unlessZero).as("token")
}

// needFencing says where the fencing token comes from.
const needFencing = "give the fencing token that acquire has printed"

// ownGrantField is the grant that a holder renews.
func ownGrantField() field {
	return fencingField("fencing `token` of the grant, which acquire has printed").needed(needFencing)
}

// releaseFields are the grant that a holder gives back, or the force that an admin uses
// instead of it.
func releaseFields() []field {
	force := new(bool)
	fencing := fencingField("fencing `token` of the grant, which acquire has printed")
	value := fencing.value
	fencing.value = func(a *app, args []string) (any, error) {
		v, err := value(a, args)
		if err == nil && v == nil && !*force {
			return nil, usagef("--fencing is missing: %s", needFencing)
		}
		return v, err
	}
	forced := flagField(func(f *pflag.FlagSet, _ *bool, name string, byDefault bool, usage string) {
		f.BoolVar(force, name, byDefault, usage)
	}, "force", false, "release what somebody else has acquired, without its fencing token (admins only)", func(_ *app, _ bool) (any, error) {
		return unlessZero(nil, *force)
	})
	return []field{fencing, forced}
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

// breakVerb is the command that takes a lock or slots from whoever holds them.
func breakVerb[S any](m machine[S], short string, more ...field) *cobra.Command {
	return m.verb(verb{use: "break", short: short, path: "break", fields: append(more, reasonField())})
}

func semaphoreDeclare(m machine[core.Semaphore]) *cobra.Command {
	return m.verb(verb{
		use: "declare", short: "Declare how many slots there are; 0 takes that back", method: http.MethodPut,
		fields: []field{countField("slots", 1, "`number` of slots in total")},
	})
}

func semaphoreAcquire(m machine[core.Semaphore]) *cobra.Command {
	return patient(holderVerb(m, "acquire", "Take slots that are free, or renew one's own", leaseField(),
		countField("slots", 1, "`number` of slots that are wanted"),
		countField("total", 0, "`number` of slots in total, if the semaphore was not declared")))
}

func (a *app) lockList() *cobra.Command {
	return listing[core.Lock]{
		path: "/v1/locks", field: "locks", none: "no locks are held", short: "List the locks that are held, newest first",
		name:   func(l core.Lock) string { return l.Name },
		header: []string{"NAME:40", "SCOPE:40", "HOLDER:48", "SINCE (UTC)", "UNTIL (UTC)", "WAITING"},
		row: func(l core.Lock) []string {
			return []string{
				l.Name, l.Namespace + "/" + l.Tenant, text.OrDash(l.Holder),
				shortTime(l.Since), shortTime(l.Until), number(len(l.Waiters)),
			}
		},
	}.command(a)
}

func lockView(l core.Lock) view {
	return view{
		fields: [][2]string{
			{"name", l.Name}, {"scope", l.Namespace + "/" + l.Tenant}, {"holder", l.Holder}, {"by", l.By}, {"fencing", fencingText(l.Token)},
			{"since", timeText(l.Since)}, {"until", timeText(l.Until)}, {"waiting", number(len(l.Waiters))},
		},
		tables: []table{{[]string{"WAITS:60", "SINCE (UTC)"}, rowsOf(l.Waiters, func(w core.LockWaiter) []string {
			return []string{w.Holder, shortTime(w.Since)}
		})}},
	}
}

// fencingText shows a fencing token; nothing of one that the API tells only to who has
// acquired the grant.
func fencingText(token uint64) string {
	if token == 0 {
		return ""
	}
	return number(token)
}

func (a *app) semaphoreList() *cobra.Command {
	return listing[core.Semaphore]{
		path: semaphoresPath, field: "semaphores", none: "no semaphores", short: "List semaphores, newest first",
		name:   func(s core.Semaphore) string { return s.Name },
		header: []string{"NAME:40", "SCOPE:40", "HELD", "OF", "HOLDERS", "WAITING"},
		row: func(s core.Semaphore) []string {
			return []string{
				s.Name, s.Namespace + "/" + s.Tenant, number(s.Held()), number(s.Total),
				number(len(s.Holders)), number(len(s.Waiters)),
			}
		},
	}.command(a)
}

func semaphoreView(s core.Semaphore) view {
	var rows [][]string
	for _, h := range s.Holders {
		rows = append(rows, []string{h.Holder, "holds", number(h.Slots), text.OrDash(fencingText(h.Token)), shortTime(h.Since), shortTime(h.Until)})
	}
	for _, w := range s.Waiters {
		rows = append(rows, []string{w.Holder, "waits", number(w.Slots), "-", shortTime(w.Since), "-"})
	}
	return view{
		fields: [][2]string{
			{"name", s.Name}, {"scope", s.Namespace + "/" + s.Tenant}, {"held", fmt.Sprintf("%d of %d", s.Held(), s.Total)},
			{"waiting", number(len(s.Waiters))},
		},
		tables: []table{{[]string{"HOLDER:60", "STATE", "SLOTS", "FENCING", "SINCE (UTC)", "UNTIL (UTC)"}, rows}},
	}
}
