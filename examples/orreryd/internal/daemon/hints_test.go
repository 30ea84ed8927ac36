package daemon

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
)

func TestTheCommandThatShowsAMachineCanBeTypedAsItIs(t *testing.T) {
	id := uuid.MustParse("00000000-0000-4000-8000-000000000001")
	of := func(server string, s core.State) string {
		return hints{program: "orreryd", server: func() string { return server }}.show(s)
	}
	action := core.Action{ActionSpec: core.ActionSpec{ID: id, Namespace: "ns", Tenant: "t1"}}
	queue := func(name, namespace string) core.Queue {
		var q core.Queue
		q.Name, q.Namespace, q.Tenant = name, namespace, "default"
		return q
	}
	const elsewhere = "http://127.0.0.1:8000"
	for want, got := range map[string]string{
		"orreryd actions show " + id.String():                                        of(config.DefaultServer, action),
		"orreryd actions show " + id.String() + " --server=" + elsewhere:             of(elsewhere, action),
		"orreryd queue show merges":                                                  of(config.DefaultServer, queue("merges", "default")),
		"orreryd queue show 'it'\\''s; $HOME' '--namespace=a b'":                     of(config.DefaultServer, queue("it's; $HOME", "a b")),
		"orreryd queue show --server=" + elsewhere + " -- --server=http://evil.test": of(elsewhere, queue("--server=http://evil.test", "default")),
		"": of(config.DefaultServer, core.Bus{}),
	} {
		assert.Equal(t, want, got)
	}
}
