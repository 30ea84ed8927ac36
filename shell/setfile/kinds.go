package setfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// body is a file in TOML. A text of Go's that is empty, a number that is 0 and a list that is empty stand for what is left
// out.
type body struct {
	Namespace string            `toml:"namespace,omitempty" doc:"namespace of all that the file declares"`
	Tenant    string            `toml:"tenant,omitempty" doc:"tenant of all that the file declares"`
	Variables map[string]string `toml:"variables,omitempty" doc:"variables that the texts of this file name as ${name}, and their values if no other is given"`
	Runbooks  []string          `toml:"runbooks,omitempty" doc:"runbook files beside this one, whose queues, semaphores, workers and subscribers belong to the set"`

	Calendars   map[string]calendarTable   `toml:"calendars,omitempty"`
	Queues      map[string]queueTable      `toml:"queues,omitempty"`
	Semaphores  map[string]semaphoreTable  `toml:"semaphores,omitempty"`
	Workers     map[string]workerTable     `toml:"workers,omitempty"`
	Recurring   map[string]recurringTable  `toml:"recurring,omitempty"`
	Subscribers map[string]subscriberTable `toml:"subscribers,omitempty"`
}

// kinds are the kinds of tables: those of a file in the order in which they are declared.
var kinds = []struct {
	table   string
	declare func(l *loader, d *document, of core.Scope)
}{
	{"calendars", each(func(b *body) map[string]calendarTable { return b.Calendars }, calendarTable.entry)},
	{"queues", each(func(b *body) map[string]queueTable { return b.Queues }, queueTable.entry)},
	{"semaphores", each(func(b *body) map[string]semaphoreTable { return b.Semaphores }, semaphoreTable.entry)},
	{"workers", each(func(b *body) map[string]workerTable { return b.Workers }, workerTable.entry)},
	{"recurring", each(func(b *body) map[string]recurringTable { return b.Recurring }, recurringTable.entry)},
	{"subscribers", each(func(b *body) map[string]subscriberTable { return b.Subscribers }, subscriberTable.entry)},
}

// each declares the tables of one kind, by their names.
func each[T any](tables func(*body) map[string]T, entry func(t T, name string, of core.Scope, v *values) shell.SetEntry) func(*loader, *document, core.Scope) {
	return func(l *loader, d *document, of core.Scope) {
		all := tables(&d.body)
		kind := kindName(all)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			v := &values{say: func(key, format string, args ...any) { l.say(d, join(join(kind, name), key), format, args...) }}
			if name == "" {
				v.say("", "the name is empty")
				continue
			}
			e := entry(all[name], name, of, v)
			e.File = d.file.name
			l.tables[len(l.entries)] = table{d, join(kind, name)}
			l.entries = append(l.entries, e)
		}
	}
}

// kindName is the key of the tables of one type.
func kindName(tables any) string {
	for f := range reflect.TypeFor[body]().Fields() {
		if f.Type == reflect.TypeOf(tables) {
			return keyOf(f)
		}
	}
	return ""
}

// recurringTable is a [recurring.NAME]: its keys are the flags of "orreryd recurring add", with "_" for "-".
type recurringTable struct {
	Was         string            `toml:"was,omitempty" doc:"name that it had before; its history stays"`
	Cron        string            `toml:"cron" doc:"cron expression of 5, 6 or 7 fields"`
	TZ          string            `toml:"tz,omitempty" doc:"time zone of cron, such as Europe/Berlin; default UTC"`
	Description string            `toml:"description,omitempty"`
	Disabled    bool              `toml:"disabled,omitempty" doc:"it does not fire"`
	Command     []string          `toml:"command,omitempty" doc:"program and its arguments, without a shell in between"`
	Tool        string            `toml:"tool,omitempty" doc:"tool that does the work; default: command, if there is one"`
	Type        string            `toml:"type,omitempty" doc:"action type, for tools that tell types apart; default: the tool"`
	Input       map[string]any    `toml:"input,inline,omitempty" doc:"the tool's input"`
	InputJSON   string            `toml:"input_json,omitempty" doc:"the tool's input as JSON, byte for byte"`
	DedupKey    string            `toml:"dedup_key,omitempty" doc:"key that only one live action may have; {{recurring_id}} and {{execution_time}} expand"`
	Meta        map[string]string `toml:"meta,inline,omitempty" doc:"metadata of the actions"`
	Labels      map[string]string `toml:"labels,inline,omitempty" doc:"labels, to filter by"`

	StartsAt      string   `toml:"starts_at,omitempty" doc:"no time before that one is due, in RFC 3339"`
	EndsAt        string   `toml:"ends_at,omitempty" doc:"no time from that one on is due, in RFC 3339"`
	MaxExecutions uint64   `toml:"max_executions,omitempty" doc:"the schedule ends after that many dispatches"`
	Jitter        duration `toml:"jitter,omitempty" doc:"each time is dispatched up to that much later, to spread them"`
	StartDeadline duration `toml:"start_deadline,omitempty" doc:"how late a time may be dispatched; later it is missed; default 2m"`
	DST           string   `toml:"dst,omitempty" enum:"once_shifted,skip,twice"`
	DayMatch      string   `toml:"day_match,omitempty" enum:"either,both" doc:"which days are meant where both day fields are restricted"`
	Calendars     []string `toml:"calendars,omitempty" doc:"calendars whose times are left out"`

	Overlap        string   `toml:"overlap,omitempty" enum:"allow,skip,buffer_one,buffer_all,cancel_other,terminate_other,forbid,replace"`
	BufferLimit    uint32   `toml:"buffer_limit,omitempty"`
	MaxWait        duration `toml:"max_wait,omitempty"`
	Missed         string   `toml:"missed,omitempty" enum:"skip,latest,all"`
	CatchUp        duration `toml:"catch_up,omitempty"`
	CatchUpLimit   uint32   `toml:"catch_up_limit,omitempty"`
	CatchUpSpacing duration `toml:"catch_up_spacing,omitempty"`
	OnInterrupt    string   `toml:"on_interrupt,omitempty" enum:"fail,retry"`
	OnFailure      string   `toml:"on_failure,omitempty" enum:"fail,retry"`
	MaxAttempts    uint32   `toml:"max_attempts,omitempty"`
	Timeout        duration `toml:"timeout,omitempty" doc:"time limit of one run"`
	Backoff        duration `toml:"backoff,omitempty"`
	BackoffFactor  uint32   `toml:"backoff_factor,omitempty" doc:"percent by which the wait grows each time, from 100; default 200"`
	BackoffMax     duration `toml:"backoff_max,omitempty"`
	BackoffJitter  uint32   `toml:"backoff_jitter,omitempty" doc:"percent of the wait that may be cut off"`
	NoRetry        []string `toml:"no_retry,omitempty" doc:"patterns of reasons after which no attempt follows"`

	Alerts *alertsTable `toml:"alerts,omitempty" doc:"of what there is an alert"`
}

// alertsTable is the table "alerts" of a schedule: the words of [core.AlertRules.Set].
type alertsTable struct {
	Late    string `toml:"late,omitempty" doc:"a time has not begun so long after it, such as 10m"`
	Missed  bool   `toml:"missed,omitempty" doc:"times passed without a dispatch"`
	Stale   string `toml:"stale,omitempty" doc:"nothing has succeeded for so long, such as 26h, or since the schedule was made"`
	Failing uint32 `toml:"failing,omitempty" doc:"so many have failed in a row"`
	Slow    string `toml:"slow,omitempty" doc:"something runs for longer: 2h, or 3x for three times as long as usual, or both with a comma between"`
	Channel string `toml:"channel,omitempty" doc:"channel of notifications that gets a message; left out: the bus alone is told"`
}

func (t *alertsTable) rules(v *values) (r core.AlertRules) {
	if t == nil {
		return r
	}
	set := func(word, value string) {
		if value == "" {
			return
		}
		if err := r.Set(word, value); err != nil {
			v.say("alerts."+word, "%s", err)
		}
	}
	set("late", t.Late)
	set("stale", t.Stale)
	set("slow", t.Slow)
	if t.Failing > 0 {
		set("failing", strconv.FormatUint(uint64(t.Failing), 10))
	}
	r.Missed, r.Channel = t.Missed, t.Channel
	return r
}

func tableOfAlerts(r core.AlertRules) *alertsTable {
	if r == (core.AlertRules{}) {
		return nil
	}
	t := &alertsTable{Missed: r.Missed, Failing: r.Failing, Channel: r.Channel}
	for _, rule := range r.Words() {
		switch word, value, _ := strings.Cut(rule, "="); word {
		case "late":
			t.Late = value
		case "stale":
			t.Stale = value
		case "slow":
			t.Slow = value
		}
	}
	return t
}

// commandTool is the tool that "command" stands for, and commandInput its input.
const commandTool = "command"

type commandInput struct {
	Argv []string `json:"argv"`
}

func (t recurringTable) entry(name string, of core.Scope, v *values) shell.SetEntry {
	s := core.RecurringSpec{
		Namespace: of.Namespace, Tenant: of.Tenant, Name: name, CronExpr: t.Cron, Timezone: t.TZ, Enabled: !t.Disabled, Description: t.Description,
		Labels: t.Labels, EndsAt: v.time("ends_at", t.EndsAt), StartDeadlineSeconds: v.seconds("start_deadline", t.StartDeadline),
		Overlap: core.OverlapPolicy(v.word("overlap", t.Overlap, t)),
		ScheduleOptions: core.ScheduleOptions{
			DST: schedule.DST(v.word("dst", t.DST, t)), DayMatch: schedule.DayMatch(v.word("day_match", t.DayMatch, t)),
			StartsAt: v.time("starts_at", t.StartsAt), MaxExecutions: t.MaxExecutions, JitterSeconds: v.seconds("jitter", t.Jitter),
			Calendars: t.Calendars, Missed: core.MissedPolicy(v.word("missed", t.Missed, t)), CatchUpSeconds: v.seconds("catch_up", t.CatchUp),
			CatchUpLimit: t.CatchUpLimit, CatchUpSpacingSeconds: v.seconds("catch_up_spacing", t.CatchUpSpacing),
			BufferLimit: t.BufferLimit, MaxWaitSeconds: v.seconds("max_wait", t.MaxWait), Alerts: t.Alerts.rules(v),
		},
		Policy: core.RunPolicy{
			OnInterrupt: core.OnInterrupt(v.word("on_interrupt", t.OnInterrupt, t)), OnFailure: core.OnFailure(v.word("on_failure", t.OnFailure, t)),
			MaxAttempts: t.MaxAttempts, TimeoutMS: v.millis("timeout", t.Timeout),
		},
		ActionTemplate: core.RecurringActionTemplate{
			Provider: t.Tool, ActionType: t.Type, Payload: v.json("input", t.Input, t.InputJSON), Metadata: t.Meta, DedupKey: t.DedupKey,
		},
	}
	if t.Cron == "" {
		v.say("cron", "is missing: say when, as in cron = \"0 9 * * MON-FRI\"")
	}
	wait := core.Backoff{
		InitialMS: v.millis("backoff", t.Backoff), FactorPercent: t.BackoffFactor, MaxMS: v.millis("backoff_max", t.BackoffMax),
		JitterPercent: t.BackoffJitter, NoRetry: t.NoRetry,
	}
	if !reflect.ValueOf(wait).IsZero() {
		s.Policy.Backoff = &wait
	}
	a := &s.ActionTemplate
	switch {
	case len(t.Command) > 0 && (t.Input != nil || t.InputJSON != ""):
		v.say("command", "stands beside an input: give one of them")
	case len(t.Command) > 0:
		if a.Provider == "" {
			a.Provider = commandTool
		}
		a.Payload = encoded(commandInput{t.Command})
	case a.Provider == "":
		v.say("command", "is missing: say what to do, as in command = [\"echo\", \"hi\"], or name a tool")
	}
	if a.ActionType == "" {
		a.ActionType = a.Provider
	}
	return shell.SetEntry{Was: t.Was, Recurring: &s}
}

// tableOf gives the table of a recurring action.
func tableOf(s core.RecurringSpec) recurringTable {
	a, o, p := s.ActionTemplate, s.ScheduleOptions, s.Policy
	t := recurringTable{
		Cron: s.CronExpr, TZ: s.Timezone, Description: s.Description, Disabled: !s.Enabled, Tool: a.Provider, Type: a.ActionType,
		DedupKey: a.DedupKey, Meta: a.Metadata, Labels: s.Labels, StartsAt: timeText(o.StartsAt), EndsAt: timeText(s.EndsAt),
		MaxExecutions: o.MaxExecutions, Jitter: ofSeconds(o.JitterSeconds), StartDeadline: ofSeconds(s.StartDeadlineSeconds),
		DST: string(o.DST), DayMatch: string(o.DayMatch), Calendars: o.Calendars, Overlap: string(s.Overlap), BufferLimit: o.BufferLimit,
		MaxWait: ofSeconds(o.MaxWaitSeconds), Missed: string(o.Missed), CatchUp: ofSeconds(o.CatchUpSeconds), CatchUpLimit: o.CatchUpLimit,
		CatchUpSpacing: ofSeconds(o.CatchUpSpacingSeconds), OnFailure: string(p.OnFailure), Timeout: ofMillis(p.TimeoutMS),
		Alerts: tableOfAlerts(o.Alerts),
	}
	if t.Type == t.Tool {
		t.Type = ""
	}
	if t.TZ == "UTC" {
		t.TZ = ""
	}
	if p.OnInterrupt != core.InterruptFail {
		t.OnInterrupt = string(p.OnInterrupt)
	}
	if p.MaxAttempts != core.DefaultMaxAttempts {
		t.MaxAttempts = p.MaxAttempts
	}
	if b := p.Backoff; b != nil {
		t.Backoff, t.BackoffFactor, t.BackoffMax = ofMillis(b.InitialMS), b.FactorPercent, ofMillis(b.MaxMS)
		t.BackoffJitter, t.NoRetry = b.JitterPercent, b.NoRetry
	}
	a.Payload = plainjson.Readable(a.Payload)
	var c commandInput
	if t.Tool == commandTool && decodeStrictly(a.Payload, &c) == nil && len(c.Argv) > 0 && bytes.Equal(encoded(c), a.Payload) {
		t.Tool, t.Command = "", c.Argv
	} else {
		t.Input, t.InputJSON = tableOrJSON(a.Payload)
	}
	return t
}

// queueTable is a [queues.NAME]: its keys are those of a runbook's.
type queueTable struct {
	VisibilityTimeout duration `toml:"visibility_timeout,omitempty" doc:"how long a taken item is out of sight of others; default 30s"`
	MaxAttempts       uint32   `toml:"max_attempts,omitempty" doc:"takes of an item at most; default 3"`
	Backoff           duration `toml:"backoff,omitempty" doc:"wait before the second attempt"`
	Factor            uint32   `toml:"factor_percent,omitempty" doc:"percent by which the wait grows each time, from 100; default 200"`
	MaxBackoff        duration `toml:"max_backoff,omitempty"`
	JitterPercent     uint32   `toml:"jitter_percent,omitempty"`
	NoRetry           []string `toml:"no_retry,omitempty" doc:"patterns of errors after which no attempt follows"`
	DeadLetterQueue   string   `toml:"dead_letter_queue,omitempty" doc:"queue that gets the items that were given up"`
	Concurrency       uint32   `toml:"concurrency,omitempty" doc:"items in flight at most; default any number"`
	KeyConcurrency    uint32   `toml:"key_concurrency,omitempty" doc:"the same for each key"`
	Rate              rate     `toml:"rate,omitempty" doc:"takes at most, such as 100/1s"`
	RateBurst         uint32   `toml:"rate_burst,omitempty" doc:"of them at once"`
	KeyRate           rate     `toml:"key_rate,omitempty"`
	KeyRateBurst      uint32   `toml:"key_rate_burst,omitempty"`
	KeepCompleted     duration `toml:"keep_completed,omitempty"`
	DedupWindow       duration `toml:"dedup_window,omitempty"`
}

func (t queueTable) entry(name string, of core.Scope, v *values) shell.SetEntry {
	return shell.SetEntry{Queue: &shell.QueueSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: name, Config: core.QueueConfig{
		VisibilityTimeoutMS: v.millis("visibility_timeout", t.VisibilityTimeout),
		Retry: core.Retry{
			MaxAttempts: t.MaxAttempts, BackoffMS: v.millis("backoff", t.Backoff), FactorPercent: t.Factor, MaxBackoffMS: v.millis("max_backoff", t.MaxBackoff),
			JitterPercent: t.JitterPercent, NoRetry: t.NoRetry,
		},
		DeadLetterQueue: t.DeadLetterQueue, Concurrency: t.Concurrency, KeyConcurrency: t.KeyConcurrency,
		Rate: v.rate("rate", t.Rate, t.RateBurst), KeyRate: v.rate("key_rate", t.KeyRate, t.KeyRateBurst),
		KeepCompletedMS: v.millis("keep_completed", t.KeepCompleted), DedupWindowMS: v.millis("dedup_window", t.DedupWindow),
	}}}
}

func tableOfQueue(c core.QueueConfig) queueTable {
	t := queueTable{
		VisibilityTimeout: ofMillis(c.VisibilityTimeoutMS), MaxAttempts: c.Retry.MaxAttempts, Backoff: ofMillis(c.Retry.BackoffMS), Factor: c.Retry.FactorPercent,
		MaxBackoff: ofMillis(c.Retry.MaxBackoffMS), JitterPercent: c.Retry.JitterPercent, NoRetry: c.Retry.NoRetry, DeadLetterQueue: c.DeadLetterQueue,
		Concurrency: c.Concurrency, KeyConcurrency: c.KeyConcurrency, Rate: ofRate(c.Rate), RateBurst: c.Rate.Burst, KeyRate: ofRate(c.KeyRate), KeyRateBurst: c.KeyRate.Burst,
		KeepCompleted: ofMillis(c.KeepCompletedMS), DedupWindow: ofMillis(c.DedupWindowMS),
	}
	if c.VisibilityTimeoutMS == core.DefaultVisibilityMS {
		t.VisibilityTimeout = ""
	}
	if t.MaxAttempts == core.DefaultMaxAttempts {
		t.MaxAttempts = 0
	}
	return t
}

// semaphoreTable is a [semaphores.NAME].
type semaphoreTable struct {
	Slots uint32 `toml:"slots" doc:"how many may be held at once"`
}

func (t semaphoreTable) entry(name string, of core.Scope, v *values) shell.SetEntry {
	if t.Slots == 0 {
		v.say("slots", "is missing: say how many may be held at once")
	}
	return shell.SetEntry{Semaphore: &shell.SemaphoreSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: name, Slots: t.Slots}}
}

// workerTable is a [workers.NAME].
type workerTable struct {
	Queue       string         `toml:"queue" doc:"queue whose items it takes"`
	Concurrency uint32         `toml:"concurrency,omitempty" doc:"items in hand at most; default 1"`
	Poll        duration       `toml:"poll,omitempty" doc:"how often it looks without being woken; default 1m"`
	Do          map[string]any `toml:"do,omitempty" doc:"what is done for an item: a table with one of pipeline, run, strategy and task, as in the API"`
	DoJSON      string         `toml:"do_json,omitempty" doc:"the same as JSON, byte for byte"`
}

func (t workerTable) entry(name string, of core.Scope, v *values) shell.SetEntry {
	w := core.WorkerSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: name, Queue: t.Queue, Concurrency: t.Concurrency, PollMS: v.millis("poll", t.Poll)}
	if do := v.json("do", t.Do, t.DoJSON); t.Do == nil && t.DoJSON == "" {
		v.say("do", "is missing: say what is done for an item, with one of pipeline, run, strategy and task")
	} else if err := decodeStrictly(do, &w.Do); do != nil && err != nil {
		v.say("do", "%s", err)
	}
	return shell.SetEntry{Worker: &w}
}

func tableOfWorker(s core.WorkerSpec) workerTable {
	t := workerTable{Queue: s.Queue, Concurrency: s.Concurrency, Poll: ofMillis(s.PollMS)}
	if t.Concurrency == 1 {
		t.Concurrency = 0
	}
	if t.Poll == "1m" {
		t.Poll = ""
	}
	t.Do, t.DoJSON = tableOrJSONOf(s.Do)
	return t
}

// calendarTable is a [calendars.NAME].
type calendarTable struct {
	TZ            string   `toml:"tz,omitempty" doc:"time zone in which dates begin and windows are meant; default UTC"`
	Description   string   `toml:"description,omitempty"`
	Exclude       []string `toml:"exclude,multiline,omitempty" doc:"dates to leave out: DATE[..DATE][=NAME]"`
	ExcludeWeekly []string `toml:"exclude_weekly,multiline,omitempty" doc:"windows to leave out each week: DAYS[ FROM-TO][=NAME], such as \"mon-fri 22:00-06:00\""`
	Include       []string `toml:"include,multiline,omitempty" doc:"dates to let through only"`
	IncludeWeekly []string `toml:"include_weekly,multiline,omitempty" doc:"windows to let through only"`
}

func (t calendarTable) entry(name string, of core.Scope, v *values) shell.SetEntry {
	return shell.SetEntry{Calendar: &core.CalendarSpec{
		Namespace: of.Namespace, Tenant: of.Tenant, Name: name, Timezone: t.TZ, Description: t.Description,
		Exclude: v.days("exclude", t.Exclude, t.ExcludeWeekly), Include: v.days("include", t.Include, t.IncludeWeekly),
	}}
}

func tableOfCalendar(s core.CalendarSpec) calendarTable {
	t := calendarTable{TZ: s.Timezone, Description: s.Description}
	if t.TZ == "UTC" {
		t.TZ = ""
	}
	t.Exclude, t.ExcludeWeekly = textsOfDays(s.Exclude)
	t.Include, t.IncludeWeekly = textsOfDays(s.Include)
	return t
}

// subscriberTable is a [subscribers.NAME].
type subscriberTable struct {
	Match  map[string]any `toml:"match,omitempty" doc:"which events: a table with category, action, component, source_id and data"`
	Do     map[string]any `toml:"do,omitempty" doc:"a table with one of wake_worker, push, signal and start_pipeline, as in the API"`
	DoJSON string         `toml:"do_json,omitempty" doc:"the same as JSON, byte for byte"`
}

func (t subscriberTable) entry(name string, of core.Scope, v *values) shell.SetEntry {
	s := core.Subscription{Name: name}
	if strings.HasPrefix(name, "@") {
		v.say("", "subscribers whose names begin with \"@\" are made by the daemon as its configuration says: take the table out")
	}
	if err := decodeStrictly(encoded(t.Match), &s.Match); err != nil {
		v.say("match", "%s", err)
	}
	if do := v.json("do", t.Do, t.DoJSON); t.Do == nil && t.DoJSON == "" {
		v.say("do", "is missing: say what is done, with one of wake_worker, push, signal and start_pipeline")
	} else if err := decodeStrictly(do, &s.Do); do != nil && err != nil {
		v.say("do", "%s", err)
	}
	return shell.SetEntry{Subscriber: &shell.SubscriberSpec{Namespace: of.Namespace, Tenant: of.Tenant, Subscription: s}}
}

func tableOfSubscriber(spec shell.SubscriberSpec) (t subscriberTable) {
	s := spec.Subscription
	t.Match, _ = tableOrJSONOf(s.Match)
	if s.Match.SourceID == [16]byte{} {
		delete(t.Match, "source_id")
	}
	t.Do, t.DoJSON = tableOrJSONOf(s.Do)
	return t
}

// keysAt lists the keys that may stand in a table of a file, by the path to it; none: they are not known.
func keysAt(path []string) []string {
	t := reflect.TypeFor[body]()
	for _, key := range path {
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
			continue
		case reflect.Struct:
		default:
			return nil
		}
		f, ok := fieldOf(t, key)
		if !ok {
			return nil
		}
		if t = f.Type; t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var keys []string
	for f := range t.Fields() {
		keys = append(keys, keyOf(f))
	}
	return keys
}

func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
	return name
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if keyOf(f) == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// decodeStrictly reads JSON into a value, and refuses members that it has not.
func decodeStrictly(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// encoded gives a value that files can hold as JSON.
func encoded(v any) json.RawMessage {
	data, err := plainjson.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// timeText is a time as a file has it; empty: none.
func timeText(t effects.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.String()
}
