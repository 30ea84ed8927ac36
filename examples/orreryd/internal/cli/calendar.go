package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/icalendar"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/setfile"
)

// calendars are the commands about calendars.
type calendars struct {
	machine[wire.Calendar]
	scope scoped
}

func (a *app) calendarsCommand() *cobra.Command {
	c := &calendars{}
	c.machine = machine[wire.Calendar]{
		a: a, path: "/v1/calendars", arg: "NAME", args: oneArg("NAME"), scope: &c.scope, view: calendarView,
		id: func(v wire.Calendar) string { return v.Name },
	}
	return a.addClientFlags(group("calendars", "Make, change and show the calendars of schedules",
		"A calendar has named dates and weekly windows, in a zone, at which the schedules that name it dispatch nothing.",
		a.withScope(&c.scope, c.list(), c.show("Show a calendar"), c.add(), c.update(), c.delete(), c.importing())...))
}

func (c *calendars) list() *cobra.Command {
	return listing[wire.Calendar]{
		path: c.path, field: "calendars", none: "no calendars", short: "List calendars, newest first",
		name:   func(v wire.Calendar) string { return v.Name },
		header: []string{"NAME:40", "SCOPE:40", "ZONE", "DATES", "WINDOWS", "LAST DATE"},
		row: func(v wire.Calendar) []string {
			return []string{
				v.Name, v.Namespace + "/" + v.Tenant, v.Timezone, number(len(v.Exclude.Dates) + len(v.Include.Dates)),
				number(len(v.Exclude.Weekly) + len(v.Include.Weekly)), text.OrDash(v.LastDate),
			}
		},
	}.command(c.a)
}

func calendarView(v wire.Calendar) view {
	var rows [][]string
	for _, of := range []struct {
		what string
		core.CalendarDays
	}{{"exclude", v.Exclude}, {"include", v.Include}} {
		for _, d := range of.Dates {
			rows = append(rows, []string{of.what, d.String()})
		}
		for _, w := range of.Weekly {
			rows = append(rows, []string{of.what, w.String()})
		}
	}
	return view{
		fields: [][2]string{
			{"name", v.Name}, {"scope", v.Namespace + "/" + v.Tenant}, {"zone", v.Timezone}, {"description", v.Description},
			{"revision", number(v.Revision)}, {"used by", nonZero(v.Uses)}, {"last date", v.LastDate}, {"warning", strings.Join(v.Warnings, "; ")},
		},
		tables: []table{{[]string{"", "DATES AND WINDOWS:100"}, rows}},
	}
}

const calendarExample = `  orreryd calendars add holidays-de --tz Europe/Berlin --exclude "2026-12-25..2026-12-26=Christmas"
  orreryd calendars add office --include-weekly "mon-fri 08:00-18:00" --exclude 2027-01-01`

func (c *calendars) add() *cobra.Command {
	return c.verb(verb{
		use: "add", short: "Make a calendar", example: calendarExample, makes: true,
		fields: append(calendarFields(), field{name: "name", value: func(_ *app, args []string) (any, error) { return args[0], nil }}),
	})
}

func (c *calendars) update() *cobra.Command {
	return c.sending(verb{
		use: "update", short: "Change what is given of a calendar, and show which schedules that moves", method: http.MethodPut,
		example: "  orreryd calendars update holidays-de --exclude \"2027-12-25..2027-12-26=Christmas\"\n  orreryd calendars update office --include-weekly \"\"",
		long: `Change a calendar: --exclude and --exclude-weekly together replace all that was
excluded, --include and --include-weekly all that was included. An empty value clears.
The schedules whose next times change are printed, with these times.`,
		fields: calendarFields(),
	}, func(ctx context.Context, cl *client, q request, _ []string) error {
		if len(q.fields) == 0 {
			return usagef("say what to change, such as --exclude 2026-12-25")
		}
		var changed wire.CalendarChanged
		raw, err := cl.json(ctx, q, &changed)
		if err != nil {
			return err
		}
		v := calendarView(changed.Calendar)
		first := func(times []effects.Time) string {
			if len(times) == 0 {
				return "-"
			}
			return shortTime(times[0])
		}
		var rows [][]string
		for _, m := range changed.Moved {
			rows = append(rows, []string{string(m.Kind), m.ID, m.Name, first(m.NextTimesBefore), first(m.NextTimes)})
		}
		v.tables = append(v.tables, table{[]string{"MOVED", "ID:40", "NAME:40", "NEXT BEFORE (UTC)", "NEXT NOW (UTC)"}, rows})
		return c.a.print(raw, v)
	})
}

func (c *calendars) delete() *cobra.Command {
	var force bool
	cmd := c.sending(verb{use: "delete", short: "Delete a calendar that no schedule names", method: http.MethodDelete}, func(ctx context.Context, cl *client, q request, args []string) error {
		if force {
			q.query.Set("force", "true")
		}
		raw, err := cl.json(ctx, q, nil)
		if err != nil {
			return err
		}
		return c.a.printLine(raw, "deleted "+text.Clean(args[0]))
	})
	cmd.Flags().BoolVar(&force, "force", false, "delete it although schedules name it: they skip all their times then")
	return cmd
}

func calendarFields() []field {
	return []field{
		flagField((*pflag.FlagSet).StringVar, "tz", "", "time `zone` in which dates begin and windows are meant (default UTC)", func(_ *app, zone string) (any, error) {
			if zone == "" {
				return nil, nil
			}
			return zone, checkZone(zone)
		}).as("timezone"),
		givenTextField("description", "`text` that says what it is"),
		daysField("exclude", "leave out"), daysField("include", "let through only"),
	}
}

// daysField are dates and windows; left out if no flag is given.
func daysField(name, does string) field {
	days := nested(name,
		listField(name, "`DATES` to "+does+": DATE[..DATE][=NAME]; may be repeated", readAll(func(s string) (core.CalendarDate, error) { return setfile.ParseDate(s), nil })).as("dates"),
		listField(name+"-weekly", "`WINDOW` to "+does+" each week: DAYS[ FROM-TO][=NAME], such as \"sat,sun\" or \"mon-fri 22:00-06:00\"; may be repeated", readAll(setfile.ParseWindow)).as("weekly"))
	value := days.value
	days.value = func(a *app, args []string) (any, error) {
		v, err := value(a, args)
		if body, ok := v.(map[string]any); ok && len(body) == 0 {
			return nil, err
		}
		return v, err
	}
	return days
}

// readAll reads each value of a flag; an empty one stands for none.
func readAll[T any](read func(string) (T, error)) func(flag string, list []string) ([]T, error) {
	return func(flag string, list []string) ([]T, error) {
		out := []T{}
		for _, s := range list {
			if s == "" {
				continue
			}
			v, err := read(s)
			if err != nil {
				return nil, usagef("--%s: %w", flag, err)
			}
			out = append(out, v)
		}
		return out, nil
	}
}

// importing is the command that makes dates of an iCalendar file.
func (c *calendars) importing() *cobra.Command {
	var years uint
	var include bool
	var zone string
	cmd := &cobra.Command{
		Use:   "import NAME FILE.ics",
		Short: "Take the dates of a calendar from an iCalendar file",
		Long: "The whole days of the file's events, from today on, become the dates of the calendar, instead of those that it has;\n" +
			"its windows stay. A calendar that does not exist is made. Events of a time of day are left out, and named on stderr.",
		Example: "  orreryd calendars import holidays-de holidays.ics --tz Europe/Berlin\n  curl -s https://example.com/holidays.ics | orreryd calendars import holidays-de -",
		Args:    nameAndFile,
	}
	cmd.Flags().UintVar(&years, "years", 5, "`number` of years ahead for which days that recur are taken, at most 100")
	cmd.Flags().BoolVar(&include, "include", false, "let schedules through only on these dates, instead of leaving the dates out")
	cmd.Flags().StringVar(&zone, "tz", "", "time `zone` in which the dates begin (default that of the calendar, or UTC)")
	cmd.RunE = c.a.withClient(func(ctx context.Context, cl *client, args []string) error {
		today := time.Now().UTC().Truncate(24 * time.Hour)
		if years < 1 || years > 100 {
			return usagef("--years: %d is not between 1 and 100", years)
		}
		if err := checkZone(zone); err != nil {
			return err
		}
		found, err := c.readFile(args[1], today, today.AddDate(int(years), 0, 0))
		if err != nil {
			return err
		}
		r, err := c.imported(ctx, cl, args[0], found, include, zone)
		if err != nil {
			return err
		}
		return c.send(ctx, cl, r, args)
	})
	return cmd
}

// nameAndFile are the arguments of import.
func nameAndFile(cmd *cobra.Command, args []string) error {
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return usagef("want NAME and FILE.ics, got %d arguments, as in: %s holidays holidays.ics", len(args), cmd.CommandPath())
	}
	return nil
}

// readFile reads an iCalendar file, or stdin if its name is "-".
func (c *calendars) readFile(name string, from, until time.Time) ([]core.CalendarDate, error) {
	in := c.a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it is only read
		in = f
	}
	found, err := icalendar.Read(in, from, until)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text.Clean(name), err)
	}
	for _, event := range found.TimesOfDay {
		text.Sayf(c.a.err, "%s: left out: %q is no whole day\n", text.Clean(name), text.Clip(event, 80))
	}
	if len(found.Dates) == 0 {
		return nil, fmt.Errorf("%s: it has no whole day from %s until %s", text.Clean(name), from.Format(time.DateOnly), until.Format(time.DateOnly))
	}
	return found.Dates, nil
}

// imported is the request that gives a calendar the dates.
func (c *calendars) imported(ctx context.Context, cl *client, name string, dates []core.CalendarDate, include bool, zone string) (request, error) {
	field := "exclude"
	if include {
		field = "include"
	}
	days := core.CalendarDays{Dates: dates}
	body := map[string]any{}
	if zone != "" {
		body["timezone"] = zone
	}
	r := request{method: http.MethodPut, path: c.of(name), query: c.scope.query(), body: body}
	var present wire.Calendar
	_, err := cl.json(ctx, request{method: http.MethodGet, path: c.of(name), query: c.scope.query()}, &present)
	coded, ok := errors.AsType[*exitError](err)
	switch {
	case ok && coded.code == exitNotFound:
		r.method, r.path, body["name"] = http.MethodPost, c.path, name
	case err != nil:
		return r, err
	default:
		body["revision"] = present.Revision
		days.Weekly = present.Exclude.Weekly
		if include {
			days.Weekly = present.Include.Weekly
		}
	}
	body[field] = days
	return r, nil
}
