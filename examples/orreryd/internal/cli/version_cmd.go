package cli

import (
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the program, of Go, of the core and of the time zone database",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version.Read()
			if a.json {
				return a.printJSON(v)
			}
			commit := v.Commit
			if v.Modified {
				commit += " (modified)"
			}
			return a.print(nil, view{fields: [][2]string{
				{"orreryd", v.Version}, {"commit", commit}, {"go", v.Go + " " + v.Platform}, {"core", v.Core}, {"tzdb", v.TZDB},
			}})
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}
