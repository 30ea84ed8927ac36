package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Named says whose a name is. Of one kind, namespace and tenant each name belongs to one machine
// at a time (G17). It takes no events: the [Batch] writes it with the transition by which a machine
// is made, renamed or deleted.
type Named struct {
	ID     uuid.UUID    `json:"id"` // derived from kind, tenant and name
	Kind   effects.Kind `json:"kind"`
	Name   string       `json:"name"`   // for the reader
	Holder uuid.UUID    `json:"holder"` // the machine of that kind that has it
}

// NamedRef names the record of a name.
func NamedRef(kind effects.Kind, namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindName, ID: namedID("name", string(kind), namespace, tenant, name)}
}

// Ref names the record.
func (n Named) Ref() effects.Ref { return refOf(KindName, n.ID) }

// Deadline is none.
func (n Named) Deadline() Time { return 0 }

// Terms are none: it is found by the name.
func (n Named) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (n Named) AppendJSON(b []byte) []byte { return appendMarshaled(b, n) }

// MaxGivenName bounds a name that somebody gives to a machine, in bytes.
const MaxGivenName = 128

// checkGivenName checks a name by which people refer to a machine: it stands in paths, files and
// on command lines, and is never taken for an id or an option there. Empty: it has none.
func checkGivenName(field, v string) error {
	switch {
	case v == "":
		return nil
	case len(v) > MaxGivenName:
		return fmt.Errorf("%s: %d bytes is longer than %d", field, len(v), MaxGivenName)
	case uuid.Validate(v) == nil:
		return fmt.Errorf("%s: %q is an id: give a name that cannot be taken for one", field, clip(v))
	}
	for i, r := range v {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		case i > 0 && (r == '.' || r == '_' || r == '-'):
		default:
			return fmt.Errorf("%s: %q has %q at byte %d: use letters, digits, \".\", \"_\" and \"-\", and begin with a letter or a digit", field, clip(v), r, i)
		}
	}
	return nil
}

// IsGivenName reports whether a text may be the name of a machine: it is none of an id.
func IsGivenName(s string) bool { return s != "" && checkGivenName("name", s) == nil }

// rename gives a machine a name in place of the one that it had; empty: none. refused says whose
// it is already. A name whose machine is gone is free: its record was set aside.
func (t *Batch) rename(of effects.Ref, in Scope, was, is string) (refused string, err error) {
	if was == is {
		return "", nil
	}
	r := records{t: t}
	if is != "" {
		ref := NamedRef(of.Kind, in.Namespace, in.Tenant, is)
		if had, ok := r.record(KindName, ref.ID).(Named); ok && had.Holder != of.ID && r.record(of.Kind, had.Holder) != nil {
			return fmt.Sprintf("name: %q is that of %s in this tenant: give another one, or change that", clip(is), effects.Ref{Kind: of.Kind, ID: had.Holder}), r.err
		}
		r.put(Named{ID: ref.ID, Kind: of.Kind, Name: is, Holder: of.ID})
	}
	if was != "" {
		ref := NamedRef(of.Kind, in.Namespace, in.Tenant, was)
		if had, ok := r.record(KindName, ref.ID).(Named); ok && had.Holder == of.ID {
			r.drop(KindName, ref.ID)
		}
	}
	return "", r.err
}
