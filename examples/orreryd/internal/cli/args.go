package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// flagError says what is wrong with a flag in the words of this program: the
// library's are those of Go's parsers.
func flagError(_ *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("--%s: needs a value", missing.GetFlag().Name)
	}
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return &exitError{code: exitUsage, err: err}
	}
	f, value := bad.GetFlag(), text.Clip(bad.GetValue(), 60)
	switch f.Value.Type() {
	case "int", "uint32", "uint64":
		return usagef("--%s: %q is not a whole number in range", f.Name, value)
	case "bool":
		return usagef("--%s: %q is neither true nor false", f.Name, value)
	case "form":
		return usagef("--%s: %q is unknown: %w", f.Name, value, errors.Unwrap(bad))
	case "duration":
		return usagef("--%s: %q is not a duration such as 30s, 5m or 24h", f.Name, value)
	}
	return usagef("--%s: %q is not right: %w", f.Name, value, errors.Unwrap(bad))
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments: %q is one too many", cmd.CommandPath(), text.Clip(args[0], 60))
	}
	return nil
}

// oneArg wants one argument; its error names the argument.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usagef("%s is missing, as in: %s %s", name, cmd.CommandPath(), name)
		case 1:
			if args[0] == "" {
				return usagef("%s is empty: %s wants one", name, cmd.CommandPath())
			}
			return nil
		}
		return usagef("want one %s, got %d arguments", name, len(args))
	}
}

// oneID is the argument of most commands: an id, or the beginning of one.
func oneID(cmd *cobra.Command, args []string) error {
	if err := oneArg("ID")(cmd, args); err != nil {
		return err
	}
	return checkIDOrPrefix(args[0])
}

// oneIDOrName is the argument of commands about what may have a name: that, an id, or the beginning of one.
func oneIDOrName(cmd *cobra.Command, args []string) error {
	if err := oneArg("ID|NAME")(cmd, args); err != nil {
		return err
	}
	if core.IsGivenName(args[0]) {
		return nil
	}
	if err := checkIDOrPrefix(args[0]); err != nil {
		return fmt.Errorf("%w, or its name", err)
	}
	return nil
}

// checkID looks at an id that the user typed.
func checkID(s string) error {
	if id, err := uuid.Parse(s); err != nil || id == uuid.Nil {
		return usagef("%q is not an id: want a UUID such as 0193f2a4-5b6c-7d8e-9f01-23456789abcd", text.Clip(s, 60))
	}
	return nil
}

// flagged names the flag whose value an error is about.
func flagged(flag string, err error) error { return fmt.Errorf("--%s: %w", flag, err) }

// checkTime looks at a time that a flag gives.
func checkTime(flag, at string) error {
	if err := isTime(at); err != nil {
		return flagged(flag, err)
	}
	return nil
}

// momentOf reads the time that a flag gives, as such or as a duration before now.
func momentOf(flag, v string, now time.Time) (effects.Time, error) {
	if ago, err := time.ParseDuration(v); err == nil && ago >= 0 {
		return effects.TimeOf(now.Add(-ago)), nil
	}
	at, err := effects.ParseTime(v)
	if err != nil {
		return 0, usagef("--%s: %q is neither a time such as 2026-02-10T14:00:00Z nor a duration such as 24h", flag, text.Clip(v, 60))
	}
	return at, nil
}

// checkZone looks at a time zone that --tz gives; an empty one is the default.
func checkZone(zone string) error {
	if zone == "" {
		return nil
	}
	_, err := schedule.LoadZone(zone)
	return cronError(err)
}

// checkOneOf refuses a word that is not among those that a flag takes.
func checkOneOf(flag, v string, words []string) error {
	if slices.Contains(words, v) {
		return nil
	}
	last := len(words) - 1
	return usagef("--%s: %q is unknown: use %s or %s", flag, text.Clip(v, 60), strings.Join(words[:last], ", "), words[last])
}

// parseCron reads --cron and --tz, and says which of them is wrong.
func parseCron(expr, zone string) (*schedule.Schedule, error) {
	s, err := schedule.Parse(expr, cmp.Or(zone, "UTC"), effects.TimeOf(time.Now()))
	return s, cronError(err)
}

// warn says on stderr which parts of a schedule mean something else than they seem to.
func (a *app) warn(warnings []string) {
	for _, w := range warnings {
		text.Sayf(a.err, "orreryd: warning: %s\n", text.Clean(w))
	}
}

// cronError names the flag that a schedule's error is about.
func cronError(err error) error {
	flags := map[string]string{"timezone": "--tz", "dst": "--dst", "day_match": "--day-match"}
	wrong, ok := errors.AsType[*schedule.Error](err)
	switch {
	case err == nil:
		return nil
	case ok && flags[wrong.Field] != "":
		return usagef("%s: %s", flags[wrong.Field], wrong.Problem)
	case ok:
		return usagef("--cron: %s", wrong.Problem)
	}
	return usagef("--cron: %w", err)
}

// fixed completes a flag with words that are known beforehand.
func fixed(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(fmt.Sprintf("complete --%s: %v", flag, err)) // the command has no such flag, or completes it already
	}
}

// completeZone completes --tz.
func completeZone(cmd *cobra.Command) { fixed(cmd, "tz", schedule.ZoneNames()) }

// completeTimeout bounds how long a Tab waits for the daemon.
const completeTimeout = time.Second

// completing completes an argument with what the newest of a list are called, and what
// there is to say of them. If no daemon answers there is nothing to offer.
func completing[S any](a *app, path, field string, scope *scoped, line func(S) (name, about string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var offers []string
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		q := scope.query()
		q.Set("limit", "50")
		var answer map[string]json.RawMessage
		var list []S
		if _, err := c.json(ctx, request{method: http.MethodGet, path: path, query: q}, &answer); err == nil {
			_ = json.Unmarshal(answer[field], &list) // what cannot be read is not offered
		}
		for _, s := range list {
			name, about := line(s)
			offers = append(offers, name+"\t"+about)
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
}

// readArgument reads a value that may be given as @FILE or as - for stdin.
func (a *app) readArgument(flag, v string) ([]byte, error) {
	var b []byte
	var err error
	switch {
	case v == "-":
		b, err = io.ReadAll(a.in)
	case strings.HasPrefix(v, "@"):
		b, err = os.ReadFile(v[1:])
	default:
		return []byte(v), nil
	}
	if err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	return b, nil
}

// needJSON reads a value of JSON that may be given as @FILE or as - for stdin, and must not
// be empty.
func (a *app) needJSON(flag, v string) (json.RawMessage, error) {
	b, err := a.readArgument(flag, v)
	if err != nil {
		return nil, err
	}
	if !json.Valid(b) {
		return nil, usagef("--%s: %q is not valid JSON: a text stands in quotes", flag, text.Clip(string(b), 60))
	}
	return b, nil
}

// parsePairs reads KEY=VALUE flags.
func parsePairs(flag string, pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, usagef("--%s: %q is not KEY=VALUE", flag, p)
		}
		if _, twice := m[k]; twice {
			return nil, usagef("--%s: the key %q is there twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}
