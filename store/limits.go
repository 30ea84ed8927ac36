package store

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Limits that every implementation holds, so that what one accepts the others
// accept too.
const (
	MaxKind = 64   // bytes of a kind
	MaxName = 1024 // bytes of a term, lane with its share, claim, holder or meta name

	MaxRunLog = 4 << 20 // bytes of what is kept of an attempt's logs
)

// RecordError says which record an error is about (A10). It wraps the reason:
// [ErrNotFound], [ErrConflict] or [ErrCorrupt].
type RecordError struct {
	Op   string // what was tried: "get", "put", "records"
	Kind effects.Kind
	ID   uuid.UUID
	Err  error
	Raw  []byte // of a record that is corrupt: all that is stored of it; valid until the transaction ends
}

// Error gives "op kind/id: reason".
func (e *RecordError) Error() string {
	return e.Op + " " + string(e.Kind) + "/" + e.ID.String() + ": " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// Validate reports the first thing in w that no store accepts: a kind that is
// empty, too long or not printable ASCII without blanks and slashes; the zero
// id, which a [Cursor] could not name; a state that is empty but not nil; a
// term that is too long or stands there twice.
func (w *Write) Validate() error {
	if err := ValidateKind(w.Kind); err != nil {
		return err
	}
	switch {
	case w.ID == uuid.Nil:
		return errors.New("id is zero: a record needs an id")
	case w.State != nil && len(w.State) == 0:
		return errors.New("state is empty: want JSON, or nil to delete")
	}
	return cmp.Or(validateTerms("terms", w.Terms), validateTerms("prev.terms", w.Prev.Terms))
}

func validateTerms(field string, terms []Term) error {
	for i := range terms {
		name := terms[i].Name
		if len(name) > MaxName {
			return fmt.Errorf("%s[%d].name has %d bytes: at most %d", field, i, len(name), MaxName)
		}
		for j := range i { // a record has few terms: no map
			if terms[j].Name == name {
				return fmt.Errorf("%s[%d].name %s stands there twice: once for each record", field, i, quote(name))
			}
		}
	}
	return nil
}

// ValidateKind reports why k cannot be the kind of a record.
func ValidateKind(k effects.Kind) error {
	if k == "" || len(k) > MaxKind {
		return fmt.Errorf("kind %s has %d bytes: want 1 to %d", quote(string(k)), len(k), MaxKind)
	}
	for i := range len(k) {
		if c := k[i]; c <= ' ' || c > '~' || c == '/' {
			return fmt.Errorf("kind %s: want printable ASCII without blank or slash", quote(string(k)))
		}
	}
	return nil
}

// ValidateName reports why s cannot be a name of that field: it must be UTF-8
// of 1 to [MaxName] bytes.
func ValidateName(field, s string) error {
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%s %s has %d bytes: want 1 to %d", field, quote(s), len(s), MaxName)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %s is not UTF-8", field, quote(s))
	}
	return nil
}

// Validate reports why no store accepts the entry: its key, kind, lane or
// holder is bad.
func (e *OutboxEntry) Validate() error {
	if e.Key.ID == uuid.Nil {
		return errors.New("key.id is zero: an effect belongs to a record")
	}
	err := cmp.Or(ValidateKind(e.Kind), ValidateName("lane", e.Lane))
	if err == nil && e.Holder != "" {
		err = ValidateName("holder", e.Holder)
	}
	return err
}

// ValidateRunLog reports why no store keeps the log of an attempt.
func ValidateRunLog(run uuid.UUID, text []byte) error {
	switch {
	case run == uuid.Nil:
		return errors.New("run is zero: a log is of a run")
	case len(text) > MaxRunLog:
		return fmt.Errorf("text has %d bytes: at most %d", len(text), MaxRunLog)
	}
	return nil
}

// quote keeps a bad name that stands in an error short.
func quote(s string) string {
	if len(s) > 64 {
		return strconv.QuoteToASCII(s[:64]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// String gives "id#n".
func (k EffectKey) String() string {
	return k.ID.String() + "#" + strconv.FormatUint(uint64(k.N), 10)
}
