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
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// work are the flags that say what is to be done, shared by actions and
// recurring actions.
type work struct {
	scope            scoped // of an action alone
	tool, actionType string
	input            string
	dedupKey         string
	meta, labels     []string
	onInterrupt      string
	maxAttempts      int
	timeout          time.Duration
}

func (w *work) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.tool, "tool", "", "`tool` that does the work (default command, if a command follows --)")
	f.StringVar(&w.input, "input", "", "the tool's input: `JSON`, @FILE, or - for stdin")
	f.StringVar(&w.actionType, "type", "", "action `type`, for tools that tell types apart")
	f.StringVar(&w.dedupKey, "dedup-key", "", "`key` that only one live action may have")
	f.StringArrayVar(&w.meta, "meta", nil, "metadata `KEY=VALUE`; may be repeated")
	f.StringArrayVar(&w.labels, "label-kv", nil, "label `KEY=VALUE`, to filter by; may be repeated")
	f.StringVar(&w.onInterrupt, "on-interrupt", "", "`policy` for a run that a crash or a stop interrupts: fail (default) or retry; a run that failed is never repeated")
	f.IntVar(&w.maxAttempts, "max-attempts", 0, "`number` of runs at most, the interrupted ones included; only with --on-interrupt retry (default 3)")
	f.DurationVar(&w.timeout, "timeout", 0, "time limit of one run, such as 30s")
	fixed(cmd, "on-interrupt", interruptPolicies)
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

// commandInput is the input of the tool "command".
func commandInput(argv []string) (json.RawMessage, error) {
	return text.PlainJSON(map[string][]string{"argv": argv})
}

// toolInput gives the tool and its input; args are what followed --.
func (a *app) toolInput(w *work, cmd *cobra.Command, args []string) (tool string, input json.RawMessage, err error) {
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return "", nil, usagef("unexpected argument %q: put a command after --, as in: %s -- echo hi", args[0], cmd.CommandPath())
	}
	switch {
	case len(args) > 0 && cmd.Flags().Changed("input"):
		return "", nil, usagef("give either --input or a command after --, not both")
	case len(args) > 0:
		input, err = commandInput(args)
		return cmp.Or(w.tool, config.TypeCommand), input, err
	case w.tool == "":
		return "", nil, usagef("say what to do: a command after --, as in: %s -- echo hi; or --tool NAME --input JSON", cmd.CommandPath())
	case !cmd.Flags().Changed("input"):
		return w.tool, nil, nil
	}
	input, err = a.needJSON("input", w.input)
	return w.tool, input, err
}

var interruptPolicies = wordsOf(core.InterruptFail, core.InterruptRetry)

// read gives what the flags say beside the work itself.
func (w *work) read(cmd *cobra.Command) (p *wire.RunPolicy, metadata, labels map[string]string, err error) {
	if p, err = w.policy(cmd); err != nil {
		return nil, nil, nil, err
	}
	if metadata, err = parsePairs("meta", w.meta); err != nil {
		return nil, nil, nil, err
	}
	labels, err = parsePairs("label-kv", w.labels)
	return p, metadata, labels, err
}

// policy gives the run policy; nil if no flag sets it.
func (w *work) policy(cmd *cobra.Command) (*wire.RunPolicy, error) {
	if cmd.Flags().Changed("on-interrupt") {
		if err := checkOneOf("on-interrupt", w.onInterrupt, interruptPolicies); err != nil {
			return nil, err
		}
	}
	if cmd.Flags().Changed("max-attempts") {
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
	p := core.RunPolicy{OnInterrupt: core.OnInterrupt(w.onInterrupt), MaxAttempts: uint32(w.maxAttempts), TimeoutMS: w.timeout.Milliseconds()}
	if p == (core.RunPolicy{}) {
		return nil, nil
	}
	return &wire.RunPolicy{RunPolicy: p}, nil
}
