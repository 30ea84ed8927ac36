package core

// Scope is one tenant of one namespace: whose a machine is.
type Scope struct {
	Namespace string
	Tenant    string
}

// ScopeOf gives the tenant to whom a machine belongs; the zero Scope for a machine
// that belongs to nobody, and for what a machine keeps as records of their own.
func ScopeOf(s State) Scope {
	if of, ok := s.(interface{ scope() Scope }); ok {
		return of.scope()
	}
	return Scope{}
}

func (s ActionSpec) scope() Scope    { return Scope{s.Namespace, s.Tenant} }
func (s PipelineSpec) scope() Scope  { return Scope{s.Namespace, s.Tenant} }
func (s TaskSpec) scope() Scope      { return Scope{s.Namespace, s.Tenant} }
func (s StrategySpec) scope() Scope  { return Scope{s.Namespace, s.Tenant} }
func (s RunSpec) scope() Scope       { return Scope{s.Namespace, s.Tenant} }
func (s RecurringSpec) scope() Scope { return Scope{s.Namespace, s.Tenant} }
func (s JobSpec) scope() Scope       { return Scope{s.Namespace, s.Tenant} }
func (s WorkerSpec) scope() Scope    { return Scope{s.Namespace, s.Tenant} }
func (q Queue) scope() Scope         { return Scope{q.Namespace, q.Tenant} }
func (l Lock) scope() Scope          { return Scope{l.Namespace, l.Tenant} }
func (s Semaphore) scope() Scope     { return Scope{s.Namespace, s.Tenant} }
