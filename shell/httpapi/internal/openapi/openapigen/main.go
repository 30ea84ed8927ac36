// Openapigen writes the description of the HTTP API into the file that it is given.
package main

import (
	"fmt"
	"os"

	"github.com/orrery-go/orrery/shell/httpapi/internal/openapi"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "openapigen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the file to write, got %d", len(args))
	}
	doc, err := openapi.Document()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], doc, 0o644) //nolint:gosec // a source file, as the others are
}
