package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
)

// version gives the module's version, "devel" in a working copy.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// versions is what orreryd version shows.
type versions struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Core     string `json:"core"`
	TZDB     string `json:"tzdb"`
}

func readVersions() versions {
	v := versions{
		Version: version(), Commit: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Core: core.Version, TZDB: schedule.TZVersion,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the program, of Go, of the core and of the time zone database",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersions()
			if a.json {
				return a.printJSON(v)
			}
			commit := v.Commit
			if v.Modified {
				commit += " (modified)"
			}
			return a.printFields([][2]string{
				{"orreryd", v.Version}, {"commit", commit}, {"go", v.Go + " " + v.Platform}, {"core", v.Core}, {"tzdb", v.TZDB},
			})
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}
