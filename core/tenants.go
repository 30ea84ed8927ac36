package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// tenantRules are the rules since which what a machine sets off stays within its tenant.
const tenantRules = 14

// The tenant whose queues hold what channels are to tell of the events of all tenants. A subscriber that
// pushes there hears the events of all.
const (
	NotifyNamespace = "orrery"
	NotifyTenant    = "notify"
)

// sphere is how far what somebody sets off reaches: to the machines of one tenant, or, where nobody is bound, to
// all. Who asks from outside is bound by nobody here: the shell knows what it may.
//
// Bound are all machines that have a tenant. Those that have none act within the tenant of whoever has reached
// them: a dedup key, a digest, the bus, and an occurrence of which an early build has not noted whose it is. A
// scheduler serves the runs of all tenants, and so reaches all of them.
type sphere struct {
	Scope
	bound bool
}

// ofTenant gives the sphere of a tenant.
func ofTenant(s Scope) sphere { return sphere{s, true} }

// sphereOf gives that of a machine; of nobody where there is none, or where it has no tenant.
func sphereOf(s State) sphere {
	of, ok := s.(interface{ scope() Scope })
	if !ok || s.Ref().IsZero() {
		return sphere{}
	}
	if early, ok := s.(interface{ ofNobody() bool }); ok && early.ofNobody() {
		return sphere{}
	}
	return ofTenant(of.scope())
}

// sphereOfEvent gives that in which an event from outside says that it is.
func sphereOfEvent(e Event) sphere {
	if of, ok := e.(interface{ ofTenant() sphere }); ok {
		return of.ofTenant()
	}
	return sphere{}
}

// apart reports whether these are two tenants.
func (s sphere) apart(o sphere) bool { return s.bound && o.bound && s.Scope != o.Scope }

// or gives the first one that is bound.
func (s sphere) or(o sphere) sphere {
	if s.bound {
		return s
	}
	return o
}

// keepsTenantsApart reports whether the batch decides by rules by which a tenant does not reach another one.
func (t *Batch) keepsTenantsApart() bool { return !t.clock.Rules.before(tenantRules) }

// abroad reports whether a machine is another tenant's than what is delivered.
func (t *Batch) abroad(d delivery, s State) bool {
	return s != nil && d.of.bound && t.keepsTenantsApart() && d.of.apart(sphereOf(s))
}

// refuseAbroad refuses what would reach another tenant, or make something there. Of what there is in another tenant it
// does not tell. What a subscriber of the program has given is nobody's request: it is announced.
func (t *Batch) refuseAbroad(d delivery) *effects.Refused {
	r := &effects.Refused{To: d.to, Event: d.event.EventType(), Code: effects.CodeInvalid, Reason: firstText(fmt.Sprintf(
		"%s is not of namespace %q and tenant %q: what begins within a tenant stays there", d.to, clip(d.of.Namespace), clip(d.of.Tenant)))}
	if d.from.Kind == KindBus {
		t.announce(Bus{}.complain(uuid.Nil, "a subscriber: "+r.Reason))
	}
	return r
}

// by gives in which tenant is who sends it.
func (d delivery) by() sphere {
	if d.from.IsZero() {
		return sphereOfEvent(d.event)
	}
	return d.of
}

// settle says in which tenant is what a machine sets off from here on: before is how it was, next how it is.
func (t *Batch) settle(d delivery, before, next State) {
	if kinds[d.to.Kind].servesAll {
		t.of = sphere{}
		return
	}
	t.of = sphereOf(next).or(sphereOf(before)).or(d.by()) // what is gone was its tenant's
}

func (e ActionCreate) ofTenant() sphere       { return ofTenant(e.Spec.scope()) }
func (e DedupClaim) ofTenant() sphere         { return ofTenant(e.Create.scope()) }
func (e PipelineCreate) ofTenant() sphere     { return ofTenant(e.Spec.scope()) }
func (e PipelineWatch) ofTenant() sphere      { return ofTenant(Scope{e.Namespace, e.Tenant}) }
func (e TaskCreate) ofTenant() sphere         { return ofTenant(e.Spec.scope()) }
func (e StrategyCreate) ofTenant() sphere     { return ofTenant(e.Spec.scope()) }
func (e OrchestratorCreate) ofTenant() sphere { return ofTenant(e.Spec.scope()) }
func (e LockAcquire) ofTenant() sphere        { return ofTenant(Scope{e.Namespace, e.Tenant}) }
func (e SemaphoreAcquire) ofTenant() sphere   { return ofTenant(Scope{e.Namespace, e.Tenant}) }
func (e QueuePush) ofTenant() sphere          { return ofTenant(Scope{e.Namespace, e.Tenant}) }

// ofTenant: an event that says no tenant is of nobody, and all hear it.
func (e BusPublish) ofTenant() sphere {
	of := Scope{e.Namespace, e.Tenant}
	return sphere{of, of != Scope{}}
}

// ofNobody reports whether an early build has recorded it, which did not note whose it is.
func (o Occurrence) ofNobody() bool { return o.Schedule == "" }

// acts gives the tenant in which a subscriber acts, and whose events it hears.
func (s *Subscription) acts() sphere {
	switch do := s.Do; {
	case do.WakeWorker != nil:
		return ofTenant(Scope{do.WakeWorker.Namespace, do.WakeWorker.Tenant})
	case do.Push != nil:
		return ofTenant(Scope{do.Push.Namespace, do.Push.Tenant})
	case do.StartPipeline != nil:
		return ofTenant(Scope{do.StartPipeline.Namespace, do.StartPipeline.Tenant})
	}
	return sphere{} // a signal acts where its pipeline is
}

// hears reports whether a subscriber that acts in s hears what is announced in a tenant, or by nobody.
func (s sphere) hears(of sphere) bool {
	return !s.apart(of) || s.Scope == Scope{NotifyNamespace, NotifyTenant}
}
