package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
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

func TestAnAlertForAChannelThatTellsNothingOfItsTenantIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCluster().options(inMemory(t))
		o.Tools, o.Channels = tools(&counting{}), []string{"all", "b", "c"}
		o.ChannelTells = func(channel, namespace, tenant string) bool {
			return channel == "all" || tenant == channel && namespace == "shop"
		}
		e := running(t, o)
		const refusal = `alerts.channel: the channel "b" tells nothing of the tenant shop/a: use one of all, or leave it out`
		theirs := core.AlertRules{Failing: 1, Channel: "b"}

		r := everyMinute()
		r.Name, r.Namespace, r.Tenant, r.Alerts = "minutely", "shop", "a", theirs
		_, err := e.Recurring().Create(bg(), r)
		require.ErrorContains(t, err, refusal)
		r.Alerts.Channel = "all"
		made, err := e.Recurring().Create(bg(), r)
		require.NoError(t, err)
		_, err = e.Recurring().Update(bg(), made.ID, core.RecurringPatch{ScheduleOptionsPatch: core.ScheduleOptionsPatch{Alerts: &theirs}})
		require.ErrorContains(t, err, refusal)
		r.ID, r.Name, r.Tenant, r.Alerts = uuid.Nil, "theirs", "b", theirs
		_, err = e.Recurring().Create(bg(), r)
		require.NoError(t, err)

		j := nightly()
		j.Namespace, j.Tenant, j.Alerts = "shop", "a", theirs
		_, err = e.Jobs().Apply(bg(), j)
		require.ErrorContains(t, err, refusal)
		r.Tenant = "a"
		res, err := e.Sets().Apply(bg(), "set", []shell.SetEntry{{File: "a.toml", Recurring: &r}}, shell.SetOptions{DryRun: true})
		require.NoError(t, err)
		assert.Contains(t, res.Refused, refusal)
		r.Alerts.Channel = "d"
		_, err = e.Recurring().Create(bg(), r)
		require.ErrorContains(t, err, `there is no channel "d": use one of all, or leave it out`, "only those that would be right are named")
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
		log := &logLines{}
		var gone atomic.Bool
		o := shell.Options{
			Store: inMemory(t), Logger: slog.New(slog.NewTextHandler(log, nil)),
			Tools: map[string]shell.Tool{"count": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errors.New("no disk") })},
		}
		o.Interpreters = map[string]shell.Interpreter{effects.LaneNotify: carrying(func(context.Context) (json.RawMessage, error) {
			if gone.Load() {
				return nil, shell.Permanent(errors.New("there is no such channel"))
			}
			return nil, errors.New("connection refused")
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

		gone.Store(true)
		<-time.After(time.Hour)
		given := log.with("alert.undelivered")
		require.Len(t, given, 1)
		assert.Contains(t, given[0], "level=ERROR")
		assert.Contains(t, given[0], `error="there is no such channel"`)
	})
}
