package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestRequestsOfOneActorKeepTheirOrderAndActorsTakeTurns(t *testing.T) {
	for _, c := range []struct{ came, served string }{
		{"", ""},
		{"a1 a2 a3", "a1 a2 a3"},
		{"a1 a2 a3 b1", "a1 b1 a2 a3"},
		{"a1 a2 b1 c1 b2 a3", "a1 b1 c1 a2 b2 a3"},
		{"a1 -1 a2 -2", "a1 -1 a2 -2"}, // without inputs: of the system
		{"b1 a1 a2 b2", "b1 a1 b2 a2"},
	} {
		assert.Equal(t, c.served, names(inTurns(requestsOf(c.came))))
	}
}

// requestsOf makes requests, each named by its actor and a number; "-" is the system.
func requestsOf(came string) (out []*request) {
	for name := range strings.FieldsSeq(came) {
		r := &request{}
		if actor := name[:1]; actor != "-" {
			r.Inputs = []core.Input{{Actor: actor}}
		}
		r.Want.Kind = effects.Kind(name)
		out = append(out, r)
	}
	return out
}

func names(requests []*request) string {
	var out []string
	for _, r := range requests {
		out = append(out, string(r.Want.Kind))
	}
	return strings.Join(out, " ")
}
