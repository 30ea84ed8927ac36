package core

import (
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// eventType is one event that machines take: its discriminator in the journal, which
// is unique within a kind and never changes once released, and how its journal form is
// read.
type eventType struct {
	name   string
	decode func(b []byte) (Event, error)
}

// event gives the entry of an event whose members are its exported fields.
func event[E Event]() eventType {
	var e E
	return eventType{name: e.EventType(), decode: decodeAs[E]}
}

func decodeAs[E Event](b []byte) (Event, error) {
	var e E
	err := json.Unmarshal(b, &e)
	return e, err
}

// AppendEvent appends the journal form of an event: an object with its "type", then
// its fields. An event may
//
//   - append them itself, by appendFields, where encoding/json is too slow for what
//     every machine causes many times, or cannot write them;
//   - say by stored what is kept of it, where it comes from outside: text that is
//     valid, JSON that can be stored. Its machine must look at it in that form only,
//     so that a replay, which sees the journal, sees the same.
func AppendEvent(b []byte, e Event) []byte {
	o := begin(b)
	o.str("type", e.EventType())
	switch own := e.(type) {
	case interface{ appendFields(o object) object }:
		o = own.appendFields(o)
		return o.end()
	case interface{ stored() Event }:
		e = own.stored()
	}
	fields, err := json.Marshal(e)
	if err != nil || len(fields) <= 2 { // a payload that is not JSON: keep the event readable, it will be refused
		return o.end()
	}
	return append(append(o.b, ','), fields[1:]...)
}

// DecodeEvent reads the journal form of an event for a machine of that kind.
func DecodeEvent(kind effects.Kind, b []byte) (Event, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("decode event of %s: %w", kind, err)
	}
	k, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("decode event: kind %q is unknown", clip(string(kind)))
	}
	for _, t := range k.events {
		if t.name == head.Type {
			e, err := t.decode(b)
			if err != nil {
				return nil, fmt.Errorf("decode event %q of %s: %w", clip(head.Type), kind, err)
			}
			return e, nil
		}
	}
	return nil, fmt.Errorf("decode event of %s: type %q is unknown", kind, clip(head.Type))
}

// DecodeState reads the stored form of a machine of that kind. What it returns
// keeps no part of b.
func DecodeState(kind effects.Kind, b []byte) (State, error) {
	k, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("decode state: kind %q is unknown", clip(string(kind)))
	}
	if k.scanState != nil {
		if s := k.scanState(&scan{b: b}); s != nil {
			return s, nil
		}
	}
	s, err := k.decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode state of %s: %w", kind, err)
	}
	if s.Ref().IsZero() {
		return nil, fmt.Errorf("decode state of %s: it has no id", kind)
	}
	return s, nil
}

// DecodeStateOf reads the stored form of the machine ref, and refuses that of another.
func DecodeStateOf(ref effects.Ref, b []byte) (State, error) {
	s, err := DecodeState(ref.Kind, b)
	if err == nil && s.Ref() != ref {
		return nil, fmt.Errorf("the record of %s holds %s", ref, s.Ref())
	}
	return s, err
}

// decodeStateAs reads a state whose stored form is that of encoding/json.
func decodeStateAs[S State](b []byte) (State, error) {
	var s S
	err := json.Unmarshal(b, &s)
	return s, err
}
