package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// policyFields say what becomes of times that cannot be dispatched at once.
func policyFields() []field {
	seconds := func(flag, as, usage string) field {
		return flagField((*pflag.FlagSet).DurationVar, flag, 0, usage, func(_ *app, d time.Duration) (any, error) {
			if d < 0 || d%time.Second != 0 {
				return nil, usagef("--%s: %s is not a whole number of seconds", flag, d)
			}
			return int64(d / time.Second), nil
		}).as(as).ifGiven()
	}
	return []field{
		listField("calendar", "`NAME` of a calendar whose times are left out; may be repeated; an empty one stands for none", readAll(func(s string) (string, error) { return s, nil })).as("calendars"),
		givenTextField("overlap", "`policy` while an earlier time has not ended: allow (default), skip, buffer_one, buffer_all, cancel_other or terminate_other"),
		flagField((*pflag.FlagSet).Uint32Var, "buffer-limit", 0, "let at most that `number` of times wait, with --overlap buffer_all (default 100)", asIs[uint32]).ifGiven(),
		seconds("max-wait", "max_wait_seconds", "give up a time that has waited for that `duration`"),
		givenTextField("missed", "`policy` for the times of an outage: skip (default), latest or all"),
		seconds("catch-up", "catch_up_seconds", "catch up what is missed for no longer than that `duration`, with --missed latest or all"),
		flagField((*pflag.FlagSet).Uint32Var, "catch-up-limit", 0, "catch up at most that `number` of times after one outage (default 100)", asIs[uint32]).ifGiven(),
		seconds("catch-up-spacing", "catch_up_spacing_seconds", "leave that `duration` between two times that are caught up"),
	}
}

// untilField is when a pause ends by itself.
func untilField() field {
	return flagField((*pflag.FlagSet).StringVar, "until", "", "go on by itself at that `time`, in RFC 3339", timeOf("until")).ifGiven()
}

func (r *recurring) trigger() *cobra.Command {
	return r.verb(verb{
		use: "trigger", short: "Make one occurrence now; the schedule stays as it is", path: "trigger",
		example: "  orreryd recurring trigger ID\n  orreryd recurring trigger ID --payload '{\"argv\":[\"date\"]}'",
		fields: []field{flagField((*pflag.FlagSet).StringVar, "payload", "", "`JSON` object that the tool gets this once, instead of its own", func(_ *app, s string) (any, error) {
			if !json.Valid([]byte(s)) {
				return nil, usagef("--payload: %q is not JSON", text.Clip(s, 60))
			}
			return json.RawMessage(s), nil
		}).ifGiven()},
	})
}

// cancelWaiting is the command that cancels a time which waits for its turn.
func (r *recurring) cancelWaiting() *cobra.Command {
	var occurrence string
	cmd := r.sending(verb{
		use: "cancel-waiting ID --occurrence OCCURRENCE", short: "Cancel a time that waits for its turn", args: oneID, fields: []field{reasonField()},
	}, func(ctx context.Context, c *client, q request, args []string) error {
		if occurrence == "" {
			return usagef("--occurrence: missing: give the id that orreryd occurrences shows")
		}
		q.path = r.of(args[0], "waiting", occurrence, "cancel")
		return r.send(ctx, c, q, args)
	})
	cmd.Flags().StringVar(&occurrence, "occurrence", "", "`id` of the occurrence that waits")
	return cmd
}

// nextTimesTable shows the next times before an edit, and after it.
func nextTimesTable(before, after []effects.Time) table {
	at := func(times []effects.Time, i int) string {
		if i >= len(times) {
			return "-"
		}
		return shortTime(times[i])
	}
	var rows [][]string
	for i := range max(len(before), len(after)) {
		rows = append(rows, []string{at(before, i), at(after, i)})
	}
	return table{[]string{"NEXT BEFORE (UTC)", "NEXT NOW (UTC)"}, rows}
}

// nonZero prints a number; empty if it is 0.
func nonZero(n uint64) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

// overlapText says an overlap policy with its bounds; empty: the default.
func overlapText(p core.OverlapPolicy, o core.ScheduleOptions) string {
	if p.Plain() == core.OverlapAllow {
		return ""
	}
	parts := []string{string(p)}
	if o.BufferLimit > 0 {
		parts = append(parts, fmt.Sprintf("at most %d wait", o.BufferLimit))
	}
	if o.MaxWaitSeconds > 0 {
		parts = append(parts, upTo(o.MaxWaitSeconds))
	}
	return strings.Join(parts, ", ")
}

// missedText says a missed policy with its bounds; empty: the default.
func missedText(o core.ScheduleOptions) string {
	if o.Missed == "" || o.Missed == core.MissedSkip {
		return ""
	}
	parts := []string{string(o.Missed)}
	if o.CatchUpSeconds > 0 {
		parts = append(parts, "of the last "+(time.Duration(o.CatchUpSeconds)*time.Second).String())
	}
	if o.CatchUpLimit > 0 {
		parts = append(parts, fmt.Sprintf("at most %d", o.CatchUpLimit))
	}
	if o.CatchUpSpacingSeconds > 0 {
		parts = append(parts, "one each "+(time.Duration(o.CatchUpSpacingSeconds)*time.Second).String())
	}
	return strings.Join(parts, ", ")
}
