package daemon

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell/notify"
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

func TestTheNoticeOfAnApprovalSaysOfWhatAndHowItIsAnswered(t *testing.T) {
	var got []effects.Notify
	n, err := notify.New(notify.Options{Channels: map[string]notify.Channel{"ops": notify.ChannelFunc(func(_ context.Context, n effects.Notify) error {
		got = append(got, n)
		return nil
	})}})
	require.NoError(t, err)
	a := approvals{n, hints{program: "orreryd", server: func() string { return config.DefaultServer }}}
	p := pipelineOf("default", "default")
	p.Phase = core.Phase{Type: core.PhaseRunning, Name: "it's"}
	p.Waiting.For = core.WaitApproval
	other := p
	other.Waiting.For = core.WaitEffect
	for _, s := range []core.State{p, other} {
		_, err := carry(t, a, s, effects.Notify{Title: "T", Message: "ship it?"})
		require.NoError(t, err)
	}
	_, err = carry(t, a, p, effects.Notify{})
	require.NoError(t, err)

	how := `Phase "it's" of pipeline ` + p.ID.String() + " waits for it.\nApprove: orreryd pipeline approve " + p.ID.String() + ` 'it'\''s'` +
		"\nReject:  orreryd pipeline reject " + p.ID.String() + ` 'it'\''s'`
	require.Len(t, got, 3)
	assert.Equal(t, effects.Notify{Title: "T", Message: "ship it?\n\n" + how}, got[0])
	assert.Equal(t, effects.Notify{Title: "T", Message: "ship it?"}, got[1], "what a phase notifies of is as it was")
	assert.Equal(t, how, got[2].Message)
}
