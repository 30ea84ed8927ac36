package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

func TestAnAlertForAChannelThatThereIsNotIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCluster().options(inMemory(t))
		o.Tools, o.Channels = tools(&counting{}), []string{"hook", "chat"}
		e := running(t, o)
		const refusal = `alerts.channel: there is no channel "nochan": use one of chat, hook, or leave it out`
		nobody, somebody := core.AlertRules{Failing: 1, Channel: "nochan"}, core.AlertRules{Failing: 1, Channel: "chat"}

		r := everyMinute()
		r.Name, r.Alerts = "minutely", nobody
		_, err := e.Recurring().Create(bg(), r)
		require.ErrorContains(t, err, refusal)
		r.Alerts = somebody
		made, err := e.Recurring().Create(bg(), r)
		require.NoError(t, err)
		_, err = e.Recurring().Update(bg(), made.ID, core.RecurringPatch{ScheduleOptionsPatch: core.ScheduleOptionsPatch{Alerts: &nobody}})
		require.ErrorContains(t, err, refusal)

		j := nightly()
		j.Alerts = nobody
		_, err = e.Jobs().Apply(bg(), j)
		require.ErrorContains(t, err, refusal)
		_, _, err = e.Jobs().Configure(bg(), j)
		require.ErrorContains(t, err, refusal)

		other := everyMinute()
		other.Name, other.Alerts = "declared", nobody
		for kind, entry := range map[string]shell.SetEntry{"recurring declared": {File: "a.toml", Recurring: &other}, "job nightly": {File: "a.toml", Job: &j}} {
			res, err := e.Sets().Apply(bg(), "set", []shell.SetEntry{entry}, shell.SetOptions{DryRun: true})
			require.NoError(t, err)
			assert.Contains(t, res.Refused, "a.toml: "+kind+": ")
			assert.Contains(t, res.Refused, refusal)
			_, err = e.Sets().Apply(bg(), "set", []shell.SetEntry{entry}, shell.SetOptions{})
			require.ErrorContains(t, err, "a.toml: "+kind+": ")
			require.ErrorContains(t, err, refusal)
		}

		j.Alerts = core.AlertRules{Failing: 1}
		applied(t, e, j)
		j.Alerts = somebody
		applied(t, e, j)
	})
}

func TestWithoutChannelsARuleThatNamesOneIsRefusedIfItIsKnownThatThereAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			channels []string
			want     string
		}{{[]string{}, `alerts.channel: there is no channel "ops": none is configured`}, {nil, ""}} {
			e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), Channels: row.channels})
			r := everyMinute()
			r.Alerts = core.AlertRules{Failing: 1, Channel: "ops"}
			made, err := e.Recurring().Create(bg(), r)
			if row.want != "" {
				require.ErrorContains(t, err, row.want)
				continue
			}
			require.NoError(t, err, "nobody said which there are")
			_, err = e.Alerts().Silence(bg(), made.Ref(), shell.SilenceOptions{})
			require.ErrorContains(t, err, "until: missing: give a time")
		}
	})
}

func TestAMessageAboutAlertsThatIsNotDeliveredHasALineAtTheLevelErrorEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, fails := &logLines{}, errors.New("connection refused")
		o := shell.Options{
			Store: inMemory(t), Logger: slog.New(slog.NewTextHandler(log, nil)),
			Tools: map[string]shell.Tool{"count": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errors.New("no disk") })},
		}
		o.Interpreters = map[string]shell.Interpreter{effects.LaneNotify: carrying(func(context.Context) (json.RawMessage, error) {
			return nil, fails
		})}
		e := running(t, o)
		r := everyMinute()
		r.Name, r.Alerts = "minutely", core.AlertRules{Failing: 1, Channel: "chat"}
		_, err := e.Recurring().Create(bg(), r)
		require.NoError(t, err)
		<-time.After(170 * time.Second)
		lines := log.with("alert.not_delivered")
		require.Len(t, lines, 2, "at first, and after 30 seconds")
		for _, line := range lines {
			assert.Contains(t, line, "level=ERROR")
			assert.Contains(t, line, `channel=chat title="failing: minutely" error="connection refused"`)
			assert.Contains(t, line, "retry_at=")
		}
		assert.Empty(t, log.with("alert.undelivered"), "it is tried again")

		fails = shell.Permanent(errors.New("there is no such channel"))
		<-time.After(time.Hour)
		given := log.with("alert.undelivered")
		require.Len(t, given, 1)
		assert.Contains(t, given[0], "level=ERROR")
		assert.Contains(t, given[0], `error="there is no such channel"`)
	})
}
