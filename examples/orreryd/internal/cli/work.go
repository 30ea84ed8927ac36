package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
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
}

func (w *work) addFlags(cmd *cobra.Command) {
	w.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&w.tool, "tool", "", "`tool` that does the work (default command, if a command follows --)")
	f.StringVar(&w.input, "input", "", "the tool's input: `JSON`, @FILE, or - for stdin")
	f.StringVar(&w.onInterrupt, "on-interrupt", "", "`policy` for a run that a crash or a stop interrupts: fail (default) or retry; a run that failed is never repeated")
	f.IntVar(&w.maxAttempts, "max-attempts", 0, "`number` of runs at most, the interrupted ones included; only with --on-interrupt retry (default 3)")
	f.DurationVar(&w.timeout, "timeout", 0, "time limit of one run, such as 30s")
	fixed(cmd, "on-interrupt", interruptPolicies)
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
	if p.OnInterrupt == core.InterruptRetry {
		text += fmt.Sprintf(", at most %d attempts", p.MaxAttempts)
	}
	if p.TimeoutMS > 0 {
		text += ", time limit " + p.Timeout().String()
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
		return text.PlainJSON(map[string][]string{"argv": argv}) // of the tool "command"
	case w.given("input"):
		return a.needJSON("input", w.input)
	}
	return nil, nil
}

var interruptPolicies = wordsOf(core.InterruptFail, core.InterruptRetry)

// policy gives the run policy; nil if no flag sets it.
func (w *work) policy() (any, error) {
	if w.given("on-interrupt") {
		if err := checkOneOf("on-interrupt", w.onInterrupt, interruptPolicies); err != nil {
			return nil, err
		}
	}
	if w.given("max-attempts") {
		if w.maxAttempts < 1 || w.maxAttempts > core.MaxAttemptsEver {
			return nil, usagef("--max-attempts: %d is not between 1 and %d", w.maxAttempts, core.MaxAttemptsEver)
		}
		if w.onInterrupt != string(core.InterruptRetry) {
			return nil, usagef("--max-attempts has an effect with --on-interrupt retry only: give that too, or leave it out")
		}
	}
	if w.timeout < 0 || w.timeout%time.Millisecond != 0 {
		return nil, usagef("--timeout: %s is not a whole number of milliseconds", w.timeout)
	}
	return unlessZero(nil, core.RunPolicy{
		OnInterrupt: core.OnInterrupt(w.onInterrupt), MaxAttempts: uint32(w.maxAttempts), TimeoutMS: w.timeout.Milliseconds(),
	})
}
