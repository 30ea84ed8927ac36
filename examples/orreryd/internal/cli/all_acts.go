package cli

import (
	"net/url"

	"github.com/spf13/cobra"
)

// labelled narrows to what has a label.
var labelled = filter{flag: "label-kv", param: "label", usage: "only with that label `KEY=VALUE`; may be repeated", pairs: true}

// actionsAll are the commands about all actions that match.
func (a *app) actionsAll() []*cobra.Command {
	of := func(l all) *cobra.Command {
		l.path, l.field, l.one, l.many, l.timed = "/v1/actions", "actions", "action", "actions", true
		l.filters = append([]filter{{flag: "tool", usage: "only of that `tool`"}, labelled}, l.filters...)
		return l.command(a)
	}
	return []*cobra.Command{
		of(all{
			use: "retry-all", act: "retry", short: "Make a new action of each one that failed and matches", statuses: []string{"failed", "cancelled"},
			long: `
The new actions are due at once. The old ones stay as they are: of one of which this
command, or the page, has made a new one before, no second one is made, so that the
command can be repeated.`,
			example: "  orreryd actions retry-all --failed-since 24h\n  orreryd actions retry-all --failed-since 2026-02-10T00:00:00+01:00 --tool http --yes",
			filters: []filter{failedSince},
			fields:  []field{constant("once", true)},
		}),
		of(all{
			use: "cancel-all", act: "cancel", short: "Cancel each action that matches", statuses: []string{"pending", "running"},
			example: "  orreryd actions cancel-all --label-kv team=web --reason \"wrong host\"\n  orreryd actions cancel-all --status running --dry-run",
			fields:  []field{reasonField(), cancelModeField()},
		}),
		of(all{use: "trigger-all", act: "trigger", short: "Run each pending action that matches now", statuses: []string{"pending"}}),
	}
}

func (a *app) recurringAll(s *scoped) []*cobra.Command {
	of := func(l all, state string) *cobra.Command {
		l.path, l.field, l.one, l.many, l.scope = "/v1/recurring", "recurring_actions", "recurring action", "recurring actions", s
		l.filters, l.fixed = []filter{labelled}, url.Values{"state": {state}}
		return l.command(a)
	}
	return []*cobra.Command{
		of(all{
			use: "pause-all", act: "pause", short: "Disable each recurring action of the tenant that is enabled and matches", fields: []field{reasonField(), untilField()},
			example: "  orreryd recurring pause-all --until 2026-02-11T06:00:00+01:00 --reason \"night\"",
		}, "on"),
		of(all{use: "resume-all", act: "resume", short: "Enable each recurring action of the tenant that is disabled, has not ended and matches"}, "paused"),
	}
}

func (a *app) jobsAll(s *scoped) []*cobra.Command {
	of := func(l all, state string) *cobra.Command {
		l.path, l.field, l.one, l.many, l.scope = "/v1/jobs", "jobs", "job", "jobs", s
		l.filters, l.fixed = []filter{labelled}, url.Values{"state": {state}}
		return l.command(a)
	}
	return []*cobra.Command{
		of(all{use: "pause-all", act: "pause", short: "Pause each job of the tenant that is not paused and matches", fields: []field{reasonField(), untilField()}}, "on"),
		of(all{use: "resume-all", act: "resume", short: "Let each paused job of the tenant that matches make runs again, if it has not ended"}, "paused"),
	}
}

func (a *app) runsAll() []*cobra.Command {
	of := func(l all) *cobra.Command {
		l.path, l.field, l.one, l.many, l.timed = "/v1/runs", "runs", "run", "runs", true
		l.filters = []filter{{flag: "job", usage: "only of that `job`"}}
		return l.command(a)
	}
	return []*cobra.Command{
		of(all{
			use: "cancel-all", act: "cancel", short: "Cancel each run that matches, and delete what it has in the cluster", fields: []field{reasonField()},
			statuses: []string{
				"pending", "running", "retrying", "pre_run", "condition_pending", "condition_running", "action_pending", "action_running", "container_creating",
			},
		}),
		of(all{use: "retry-all", act: "retry", short: "Begin the next attempt of each run that waits for it and matches", statuses: []string{"retrying"}}),
	}
}

// cancelAll is the command that cancels all machines of a kind that match.
func (a *app) cancelAll(path, one, many string, statuses ...string) *cobra.Command {
	return all{
		use: "cancel-all", act: "cancel", short: "Cancel each " + one + " that matches", path: "/v1/" + path, field: path, one: one, many: many, timed: true,
		statuses: statuses, fields: []field{reasonField()},
	}.command(a)
}

func (a *app) pipelinesAll() []*cobra.Command {
	return []*cobra.Command{
		all{
			use: "retry-all", act: "retry", short: "Run the phase again at which each pipeline that matches failed", path: "/v1/pipelines", field: "pipelines",
			one: "pipeline", many: "pipelines", timed: true, statuses: []string{"failed"},
		}.command(a),
		a.cancelAll("pipelines", "pipeline", "pipelines", "running", "blocked", "init"),
	}
}
