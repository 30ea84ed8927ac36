package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// work are the flags that say which tool an action runs and how; actions add and the
// recurring commands share them.
type work struct {
	cmd                      *cobra.Command
	tool, input, onInterrupt string
	maxAttempts              int
	timeout                  time.Duration
	onFailure                string
	backoff                  backoff
}

// backoff are the flags that say how long an action waits after a failure.
type backoff struct {
	initial, most  time.Duration
	factor, jitter uint32
	noRetry        []string
}

// backoffFlags are their names.
var backoffFlags = []string{"backoff", "backoff-max", "backoff-factor", "backoff-jitter", "no-retry"}

func (w *work) addFlags(cmd *cobra.Command) {
	w.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&w.tool, "tool", "", "`tool` that does the work (default command, if a command follows --)")
	f.StringVar(&w.input, "input", "", "the tool's input: `JSON`, @FILE, or - for stdin")
	f.StringVar(&w.onInterrupt, "on-interrupt", "", "`policy` for a run that a crash or a stop interrupts: fail (default) or retry")
	f.StringVar(&w.onFailure, "on-failure", "", "`policy` for a run that failed: fail (default), or retry after a wait")
	f.IntVar(&w.maxAttempts, "max-attempts", 0, "`number` of runs at most, the interrupted and failed ones included; only with --on-interrupt or --on-failure retry (default 3)")
	f.DurationVar(&w.backoff.initial, "backoff", 0, "with --on-failure retry: wait after the first failure (default 1s)")
	f.Uint32Var(&w.backoff.factor, "backoff-factor", 0, "`percent` by which the wait grows each time, from 100 (default 200: it doubles)")
	f.DurationVar(&w.backoff.most, "backoff-max", 0, "longest wait, also if the other side asks for more (default 1h)")
	f.Uint32Var(&w.backoff.jitter, "backoff-jitter", 0, "`percent` of the wait that may be cut off, so that not all come at once")
	f.StringArrayVar(&w.backoff.noRetry, "no-retry", nil, "`pattern` of reasons after which no attempt follows; may be repeated")
	f.DurationVar(&w.timeout, "timeout", 0, "time limit of one run, such as 30s")
	fixed(cmd, "on-interrupt", interruptPolicies)
	fixed(cmd, "on-failure", failurePolicies)
}

// given reports whether a flag is there.
func (w *work) given(flag string) bool { return w.cmd.Flags().Changed(flag) }

// fields are what is said beside the tool and its input.
func (w *work) fields() []field {
	return []field{
		givenTextField("type", "action `type`, for tools that tell types apart").as("action_type"),
		givenTextField("dedup-key", "`key` that only one live action may have"),
		{name: "policy", add: w.addFlags, value: func(*app, []string) (any, error) { return w.policy() }},
		listField("meta", "metadata `KEY=VALUE`; may be repeated", parsePairs).as("metadata"),
		listField("label-kv", "label `KEY=VALUE`, to filter by; may be repeated", parsePairs).as("labels"),
	}
}

// policyText says what a policy does; the bound on attempts means something
// under retry only.
func policyText(p core.RunPolicy) string {
	text := fmt.Sprintf("on interrupt %s", p.OnInterrupt)
	if p.OnFailure == core.FailureRetry {
		text += ", on failure retry" + backoffText(p.Backoff)
	}
	if p.OnInterrupt == core.InterruptRetry || p.OnFailure == core.FailureRetry {
		text += fmt.Sprintf(", at most %d attempts", p.MaxAttempts)
	}
	if p.TimeoutMS > 0 {
		text += ", time limit " + p.Timeout().String()
	}
	return text
}

// backoffText says what is not the default.
func backoffText(b *core.Backoff) string {
	if b == nil {
		return ""
	}
	text := ""
	if b.InitialMS > 0 {
		text += " after " + milliseconds(b.InitialMS)
	}
	if b.FactorPercent > 0 {
		text += fmt.Sprintf(", then %d %% of the wait before", b.FactorPercent)
	}
	if b.MaxMS > 0 {
		text += ", after " + milliseconds(b.MaxMS) + " at most"
	}
	if b.JitterPercent > 0 {
		text += fmt.Sprintf(", up to %d %% sooner", b.JitterPercent)
	}
	quoted := make([]string, len(b.NoRetry))
	for i, pattern := range b.NoRetry {
		quoted[i] = strconv.Quote(pattern)
	}
	if len(quoted) > 0 {
		text += ", not after " + strings.Join(quoted, " or ")
	}
	return text
}

// toolInput gives the tool and its input, nil if none is given; args are what followed --.
func (w *work) toolInput(a *app, args []string) (tool string, input json.RawMessage, err error) {
	switch {
	case len(args) > 0 && w.cmd.ArgsLenAtDash() != 0:
		return "", nil, usagef("unexpected argument %q: put a command after --, as in: %s -- echo hi", args[0], w.cmd.CommandPath())
	case len(args) == 0 && w.tool == "":
		return "", nil, usagef("say what to do: a command after --, as in: %s -- echo hi; or --tool NAME --input JSON", w.cmd.CommandPath())
	}
	input, err = w.newInput(a, args)
	if len(args) > 0 {
		return cmp.Or(w.tool, config.TypeCommand), input, err
	}
	return w.tool, input, err
}

// newInput is the input that the flags or a command give; nil if neither does.
func (w *work) newInput(a *app, argv []string) (json.RawMessage, error) {
	switch {
	case len(argv) > 0 && w.given("input"):
		return nil, usagef("give either --input or a command after --, not both")
	case len(argv) > 0:
		a.warnOfShell(argv)
		return text.PlainJSON(map[string][]string{"argv": argv}) // of the tool "command"
	case w.given("input"):
		return a.needJSON("input", w.input)
	}
	return nil, nil
}

var (
	interruptPolicies = wordsOf(core.InterruptFail, core.InterruptRetry)
	failurePolicies   = wordsOf(core.FailureFail, core.FailureRetry)
)

// policy gives the run policy; nil if no flag sets it.
func (w *work) policy() (any, error) {
	if err := w.checkWords(); err != nil {
		return nil, err
	}
	if w.given("max-attempts") {
		if w.maxAttempts < 1 || w.maxAttempts > core.MaxAttemptsEver {
			return nil, usagef("--max-attempts: %d is not between 1 and %d", w.maxAttempts, core.MaxAttemptsEver)
		}
		if w.onInterrupt != string(core.InterruptRetry) && w.onFailure != string(core.FailureRetry) {
			return nil, usagef("--max-attempts has an effect with --on-interrupt retry or --on-failure retry only: give one of them too, or leave it out")
		}
	}
	wait, err := w.waits()
	if err != nil {
		return nil, err
	}
	if w.timeout < 0 || w.timeout%time.Millisecond != 0 {
		return nil, usagef("--timeout: %s is not a whole number of milliseconds", w.timeout)
	}
	return unlessZero(nil, core.RunPolicy{
		OnInterrupt: core.OnInterrupt(w.onInterrupt), MaxAttempts: uint32(w.maxAttempts), TimeoutMS: w.timeout.Milliseconds(),
		OnFailure: core.OnFailure(w.onFailure), Backoff: wait,
	})
}

// checkWords refuses policies that are unknown.
func (w *work) checkWords() error {
	if w.given("on-interrupt") {
		if err := checkOneOf("on-interrupt", w.onInterrupt, interruptPolicies); err != nil {
			return err
		}
	}
	if w.given("on-failure") {
		return checkOneOf("on-failure", w.onFailure, failurePolicies)
	}
	return nil
}

// waits gives what the policy says of the waits after failures; nil if no flag sets it.
func (w *work) waits() (*core.Backoff, error) {
	b := &w.backoff
	for i, d := range []time.Duration{b.initial, b.most} {
		if d < 0 || d%time.Millisecond != 0 {
			return nil, usagef("--%s: %s is not a whole number of milliseconds", backoffFlags[i], d)
		}
	}
	if b.initial == 0 && b.most == 0 && b.factor == 0 && b.jitter == 0 && len(b.noRetry) == 0 {
		return nil, nil
	}
	if w.onFailure != string(core.FailureRetry) {
		given := slices.IndexFunc(backoffFlags, w.given)
		return nil, usagef("--%s has an effect with --on-failure retry only: give that too, or leave it out", backoffFlags[max(given, 0)])
	}
	return &core.Backoff{
		InitialMS: b.initial.Milliseconds(), FactorPercent: b.factor, MaxMS: b.most.Milliseconds(), JitterPercent: b.jitter, NoRetry: b.noRetry,
	}, nil
}

// keep takes over from a policy what no flag says.
func (w *work) keep(p core.RunPolicy) {
	if !w.given("on-interrupt") {
		w.onInterrupt = string(p.OnInterrupt)
	}
	if !w.given("on-failure") {
		w.onFailure = string(p.OnFailure)
	}
	retries := w.onInterrupt == string(core.InterruptRetry) || w.onFailure == string(core.FailureRetry)
	if !w.given("max-attempts") && retries {
		w.maxAttempts = int(p.MaxAttempts)
	}
	if !w.given("timeout") {
		w.timeout = p.Timeout()
	}
	if p.Backoff == nil || w.onFailure != string(core.FailureRetry) {
		return
	}
	if !w.given("backoff") {
		w.backoff.initial = time.Duration(p.Backoff.InitialMS) * time.Millisecond
	}
	if !w.given("backoff-max") {
		w.backoff.most = time.Duration(p.Backoff.MaxMS) * time.Millisecond
	}
	if !w.given("backoff-factor") {
		w.backoff.factor = p.Backoff.FactorPercent
	}
	if !w.given("backoff-jitter") {
		w.backoff.jitter = p.Backoff.JitterPercent
	}
	if !w.given("no-retry") {
		w.backoff.noRetry = p.Backoff.NoRetry
	}
}
