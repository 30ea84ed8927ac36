// Package version says which orreryd this is.
package version

import (
	"runtime"
	"runtime/debug"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
)

// stamped is set by a build that knows its version better than Go does, as of an archive without its history:
// -ldflags "-X=github.com/orrery-go/orrery/examples/orreryd/internal/version.stamped=v1.2.3".
var stamped string

// String gives the version that the build was stamped with, or else that of the module, which Go reads from the
// history of a checkout; "devel" if there is none.
func String() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// Versions is what orreryd version shows.
type Versions struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Core     string `json:"core"`
	TZDB     string `json:"tzdb"`
}

// Read reads the versions of the running program.
func Read() Versions {
	v := Versions{
		Version: String(), Commit: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
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
