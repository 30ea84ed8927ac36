package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// policyFields say what becomes of times that cannot be dispatched at once.
func policyFields() []field {
	return []field{
		listField("calendar", "`NAME` of a calendar whose times are left out; may be repeated; an empty one stands for none", readAll(func(s string) (string, error) { return s, nil })).as("calendars"),
		wordField("overlap", "`policy` while an earlier time has not ended: allow (default), skip, buffer_one, buffer_all, cancel_other or terminate_other", overlapPolicies),
		flagField((*pflag.FlagSet).Uint32Var, "buffer-limit", 0, "let at most that `number` of times wait, with --overlap buffer_all (default 100)", asIs[uint32]).ifGiven(),
		secondsField("max-wait", "give up a time that has waited for that `duration`", 0),
		wordField("missed", "`policy` for the times of an outage: skip (default), latest or all", wordsOf(core.MissedSkip, core.MissedLatest, core.MissedAll)),
		secondsField("catch-up", "catch up what is missed for no longer than that `duration`, with --missed latest or all", 0),
		flagField((*pflag.FlagSet).Uint32Var, "catch-up-limit", 0, "catch up at most that `number` of times after one outage (default 100)", asIs[uint32]).ifGiven(),
		secondsField("catch-up-spacing", "leave that `duration` between two times that are caught up", 0),
		alertField(),
	}
}

// overlapPolicies are the words of --overlap: those of the policies, and two more for two of them.
var overlapPolicies = wordsOf(core.OverlapAllow, core.OverlapSkip, core.OverlapBufferOne, core.OverlapBufferAll,
	core.OverlapCancelOther, core.OverlapTerminateOther, core.OverlapForbid, core.OverlapReplace)

// checkEffect refuses options of a new schedule that its policies leave without an effect.
func (w *work) checkEffect() error {
	value := func(flag string) string { return w.cmd.Flag(flag).Value.String() }
	overlap, missed := core.OverlapPolicy(value("overlap")).Plain(), core.MissedPolicy(value("missed"))
	catchesUp := missed == core.MissedLatest || missed == core.MissedAll
	for _, o := range []struct {
		flag, with string
		has        bool
	}{
		{"buffer-limit", "--overlap buffer_all", overlap == core.OverlapBufferAll},
		{"max-wait", "--overlap buffer_one, buffer_all, cancel_other or terminate_other", overlap != core.OverlapAllow && overlap != core.OverlapSkip},
		{"catch-up", "--missed latest or all", catchesUp},
		{"catch-up-limit", "--missed all", missed == core.MissedAll},
		{"catch-up-spacing", "--missed all", missed == core.MissedAll},
	} {
		if v := value(o.flag); !o.has && v != "0" && v != "0s" {
			return usagef("--%s has an effect with %s only", o.flag, o.with)
		}
	}
	return nil
}

// untilField is when a pause ends by itself.
func untilField() field {
	return timeField("until", "go on by itself at that `time`, in RFC 3339")
}

func (r *recurring) trigger() *cobra.Command {
	return r.verb(verb{
		use: "trigger", short: "Make one occurrence now; the schedule stays as it is", path: "trigger",
		example: "  orreryd recurring trigger ID\n  orreryd recurring trigger ID --payload '{\"argv\":[\"date\"]}'",
		fields: []field{flagField((*pflag.FlagSet).StringVar, "payload", "",
			"the tool's input this once, instead of its own, an object: `JSON`, @FILE, or - for stdin", func(a *app, v string) (any, error) {
				return a.needJSON("payload", v)
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
			return usagef("--occurrence is missing: give an id that orreryd occurrences list --verdict waiting shows")
		}
		if err := checkID(occurrence); err != nil {
			return flagged("occurrence", err)
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
		parts = append(parts, waits(o.MaxWaitSeconds))
	}
	return strings.Join(parts, ", ")
}

// waits says how long a time may wait for its turn.
func waits(seconds int64) string {
	return "each for " + (time.Duration(seconds) * time.Second).String() + " at most"
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
