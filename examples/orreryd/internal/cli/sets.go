package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobfile"
	"github.com/orrery-go/orrery/shell/setfile"
)

const setsPath = "/v1/sets"

// setFlags are the flags of the commands that read the files of a set.
type setFlags struct {
	scope     scoped
	files     []string
	set       string
	variables []string
}

func (s *setFlags) addFiles(a *app, cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringArrayVarP(&s.files, "file", "f", nil, "`FOLDER` or file of the set; may be repeated")
	cmd.Flags().StringArrayVar(&s.variables, "var", nil, "`NAME=VALUE` of a variable that a file declares; may be repeated")
	return s.scope.addFlags(a, cmd)
}

func (s *setFlags) addSet(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&s.set, "set", "", "`name` of the set, which owns what its files declare")
	return cmd
}

// options say how the files are read, once there are some.
func (s *setFlags) options(cmd *cobra.Command) (setfile.Options, error) {
	if len(s.files) == 0 {
		return setfile.Options{}, usagef("-f is missing: name the folder with the files, as in: %s -f orrery/", cmd.CommandPath())
	}
	variables, err := parsePairs("var", s.variables)
	if err != nil {
		return setfile.Options{}, err
	}
	return setOptions(s.scope, variables)
}

// setOptions say how the files of a set are read.
func setOptions(of scoped, variables map[string]string) (setfile.Options, error) {
	checker, err := constraints.New(constraints.Options{})
	if err != nil {
		return setfile.Options{}, err
	}
	return setfile.Options{
		Namespace: of.namespace, Tenant: of.tenant, Variables: variables, Jobs: jobfile.Options{Validate: checker.ValidateAnywhere}, Paths: true,
	}, nil
}

// read reads the files; their tenant is the one that is given where they name none.
func (s *setFlags) read(cmd *cobra.Command) (*setfile.Files, error) {
	o, err := s.options(cmd)
	if err != nil {
		return nil, err
	}
	files, err := setfile.Read(s.files, o)
	if all, ok := errors.AsType[setfile.Errors](err); ok {
		return nil, fmt.Errorf("%s in the files of the set:\n%w", counted(len(all), "error"), all)
	}
	return files, wrongVariable(err)
}

// check reads the files, and says what is wrong with them, or ought to be looked at.
func (s *setFlags) check(a *app, cmd *cobra.Command) ([]shell.SetEntry, error) {
	o, err := s.options(cmd)
	if err != nil {
		return nil, err
	}
	entries, warnings, err := setfile.CheckFiles(s.files, o, effects.TimeOf(time.Now()))
	for _, w := range warnings {
		text.Sayf(a.err, "orreryd: warning: %s\n", text.Clean(w))
	}
	return entries, wrongVariable(err)
}

// wrongVariable says which value of --var is of no variable.
func wrongVariable(err error) error {
	if unknown, ok := errors.AsType[*setfile.UnknownVariableError](err); ok {
		return usagef("--var: %w", unknown)
	}
	return err
}

// warnOfShells says on stderr which commands of schedules have what only a shell understands.
func (a *app) warnOfShells(entries []shell.SetEntry) {
	for _, e := range entries {
		if e.Recurring == nil || e.Recurring.ActionTemplate.Provider != "command" {
			continue
		}
		var input struct {
			Argv []string `json:"argv"`
		}
		if json.Unmarshal(e.Recurring.ActionTemplate.Payload, &input) != nil || len(input.Argv) == 0 || len(shellIn(input.Argv)) == 0 {
			continue
		}
		text.Sayf(a.err, "orreryd: warning: %s: recurring %s: no shell runs the command, %q is passed to it as it is. For a shell write: command = [\"/bin/sh\", \"-c\", …]\n",
			text.Clean(e.File), text.Clean(e.Recurring.Name), text.Clip(text.Clean(shellIn(input.Argv)[0]), 60))
	}
}

func (a *app) applyCommand() *cobra.Command {
	var s setFlags
	var o wire.SetRequest
	cmd := &cobra.Command{
		Use:   "apply -f FOLDER --set NAME",
		Short: "Make what the files of a folder declare: schedules, jobs, queues, workers and more",
		Long: `Make what the files of a folder declare, all of it or, if one thing is refused, nothing.
What exists already is changed to what the files say, and what is so already is left
alone: a second time does nothing. A set owns what it has made. What its files do not
declare any more stays, and is named, unless --prune removes it: never for a folder
that declares nothing, and more than a third of what the set owns only with --most.
A pause by hand stays. What runs ends by itself, also if what started it is removed.

Files in TOML declare recurring actions, queues, semaphores, workers, calendars and
subscribers, files in YAML or JSON jobs, as "orreryd job apply" takes them.`,
		Example: "  orreryd apply -f orrery/ --set ops --dry-run\n  orreryd apply -f orrery/ --set ops --prune",
		Args:    onlyFiles,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		res, raw, files, err := a.sendSet(ctx, c, cmd, &s, o)
		if err != nil {
			return err
		}
		if err := a.show(json.RawMessage(raw), setText(res, files)); err != nil {
			return err
		}
		if res.Refused != "" {
			return errors.New(wouldRefuse(res))
		}
		return nil
	})
	f := cmd.Flags()
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&o.Prune, "prune", false, "remove what the set owns, and its files do not declare any more")
	f.BoolVar(&o.Most, "most", false, "with --prune: also if that is more than a third of what the set owns")
	f.BoolVar(&o.TakeOver, "take-over", false, "change what another set owns, which is then this one's")
	return a.addClientFlags(s.addSet(s.addFiles(a, cmd)))
}

func (a *app) diffCommand() *cobra.Command {
	var s setFlags
	cmd := &cobra.Command{
		Use:   "diff -f FOLDER --set NAME",
		Short: "Say where the daemon has something else than the files of a folder declare",
		Long: `Say where the daemon has something else than the files of a folder declare, as
"orreryd apply --prune --dry-run" would change it. The exit code is 0 where nothing is
different, 1 where something is, and 2 or more where that could not be told, or where
to apply the files would be refused.`,
		Example: "  orreryd diff -f orrery/ --set ops",
		Args:    onlyFiles,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		res, raw, files, err := a.sendSet(ctx, c, cmd, &s, wire.SetRequest{DryRun: true, Prune: true, Most: true})
		if err != nil {
			if coded, ok := errors.AsType[*exitError](err); ok && coded.code != exitFailed {
				return err
			}
			return &exitError{exitUsage, err}
		}
		if err := a.show(json.RawMessage(raw), setText(res, files)); err != nil {
			return err
		}
		if res.Refused != "" {
			return &exitError{exitUsage, errors.New(wouldRefuse(res))}
		}
		if n := changes(res); n > 0 {
			return fmt.Errorf("%s between the files and the daemon", counted(n, "difference"))
		}
		return nil
	})
	return a.addClientFlags(s.addSet(s.addFiles(a, cmd)))
}

// wouldRefuse says after the list of a dry run why applying the set would be refused.
func wouldRefuse(r wire.SetResult) string {
	n := 0
	for _, c := range r.Changes {
		if c.Action == "refused" {
			n++
		}
	}
	if n > 0 {
		return fmt.Sprintf("to apply it would be refused, for %s: see above", counted(n, "declaration"))
	}
	return "to apply it would be refused: " + inFlags(r.Refused)
}

// sendSet sends the files of a set.
func (a *app) sendSet(ctx context.Context, c *client, cmd *cobra.Command, s *setFlags, o wire.SetRequest) (res wire.SetResult, raw []byte, files *setfile.Files, err error) {
	if s.set == "" {
		return res, nil, nil, usagef("--set is missing: name the set, which owns what its files declare, as in --set ops")
	}
	if files, err = s.read(cmd); err != nil {
		return res, nil, nil, err
	}
	entries := files.Entries()
	a.warnOfShells(entries)
	o.Entries = make([]wire.SetEntry, len(entries))
	for i, e := range entries {
		o.Entries[i] = wireEntry(e)
	}
	raw, err = c.json(ctx, request{method: http.MethodPost, path: path.Join(setsPath, url.PathEscape(s.set)), body: o}, &res)
	return res, raw, files, inFiles(files, err)
}

// inFiles says of the declarations that a daemon refuses where they stand, with the words of their files.
func inFiles(files *setfile.Files, err error) error {
	refused, ok := errors.AsType[*setRefusedError](err)
	if !ok {
		return err
	}
	all := make(shell.SetErrors, len(refused.refused))
	for i, r := range refused.refused {
		all[i] = refusedEntry(r)
	}
	said := fmt.Errorf("the daemon refuses %s of the set, and has changed nothing:\n%s", counted(len(all), "declaration"), text.CleanLines(inFlags(files.Explain(all).Error())))
	if coded, ok := errors.AsType[*exitError](err); ok {
		return &exitError{coded.code, said}
	}
	return said
}

func refusedEntry(r wire.SetRefused) *shell.SetError {
	return &shell.SetError{File: r.File, Kind: r.Kind, Name: r.Name, Err: errors.New(r.Reason)}
}

// wireEntry is a declaration as the API takes it.
func wireEntry(e shell.SetEntry) wire.SetEntry {
	out := wire.SetEntry{File: e.File, Was: e.Was}
	switch {
	case e.Recurring != nil:
		r := e.Recurring
		t := r.ActionTemplate
		out.Recurring = &wire.RecurringRequest{
			Name: r.Name, Namespace: &r.Namespace, Tenant: &r.Tenant, CronExpr: r.CronExpr, Timezone: unlessEmpty(r.Timezone), Provider: t.Provider,
			ActionType: t.ActionType, Payload: t.Payload, Metadata: t.Metadata, DedupKey: unlessEmpty(t.DedupKey), Description: unlessEmpty(r.Description),
			Labels: r.Labels, Enabled: &r.Enabled, StartDeadlineSeconds: &r.StartDeadlineSeconds, ScheduleOptions: r.ScheduleOptions, Overlap: r.Overlap, Policy: wirePolicy(r.Policy),
		}
		if !r.EndsAt.IsZero() {
			out.Recurring.EndsAt = &r.EndsAt
		}
	case e.Job != nil:
		j := e.Job
		out.Job = &wire.SetJob{ID: j.ID, JobRequest: wire.JobRequest{
			Namespace: &j.Namespace, Tenant: &j.Tenant, Name: j.Name, Schedule: j.Schedule, Timezone: j.Timezone, PodSpec: j.PodSpec,
			ConstraintConfig: j.ConstraintConfig, ActionConfig: j.ActionConfig, RetryConfig: j.RetryConfig, Overlap: j.Overlap,
			StartDeadlineSeconds: j.StartDeadlineSeconds, MaxConcurrentRuns: j.MaxConcurrentRuns, OrphanPolicy: j.OrphanPolicy,
			PodStartTimeoutMS: j.PodStartTimeoutMS, CreateAheadMS: j.CreateAheadMS, TTLSecondsAfterFinished: j.TTLSecondsAfterFinished,
			ConstraintErrors: j.ConstraintErrors, Logs: j.Logs, Labels: j.Labels, Runner: j.Runner, EndsAt: j.EndsAt, ScheduleOptions: j.ScheduleOptions,
		}}
	case e.Queue != nil:
		out.Queue = &wire.SetQueue{Namespace: &e.Queue.Namespace, Tenant: &e.Queue.Tenant, Name: e.Queue.Name, Config: e.Queue.Config}
	case e.Semaphore != nil:
		out.Semaphore = &wire.SetSemaphore{Namespace: &e.Semaphore.Namespace, Tenant: &e.Semaphore.Tenant, Name: e.Semaphore.Name, Slots: e.Semaphore.Slots}
	case e.Worker != nil:
		w := e.Worker
		out.Worker = &wire.SetWorker{
			Namespace: &w.Namespace, Tenant: &w.Tenant, Name: w.Name,
			WorkerRequest: wire.WorkerRequest{Queue: w.Queue, Concurrency: w.Concurrency, PollMS: w.PollMS, Do: w.Do},
		}
	case e.Calendar != nil:
		k := e.Calendar
		out.Calendar = &wire.CalendarRequest{
			Name: k.Name, Namespace: &k.Namespace, Tenant: &k.Tenant, Timezone: k.Timezone, Description: k.Description, Exclude: k.Exclude, Include: k.Include,
		}
	case e.Subscriber != nil:
		b := e.Subscriber
		out.Subscriber = &wire.SetSubscriber{
			Namespace: &b.Namespace, Tenant: &b.Tenant, Name: b.Name, SubscriberRequest: wire.SubscriberRequest{Match: b.Match, Do: b.Do},
		}
	}
	return out
}

// wirePolicy gives a policy as the API takes it; nil: that of who says nothing.
func wirePolicy(p core.RunPolicy) *wire.RunPolicy {
	if reflect.ValueOf(p).IsZero() {
		return nil
	}
	p.OnInterrupt, p.MaxAttempts = cmp.Or(p.OnInterrupt, core.InterruptFail), cmp.Or(p.MaxAttempts, core.DefaultMaxAttempts)
	return &wire.RunPolicy{RunPolicy: p}
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// changes counts what a set changes, or would.
func changes(r wire.SetResult) (n int) {
	for _, c := range r.Changes {
		if did := setWords[c.Action]; did.changes {
			n++
		}
	}
	return n
}

// setWords say what is done to one thing.
var setWords = map[string]struct {
	did, would string
	changes    bool
}{
	"create": {"created", "would create", true}, "update": {"changed", "would change", true}, "adopt": {"adopted", "would adopt", true},
	"remove": {"removed", "would remove", true}, "leave": {"left", "leaves", false}, "none": {"unchanged", "unchanged", false},
	"refused": {"refused", "would refuse", false},
}

// setText says for people what became of a set.
func setText(r wire.SetResult, files *setfile.Files) string {
	var says strings.Builder
	counts := map[string]int{}
	for _, c := range r.Changes {
		counts[c.Action]++
		word := setWords[c.Action].did
		if !r.Applied {
			word = setWords[c.Action].would
		}
		if c.Action == "none" && c.ID == uuid.Nil {
			word = "left out" // it has ended
		}
		if c.Action == "none" && len(c.Notes) == 0 {
			continue
		}
		where := text.Clean(c.File)
		if c.Action == "leave" && len(c.Notes) > 0 {
			where = "was declared in " + where
		} else if c.Action == "leave" {
			where = "was declared in " + where + "; --prune removes it"
		}
		fmt.Fprintf(&says, "%s %s %s  (%s)\n", word, c.Kind, text.Clean(setName(c)), where)
		if c.Was != "" && c.Was != c.Name {
			fmt.Fprintf(&says, "    was %s\n", text.Clean(c.Was))
		}
		for _, f := range c.Fields {
			fmt.Fprintf(&says, "    %s: %s → %s\n", text.Clean(f.Field), definedText(f.Before), definedText(f.After))
		}
		for _, n := range notesOf(c, files) {
			fmt.Fprintf(&says, "    %s\n", text.Clean(n))
		}
		if len(c.NextTimes) > 0 {
			fmt.Fprintf(&says, "    next (UTC): %s\n", setTimes(c.NextTimes))
		}
		if len(c.NextTimesBefore) > 0 {
			fmt.Fprintf(&says, "    before:     %s\n", setTimes(c.NextTimesBefore))
		}
	}
	var parts []string
	for _, action := range []string{"refused", "create", "update", "adopt", "remove", "leave", "none"} {
		n := counts[action]
		switch {
		case n == 0:
		case r.Applied || action == "none" || action == "leave":
			parts = append(parts, fmt.Sprintf("%d %s", n, setWords[action].did))
		default:
			parts = append(parts, fmt.Sprintf("%d would be %s", n, setWords[action].did))
		}
	}
	if len(parts) == 0 {
		parts = []string{"it declares nothing"}
	}
	was := ""
	if !r.Applied {
		was = " (nothing was done)"
	}
	fmt.Fprintf(&says, "set %s: %s%s\n", r.Set, strings.Join(parts, ", "), was)
	return says.String()
}

// notesOf are the notes of a change; if it is refused, with the places and words of its file.
func notesOf(c wire.SetChange, files *setfile.Files) []string {
	if c.Action != "refused" {
		return c.Notes
	}
	reason := strings.Join(c.Notes, "\n")
	why := files.Explain(refusedEntry(wire.SetRefused{File: c.File, Kind: c.Kind, Name: c.Name, Reason: reason}))
	if located, ok := errors.AsType[setfile.Errors](why); ok {
		reason = located.Error()
	}
	return strings.Split(inFlags(reason), "\n")
}

// setName is the name of what a set changes, with its tenant where that is not the default one.
func setName(c wire.SetChange) string {
	if of := c.Namespace + "/" + c.Tenant; of != "default/default" && of != "/" {
		return c.Name + " of " + of
	}
	return c.Name
}

func definedText(v json.RawMessage) string {
	if len(v) == 0 {
		return "-"
	}
	return text.Clip(text.Clean(string(v)), 100)
}

func setTimes(times []effects.Time) string {
	texts := make([]string, len(times))
	for i, t := range times {
		texts[i] = shortTime(t)
	}
	return strings.Join(texts, ", ")
}

func (a *app) setsCommand() *cobra.Command {
	return group("sets", "Check the files of a set, and list what sets own", "A set of files declares schedules, jobs, queues, workers and more; \"orreryd apply\" makes them.",
		a.setsList(), a.setsCheck(), a.setsSchema())
}

func (a *app) setsList() *cobra.Command {
	cmd := listing[wire.Declared]{
		path: setsPath, field: "declared", none: "no set owns anything, or none of that name", short: "List what sets own, the latest first",
		example: "  orreryd sets list\n  orreryd sets list --set ops",
		filters: []filter{{flag: "set", usage: "only what the set of that `name` owns"}},
		name:    func(d wire.Declared) string { return d.Name },
		header:  []string{"SET:40", "KIND", "NAME:40", "SCOPE:40", "FILE:60", "SINCE (UTC)"},
		row: func(d wire.Declared) []string {
			return []string{d.Set, d.Kind, d.Name, text.OrDash(strings.Trim(d.Namespace+"/"+d.Tenant, "/")), text.OrDash(d.File), shortTime(d.Since)}
		},
	}.command(a)
	return a.addClientFlags(cmd)
}

func (a *app) setsCheck() *cobra.Command {
	var s setFlags
	cmd := &cobra.Command{
		Use:   "check -f FOLDER",
		Short: "Check the files of a set without a daemon, and say all that is wrong with them",
		Long: `Check the files of a set without a daemon: every key, every value, the schedules, and
what declarations say of one another. Each error stands on a line of its own, as
FILE:LINE:COLUMN: KEY: PROBLEM, which editors can follow; the exit code is 1 where
there is one. What only the daemon knows, such as which tools there are, "orreryd
apply --dry-run" checks.`,
		Example: "  orreryd sets check -f orrery/",
		Args:    onlyFiles,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		entries, err := s.check(a, cmd)
		wrong, ok := errors.AsType[setfile.Errors](err)
		if err != nil && !ok {
			return err
		}
		a.warnOfShells(entries)
		says := fmt.Sprintf("ok: %s\n", counted(len(entries), "declaration"))
		switch {
		case ok:
			says = text.CleanLines(wrong.Error()) + "\n"
		case len(entries) == 0:
			says = "no declarations: there is no file in .toml, .yaml, .yml or .json here that declares something\n"
		}
		if err := a.show(map[string]any{"declarations": len(entries), "errors": append(setfile.Errors{}, wrong...)}, says); err != nil {
			return err
		}
		if ok {
			return fmt.Errorf("%s in the files of the set", counted(len(wrong), "error"))
		}
		return nil
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return s.addFiles(a, cmd)
}

func (a *app) setsSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the files in TOML, for editors",
		Example: "  orreryd sets schema > orrery-set.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(setfile.Schema())
			return err
		},
	}
}
