package engine

import (
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// tenantWalk walks through the tenants that have more machines of a kind than are kept of one
// tenant, and forgets those that have ended, from the one that ended first. What may not be
// forgotten does not count as too much, and stays.
type tenantWalk struct {
	begun bool
	names []string // list terms of the tenants that are still to come, the present one first
	left  uint64   // how many of the present one are to go; 0: not known yet
	from  store.Cursor
}

// maxTenantsWalked bounds the tenants that one walk looks at.
const maxTenantsWalked = 1 << 16

// expireTenants carries the walk on by at most a batch, and reports whether there may be more.
func (b *batch) expireTenants(k core.Retention, until time.Time) (more bool, err error) {
	w, most := &b.retain.tenants, b.l.e.o.MostOfTenant
	if most < 0 || k.Tenants == "" {
		return false, nil
	}
	if !w.begun {
		total, err := b.tx.Count(k.Kind, core.TermAll)
		if err != nil || total <= uint64(most) { // nobody can have more
			return false, err
		}
		if w.names, err = b.tx.TermNames(k.Kind, k.Tenants, maxTenantsWalked); err != nil {
			return false, err
		}
		w.begun = true
	}
	for i := 0; len(w.names) > 0; i++ {
		if i > 0 && !b.l.now().Before(until) {
			return true, nil
		}
		if w.left == 0 {
			has, err := b.tx.Count(k.Kind, w.names[0])
			if err != nil {
				return false, err
			}
			if has > uint64(most) {
				w.left = has - uint64(most)
			}
		}
		if w.left > 0 {
			if more, err := b.expireOfTenant(k.Kind, core.TenantOfTerm(w.names[0]), until); err != nil || more {
				return more, err
			}
		}
		*w = tenantWalk{begun: true, names: w.names[1:]}
	}
	return false, nil
}

// expireOfTenant forgets machines of one tenant, and reports whether it is to be gone on with.
func (b *batch) expireOfTenant(kind effects.Kind, of core.Scope, until time.Time) (more bool, err error) {
	w := &b.retain.tenants
	limit := max(b.l.e.o.MaxBatch/4, 1)
	page, err := b.tx.Scan(kind, core.TermWithin(core.TermEnded, of), w.from, false, int(min(uint64(limit), w.left)))
	if err != nil {
		return false, err
	}
	gone := uint64(0)
	for i, c := range page {
		if b.loaded > maxBatchBytes || i > 0 && !b.l.now().Before(until) {
			more = true
			break
		}
		w.from = c
		changed, err := b.expireOne(effects.Ref{Kind: kind, ID: c.ID}, b.now)
		if err != nil {
			return false, err
		}
		if changed {
			gone++
		}
	}
	w.left -= min(gone, w.left)
	b.expiredEarly += gone
	if gone > 0 {
		b.l.e.log.Warn("retention.tenant_full", "kind", string(kind), "namespace", of.Namespace, "tenant", of.Tenant, "most", b.l.e.o.MostOfTenant, "forgotten", gone)
	}
	return w.left > 0 && (more || len(page) == limit), nil
}

// expireOne forgets a machine that ended before the cutoff, if it may be forgotten.
func (b *batch) expireOne(ref effects.Ref, cutoff effects.Time) (changed bool, err error) {
	s, err := b.fold.State(ref)
	if err != nil || s == nil || !expired(s, cutoff) {
		return false, nil // a corrupt one is set aside with the rest of the batch
	}
	res, err := b.apply(core.Input{To: ref, Actor: "retention", Event: core.ExpireEvent(ref.Kind)})
	if err != nil {
		return false, b.broken
	}
	return res.Changed, nil
}
