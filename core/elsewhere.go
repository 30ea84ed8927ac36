package core

import (
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// Divided says over how many partitions the tenants are divided, of which [Batch.Partition] is one. The batch then refuses each input that would
// make a machine for a tenant of another partition, by [Partition], with [effects.CodeElsewhere]: nobody would find it there. What machines make
// themselves is not refused, and neither is what belongs to no tenant. 0: it is not known, and nothing is refused. A refused input is in no
// journal, so a replay needs not know it. It holds after [Batch.Reset], too.
func (t *Batch) Divided(partitions int) { t.parts = partitions }

// elsewhere refuses a machine that an input would make in the partition of another tenant.
func (t *Batch) elsewhere(d delivery, s *slot, next State) *effects.Refused {
	if t.parts == 0 || s.now != nil || !d.outside() || next.Ref().IsZero() {
		return nil
	}
	of := belongsTo(ScopeOf(next))
	if of.Of == (Scope{}) || of.Each {
		return nil
	}
	home := Partition(of.Of, t.parts)
	if home == int(t.part) {
		return nil
	}
	return &effects.Refused{To: d.to, Event: d.event.EventType(), Code: effects.CodeElsewhere, Reason: fmt.Sprintf(
		"the tenant %q of namespace %q lives in partition %d of %d, not in %d: nothing was done", clip(of.Of.Tenant), clip(of.Of.Namespace), home, t.parts, t.part)}
}
