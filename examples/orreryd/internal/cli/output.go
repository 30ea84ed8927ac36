package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// The forms of --output; without one it is a table or fields for people.
const (
	formWide     = "wide"
	formJSON     = "json"
	formName     = "name"
	formRevision = "revision"
	formYAML     = "yaml"
)

// outputFlag is the value of --output.
type outputFlag struct {
	form  *string
	words []string
}

func (o outputFlag) String() string { return "" }
func (o outputFlag) Type() string   { return "form" }

// Set takes one of the words.
func (o outputFlag) Set(v string) error {
	if !slices.Contains(o.words, v) {
		last := len(o.words) - 1
		return fmt.Errorf("use %s or %s", strings.Join(o.words[:last], ", "), o.words[last])
	}
	*o.form = v
	return nil
}

// addOutput adds --output with its forms to a command, and returns it.
func (a *app) addOutput(cmd *cobra.Command, words ...string) *cobra.Command {
	usages := map[string]string{
		formWide: "wide (nothing is cut or left out)", formJSON: "json", formName: "name (one id or name a line)", formYAML: "yaml (a job file)",
		formRevision: "revision (of its definition, for --if-match)",
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = usages[w]
	}
	cmd.Flags().VarP(outputFlag{&a.form, words}, "output", "o", "`form` of the output: "+strings.Join(list, ", "))
	fixed(cmd, "output", words)
	return cmd
}

// settleOutput makes one of --json and --output json, and refuses what contradicts itself.
func (a *app) settleOutput() error {
	switch {
	case a.form == formJSON:
		a.json = true
	case a.json && a.form != "":
		return usagef("give either --json or --output %s, not both", a.form)
	}
	return nil
}

// printNames prints ids or names, one a line, for xargs.
func (a *app) printNames(names []string) error {
	for _, name := range names {
		if _, err := fmt.Fprintln(a.out, text.Clean(name)); err != nil {
			return err
		}
	}
	return nil
}
