package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// printJSON prints a value for programs: indented, one value a call.
func (a *app) printJSON(v any) error {
	var b []byte
	var err error
	if raw, ok := v.(json.RawMessage); ok {
		var buf bytes.Buffer
		err = json.Indent(&buf, bytes.TrimSpace(raw), "", "  ")
		b = buf.Bytes()
	} else {
		b, err = json.MarshalIndent(v, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}

// printTable prints rows for people. The cells must be clean.
func (a *app) printTable(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// printFields prints names and values for people, and leaves out empty values.
func (a *app) printFields(fields [][2]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\n", f[0], text.Clean(f[1])); err != nil {
			return err
		}
	}
	return w.Flush()
}
