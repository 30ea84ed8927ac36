package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/relay"
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
		"orreryd alerts list --status=open":                                          of(config.DefaultServer, core.Digest{ID: id}),
		"":                                                                           of(config.DefaultServer, core.Bus{}),
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
	a := approvals{n, hints{program: "orreryd", server: func() string { return config.DefaultServer }}, nil}
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

// ids are those of the messages that a channel was told.
type ids struct{ got, titles, said []string }

func (c *ids) Notify(context.Context, effects.Notify) error { return errors.New("down") }

func (c *ids) Tell(_ context.Context, m notify.Message) error {
	c.got, c.titles, c.said = append(c.got, m.ID), append(c.titles, m.Title), append(c.said, m.Text)
	return errors.New("down")
}

func TestADigestOfAlertsIsToldAgainByItselfUnderOneName(t *testing.T) {
	c := &ids{}
	n, err := notify.New(notify.Options{Channels: map[string]notify.Channel{"ops": c}, Later: func(context.Context, string, notify.Message) error {
		return errors.New("not asked")
	}})
	require.NoError(t, err)
	h := hints{program: "orreryd", server: func() string { return config.DefaultServer }}
	words, err := notify.NewTemplates("{{.What}}", "{{.Why}} at {{time .At}}{{range .Commands}}; {{.Line}}{{end}}")
	require.NoError(t, err)
	of := func(tenants ...string) approvals {
		r, err := relay.New(relay.Options{Hints: h.ofEvent, Channels: map[string]relay.Channel{"ops": {Channel: c, Templates: words, Tenants: tenants}}})
		require.NoError(t, err)
		return approvals{n, h, r}
	}
	tell := func(a approvals, at effects.Time, tenants ...string) error {
		d, _ := core.Digest{}.Apply(core.DigestTell{Channel: "ops", Kind: core.AlertLate, Schedule: effects.Ref{Kind: core.KindJob, ID: uuid.Max}, Tenant: tenants[0], Namespace: "default", Name: "nightly", Reason: "not begun"}, core.Clock{Now: at})
		for _, tenant := range tenants[1:] {
			d, _ = d.Apply(core.DigestTell{Channel: "ops", Kind: core.AlertLate, Schedule: effects.Ref{Kind: core.KindJob, ID: uuid.Max}, Tenant: tenant, Namespace: "default", Name: "secret", Reason: "x"}, core.Clock{Now: at})
		}
		d, effs := d.Apply(core.DigestDue{}, core.Clock{Now: d.Deadline()})
		_, err := carry(t, a, d, effs[len(effs)-1].(effects.Notify))
		return err
	}
	for _, at := range []effects.Time{1_000_000, 1_000_000, 86_401_000} {
		require.ErrorContains(t, tell(of(), at, "default"), "down")
	}
	require.Len(t, c.got, 3)
	assert.Equal(t, c.got[0], c.got[1])
	assert.NotEqual(t, c.got[0], c.got[2])
	assert.Equal(t, "not begun at 1970-01-01 00:17:10 UTC; orreryd alerts list --status=open; orreryd job show nightly; orreryd job trigger nightly; orreryd job pause nightly; orreryd alerts silence --job=nightly --for=2h", c.said[0], "in the words of the channel")
	assert.Equal(t, `Job "nightly" is late`, c.titles[0])

	require.ErrorContains(t, tell(of("default"), 1_000_000, "default", "other", "other"), "down")
	assert.Equal(t, c.titles[0], c.titles[3], "what is of others this channel does not tell")
	assert.Equal(t, c.said[0], c.said[3])
	err = tell(of("nobody"), 1_000_000, "default", "other")
	require.ErrorContains(t, err, `the channel "ops" tells nothing of the tenants whose alerts these are`)
	assert.True(t, shell.IsPermanent(err))
	assert.Len(t, c.got, 4)
}

func TestAnEventIsToldWithTheCommandsThatShowAndAct(t *testing.T) {
	id := uuid.MustParse("00000000-0000-4000-8000-000000000001")
	h := hints{program: "orreryd", server: func() string { return config.DefaultServer }}
	of := func(kind effects.EventKind, s core.State) (out []string) {
		for _, hint := range h.ofEvent(effects.Event{Kind: kind}, s) {
			out = append(out, hint.Does+": "+hint.Line)
		}
		return out
	}
	failed := core.Action{ActionSpec: core.ActionSpec{ID: id}, Status: core.Status{Type: core.StatusFailed}}
	assert.Equal(t, []string{"show it: orreryd actions show " + id.String(), "try it again: orreryd actions retry " + id.String()}, of(effects.Custom("action", "failed"), failed))
	failed.Status.Type = core.StatusCompleted
	assert.Len(t, of(effects.Custom("action", "completed"), failed), 1)

	p := core.Pipeline{PipelineSpec: core.PipelineSpec{ID: id}, Phase: core.Phase{Type: core.PhaseRunning, Name: "it's sure"}, Waiting: core.Waiting{For: core.WaitApproval}}
	assert.Equal(t, []string{
		"show it: orreryd pipeline show " + id.String(),
		"approve: orreryd pipeline approve " + id.String() + ` 'it'\''s sure'`, "reject: orreryd pipeline reject " + id.String() + ` 'it'\''s sure'`,
	}, of(effects.KindPipelinePhase, p))
	p.Phase.Name = "--server=http://evil.test"
	assert.Equal(t, "approve: orreryd pipeline approve -- "+id.String()+" --server=http://evil.test", of(effects.KindPipelinePhase, p)[1], "a phase is no flag")
	p.Waiting, p.Phase = core.Waiting{}, core.Phase{Type: core.PhaseFailure, Name: "x", Recoverable: true}
	assert.Equal(t, "go on at the phase that failed: orreryd pipeline retry "+id.String(), of(effects.KindPipelineFailed, p)[1])
	p.Phase.Recoverable = false
	assert.Len(t, of(effects.KindPipelineFailed, p), 1)

	var q core.Queue
	q.Name, q.Namespace, q.Tenant = "mail", "shop", "eu"
	assert.Equal(t, "try again what it has given up: orreryd queue redrive mail --namespace=shop --tenant=eu", of(effects.KindQueueDead, q)[1])
	assert.Len(t, of(effects.KindTaskStuck, core.Task{TaskSpec: core.TaskSpec{ID: id}}), 2)
	assert.Empty(t, of(effects.KindEscalate, nil))
}

func TestAnAlertHasTheCommandsThatShowItAndItsSchedule(t *testing.T) {
	h := hints{program: "orreryd", server: func() string { return config.DefaultServer }}
	said := func(data string) (lines []string) {
		ev := effects.Event{Kind: effects.Custom("alert", "raised"), Data: []byte(data)}
		for _, hint := range h.ofEvent(ev, core.Digest{ID: uuid.Max}) {
			lines = append(lines, hint.Line)
		}
		return lines
	}
	const list, entry = "orreryd alerts list --status=open", `{"kind":"late","schedule":{"kind":"recurring","id":"00000000-0000-4000-8000-000000000001"},"namespace":"default","tenant":"t1","name":"nightly"}`
	assert.Equal(t, []string{list, "orreryd recurring show 00000000-0000-4000-8000-000000000001 --tenant=t1", "orreryd recurring trigger 00000000-0000-4000-8000-000000000001 --tenant=t1", "orreryd recurring pause 00000000-0000-4000-8000-000000000001 --tenant=t1", "orreryd alerts silence 00000000-0000-4000-8000-000000000001 --for=2h --tenant=t1"}, said(`{"count":1,"alerts":[`+entry+`]}`))
	assert.Equal(t, []string{list, "orreryd job show report --namespace=shop", "orreryd job pause report --namespace=shop", "orreryd alerts silence --job=report --for=2h --namespace=shop"},
		said(`{"count":1,"alerts":[{"kind":"slow","schedule":{"kind":"job","id":"00000000-0000-4000-8000-000000000001"},"namespace":"shop","tenant":"default","name":"report"}]}`))
	assert.Equal(t, []string{list}, said(`{"count":2,"alerts":[`+entry+`]}`), "of several none is shown")
	assert.Equal(t, []string{list}, said(`x`))
}
