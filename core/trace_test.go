package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// The traces in testdata/KIND/*.txt show each machine by itself:
//
//	apply [at=TIME|+DURATION|-DURATION]   events, one a line, applied in order;
//	      [step=N]                        the logical time of the first one, which
//	                                      from then on grows by 1 with each
//	      [data]                          what is announced is shown whole: also its
//	                                      source, in parentheses, and its data
//	save NAME                             remember the present state
//	from NAME [at=…]                      events, each applied to the remembered state
//	show                                  the present state, whole
//
// An event is its journal form, or its type followed by the other members:
// "due", `fail {"run":1,"reason":"x"}`. Ids are written #1, what they make
// #1/action/1 and #1/occurrence/1; in batches with the step at which they make it,
// #1/action/1@2 by the first input of the second batch that changes something,
// #1/action/1@2.1 by the next one. What comes out: the fields that changed (of
// a new machine all that are not empty), then the effects. go test -rewrite
// writes the output.

var (
	shortID = regexp.MustCompile(`#(\d+)(?:/(action|occurrence|task|strategy|pipeline)/(\d+)(?:@(\d+)(?:\.(\d+))?)?)?`)
	longIDs = idNames{func() *strings.Replacer {
		var pairs []string
		for n := 1; n <= 9; n++ {
			pairs = append(pairs, id(n).String(), fmt.Sprintf("#%d", n))
			for k := 1; k <= 30; k++ {
				for _, role := range []string{"action", "occurrence", "task", "strategy", "pipeline"} {
					name := fmt.Sprintf("#%d/%s/%d", n, role, k)
					pairs = append(pairs, core.ChildID(id(n), role, 0, uint64(k)).String(), name)
					for batch := 1; batch <= 12 && n <= 2 && k <= 9; batch++ {
						at := fmt.Sprintf("%s@%d", name, batch)
						pairs = append(pairs, core.ChildID(id(n), role, stepOf(batch, 0), uint64(k)).String(), at)
						for place := 1; place <= 4; place++ {
							pairs = append(pairs, core.ChildID(id(n), role, stepOf(batch, place), uint64(k)).String(), fmt.Sprintf("%s.%d", at, place))
						}
					}
				}
			}
		}
		for _, key := range []string{"k", "digest"} {
			pairs = append(pairs, core.DedupRef("", "", key).ID.String(), "KEY("+key+")")
		}
		for _, name := range []string{"merge", "build"} {
			pairs = append(pairs, core.LockRef("", "", name).ID.String(), "LOCK("+name+")")
			pairs = append(pairs, core.SemaphoreRef("", "", name).ID.String(), "SEMAPHORE("+name+")")
			pairs = append(pairs, core.QueueRef("", "", name).ID.String(), "QUEUE("+name+")")
			pairs = append(pairs, core.WorkerRef("", "", name).ID.String(), "WORKER("+name+")")
		}
		pairs = append(pairs, core.CalendarRef("", "", "holidays").ID.String(), "CALENDAR(holidays)", core.BusRef().ID.String(), "BUS")
		for n := 1; n <= 3; n++ {
			pairs = append(pairs, core.AlertRef(effects.Ref{Kind: core.KindRecurring, ID: id(n)}).ID.String(), fmt.Sprintf("ALERT(%d)", n))
		}
		pairs = append(pairs, core.DigestRef("").ID.String(), "DIGEST(default)", core.DigestRef("ops").ID.String(), "DIGEST(ops)")
		return strings.NewReplacer(append(pairs, queueIDs()...)...)
	}()}
	shortKey  = regexp.MustCompile(`KEY\((\w+)\)`)
	shortName = regexp.MustCompile(`(LOCK|SEMAPHORE|QUEUE|WORKER|CALENDAR|ALERT|DIGEST)\((\w+)\)|\bBUS\b`)
)

// stepOf gives the step of an input by its place among those of a batch that
// change something.
func stepOf(batch, place int) uint64 { return uint64(batch)<<20 + uint64(place) }

// expand writes short ids out.
func expand(s string) string {
	s = expandJobIDs(expandQueueIDs.Replace(s))
	s = shortKey.ReplaceAllStringFunc(s, func(m string) string {
		return core.DedupRef("", "", shortKey.FindStringSubmatch(m)[1]).ID.String()
	})
	s = shortName.ReplaceAllStringFunc(s, func(m string) string {
		part := shortName.FindStringSubmatch(m)
		switch part[1] {
		case "LOCK":
			return core.LockRef("", "", part[2]).ID.String()
		case "SEMAPHORE":
			return core.SemaphoreRef("", "", part[2]).ID.String()
		case "QUEUE":
			return core.QueueRef("", "", part[2]).ID.String()
		case "CALENDAR":
			return core.CalendarRef("", "", part[2]).ID.String()
		case "WORKER":
			return core.WorkerRef("", "", part[2]).ID.String()
		case "ALERT":
			n, _ := strconv.Atoi(part[2])
			return core.AlertRef(effects.Ref{Kind: core.KindRecurring, ID: id(n)}).ID.String()
		case "DIGEST":
			return core.DigestRef(strings.TrimSuffix(part[2], "default")).ID.String()
		}
		return core.BusRef().ID.String()
	})
	return shortID.ReplaceAllStringFunc(s, func(m string) string {
		part := shortID.FindStringSubmatch(m)
		n, _ := strconv.Atoi(part[1])
		if part[2] == "" {
			return id(n).String()
		}
		k, _ := strconv.ParseUint(part[3], 10, 64)
		batch, _ := strconv.Atoi(part[4])
		place, _ := strconv.Atoi(part[5])
		return core.ChildID(id(n), part[2], stepOf(batch, place), k).String()
	})
}

// brief prints JSON without members that are empty, and with short ids.
func brief(b []byte) string {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return longIDs.Replace(briefValue(d, false))
}

func briefValue(d *json.Decoder, member bool) string {
	tok, err := d.Token()
	if err != nil {
		return err.Error()
	}
	var parts []string
	switch tok := tok.(type) {
	case json.Delim:
		open, end := "{", "}"
		if tok == '[' {
			open, end = "[", "]"
		}
		for d.More() {
			name := ""
			if open == "{" {
				key, _ := d.Token()
				name = fmt.Sprintf("%q:", key)
			}
			if v := briefValue(d, open == "{"); v != "" {
				parts = append(parts, name+v)
			}
		}
		_, _ = d.Token()
		if member && len(parts) == 0 {
			return ""
		}
		return open + strings.Join(parts, ",") + end
	case string:
		if member && (tok == "" || tok == uuid.Nil.String()) {
			return ""
		}
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		_ = e.Encode(tok)
		return strings.TrimSpace(out.String())
	case json.Number:
		if member && tok == "0" {
			return ""
		}
		return tok.String()
	case bool:
		if member && !tok {
			return ""
		}
		return strconv.FormatBool(tok)
	}
	if member {
		return ""
	}
	return "null"
}

// fields splits a state into its top-level members and its deadline.
func fields(s core.State) (names []string, values map[string]string) {
	values = map[string]string{}
	if s == nil || !exists(s) {
		return nil, values
	}
	whole, isQueue := s.(core.Queue)
	if isQueue {
		s = whole.Header()
		defer func() { names = append(names, queueParts(whole, values)...) }()
	}
	d := json.NewDecoder(bytes.NewReader(s.AppendJSON(nil)))
	_, _ = d.Token()
	for d.More() {
		key, _ := d.Token()
		var raw json.RawMessage
		_ = d.Decode(&raw)
		name := fmt.Sprint(key)
		inner := json.NewDecoder(bytes.NewReader(raw))
		inner.UseNumber()
		if v := longIDs.Replace(briefValue(inner, true)); v != "" {
			if text, err := strconv.Unquote(v); err == nil && !strings.Contains(text, "\n") {
				v = text
			}
			names, values[name] = append(names, name), v
		}
	}
	if at := s.Deadline(); !at.IsZero() {
		names, values["deadline"] = append(names, "deadline"), at.String()
	}
	return names, values
}

// writeDiff writes what differs between two states of one machine.
func writeDiff(w *strings.Builder, before, after core.State) {
	names, was := fields(before)
	more, is := fields(after)
	if len(names) > 0 && len(more) == 0 {
		w.WriteString("  gone\n")
		return
	}
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return atEnd(a) - atEnd(b) })
	for _, name := range names {
		a, b := was[name], is[name]
		switch {
		case a == b:
		case len(was) == 0:
			fmt.Fprintf(w, "  %s: %s\n", name, b)
		default:
			fmt.Fprintf(w, "  %s: %s → %s\n", name, orNothing(a), orNothing(b))
		}
	}
}

// atEnd orders the deadline, which is no field, after the fields.
func atEnd(name string) int {
	if name == "deadline" {
		return 1
	}
	return 0
}

func orNothing(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func shortRef(ref effects.Ref) string {
	return longIDs.Replace(ref.String())
}

func writeEffect(w *strings.Builder, e effects.Effect, data bool) {
	switch e := e.(type) {
	case effects.Send:
		fmt.Fprintf(w, "  send %s %s\n", shortRef(e.To), brief(core.AppendEvent(nil, e.Event.(core.Event))))
	case effects.Emit:
		fmt.Fprintf(w, "  emit %s", e.Event.Kind)
		if data {
			fmt.Fprintf(w, " (%s %s)", e.Event.Source.Component, longIDs.Replace(e.Event.Source.ID.String()))
			if len(e.Event.Data) > 0 {
				w.WriteString(" " + brief(e.Event.Data))
			}
		}
		w.WriteString("\n")
	case effects.RunTool:
		fmt.Fprintf(w, "  run tool %s, run %d\n", e.Tool, e.Run)
	case effects.Withdraw:
		how := ""
		if e.Kill {
			how = ", kill"
		}
		fmt.Fprintf(w, "  withdraw run %d%s\n", e.N, how)
	case effects.Stop:
		fmt.Fprintf(w, "  stop run %d\n", e.N)
	case effects.Refused:
		fmt.Fprintf(w, "  refused, %s: %s\n", e.Code, longIDs.Replace(e.Reason))
	case effects.Answer:
		fmt.Fprintf(w, "  answer %s\n", brief(e.Value.AppendJSON(nil)))
	case effects.Spawn, effects.SendInput, effects.Kill, effects.Nudge, effects.WorktreeAdd, effects.WorktreeRemove, effects.Merge, effects.Notify,
		effects.CheckConstraints, effects.TakeAction, effects.CreateRun, effects.FetchLogs, effects.DeleteRun:
		fmt.Fprintf(w, "  effect %s\n", brief(e.(effects.Outer).AppendJSON(nil)))
	case effects.AcquireLock, effects.ReleaseLock, effects.AcquireSemaphore, effects.ReleaseSemaphore, effects.DeadLetter, effects.WakeWorker, effects.Checkpoint:
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "  %s %s\n", strings.TrimPrefix(fmt.Sprintf("%T", e), "effects."), brief(b))
	}
}

// parseEvent reads an event as traces write it.
func parseEvent(t *testing.T, kind effects.Kind, line string) core.Event {
	t.Helper()
	if !strings.HasPrefix(line, "{") {
		typ, rest, _ := strings.Cut(line, " ")
		members := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), "{"))
		if members == "" {
			members = "}"
		}
		sep := ","
		if members == "}" {
			sep = ""
		}
		line = fmt.Sprintf(`{"type":%q%s%s`, typ, sep, members)
	}
	e, err := core.DecodeEvent(kind, []byte(expand(line)))
	require.NoError(t, err, "%s", line)
	return e
}

// parseClock reads at=…, absolute or from the present time on.
func parseClock(t *testing.T, d *datadriven.TestData, now core.Time) core.Time {
	t.Helper()
	if !d.HasArg("at") {
		return now
	}
	var at string
	d.ScanArgs(t, "at", &at)
	if at[0] == '+' || at[0] == '-' {
		by, err := time.ParseDuration(at)
		require.NoError(t, err)
		return now.Add(by)
	}
	abs, err := effects.ParseTime(at)
	require.NoError(t, err)
	return abs
}

// phase names the state that a machine is in, as its diagram does.
func phase(s core.State) string {
	if !exists(s) {
		return "absent"
	}
	switch s := s.(type) {
	case core.Action:
		return string(s.Status.Type)
	case core.RecurringAction:
		if s.Enabled {
			return "enabled"
		}
		return "disabled"
	case core.Occurrence:
		if s.Outcome != "" {
			return "settled"
		}
		return string(s.Verdict)
	case core.Dedup:
		return "held"
	}
	return kitOf(kindOf(s)).phase(s)
}

// phases are all states of each machine's diagram.
var phases = map[effects.Kind][]string{
	core.KindAction:     {"absent", "pending", "running", "completed", "failed", "cancelled"},
	core.KindRecurring:  {"absent", "enabled", "disabled"},
	core.KindOccurrence: {"absent", "dispatched", "settled", "missed", "deduplicated", "skipped", "cancelled", "expired", "waiting"},
	core.KindDedup:      {"absent", "held"},
}

func TestTraces(t *testing.T) {
	for _, kind := range kinds {
		paths, err := filepath.Glob(filepath.Join("testdata", string(kind), "*.txt"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		seen := map[string]bool{}
		ran := 0
		for _, path := range paths {
			t.Run(string(kind)+"/"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
				ran++
				runTrace(t, kind, path, func(s core.State, e core.Event) { seen[phase(s)+" × "+typeName(e)] = true })
			})
		}
		if ran < len(paths) {
			continue // some were not selected
		}
		for _, ph := range phases[kind] {
			for _, typ := range sealedEvents(t)[kind] {
				assert.True(t, seen[ph+" × "+typ], "no trace of %s shows %s in state %s", kind, typ, ph)
			}
		}
	}
}

func runTrace(t *testing.T, kind effects.Kind, path string, saw func(core.State, core.Event)) {
	state, saved := absent(kind), map[string]core.State{"absent": absent(kind)}
	clock := core.Clock{Now: start}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		if d.HasArg("step") {
			d.ScanArgs(t, "step", &clock.Step)
		}
		one := func(s core.State, line string) core.State {
			e := parseEvent(t, kind, line)
			saw(s, e)
			for _, by := range []time.Duration{-time.Hour, time.Hour} { // what is refused then changes nothing either, such as updated_at
				checkedApply(t, s, e, core.Clock{Now: clock.Now.Add(by), Step: clock.Step})
			}
			after, effs := checkedApply(t, s, e, clock)
			for _, inv := range invariants[kind] {
				assert.Empty(t, inv.check(step{before: s, after: after, event: e, clock: clock, effs: effs}), inv.sentence)
			}
			if clock.Step > 0 {
				clock.Step++
			}
			out.WriteString(e.EventType() + "\n")
			writeDiff(&out, s, after)
			for _, eff := range effs {
				writeEffect(&out, eff, d.HasArg("data"))
			}
			return after
		}
		switch d.Cmd {
		case "apply":
			clock.Now = parseClock(t, d, clock.Now)
			for line := range strings.Lines(d.Input) {
				state = one(state, strings.TrimSpace(line))
			}
		case "from":
			clock.Now = parseClock(t, d, clock.Now)
			from, ok := saved[d.CmdArgs[0].Key]
			require.True(t, ok, "nothing was saved as %s", d.CmdArgs[0].Key)
			for line := range strings.Lines(d.Input) {
				state = one(from, strings.TrimSpace(line))
			}
		case "save":
			saved[d.CmdArgs[0].Key] = state
			return phase(state) + "\n"
		case "show":
			return brief(state.AppendJSON(nil)) + "\n"
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		return strings.ReplaceAll(out.String(), ".000Z", "Z")
	})
}
