package core

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Scope is one tenant of one namespace: whose a machine is.
type Scope struct {
	Namespace string
	Tenant    string
}

// Compare orders tenants by namespace and name.
func (s Scope) Compare(o Scope) int {
	return cmp.Or(cmp.Compare(s.Namespace, o.Namespace), cmp.Compare(s.Tenant, o.Tenant))
}

// ScopeOf gives the tenant to whom a machine belongs; the zero Scope for a machine
// that belongs to nobody, and for what a machine keeps as records of their own.
func ScopeOf(s State) Scope {
	if of, ok := s.(interface{ scope() Scope }); ok {
		return of.scope()
	}
	return Scope{}
}

// StoredScope is [ScopeOf] of a stored form. It decodes no more than it must: the states
// of most kinds begin with their id and their tenant.
func StoredScope(kind effects.Kind, b []byte) (Scope, error) {
	if s, ok := leadingScope(b); ok {
		return s, nil
	}
	s, err := DecodeState(kind, b)
	if err != nil {
		return Scope{}, err
	}
	return ScopeOf(s), nil
}

// leadingScope reads {"id":"…","namespace":"…","tenant":"…" and nothing else.
func leadingScope(b []byte) (s Scope, ok bool) {
	const id, namespace, tenant = `{"id":"`, `","namespace":`, `,"tenant":`
	uuidLen := len(uuid.Nil.String())
	if len(b) < len(id)+uuidLen || string(b[:len(id)]) != id {
		return s, false
	}
	if b, ok = bytes.CutPrefix(b[len(id)+uuidLen:], []byte(namespace)); !ok {
		return s, false
	}
	if s.Namespace, b, ok = leadingString(b); !ok {
		return s, false
	}
	if b, ok = bytes.CutPrefix(b, []byte(tenant)); !ok {
		return s, false
	}
	s.Tenant, _, ok = leadingString(b)
	return s, ok
}

// leadingString takes a JSON string off the front.
func leadingString(b []byte) (v string, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", nil, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			ok = json.Unmarshal(b[:i+1], &v) == nil
			return v, b[i+1:], ok
		}
	}
	return "", nil, false
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
