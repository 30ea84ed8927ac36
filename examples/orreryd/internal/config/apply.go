package config

import (
	"fmt"
	"os"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// applyConfig is the set of files that the daemon applies by itself, at its start and on SIGHUP.
type applyConfig struct {
	Dir   string `toml:"dir"` // empty: none
	Set   string `toml:"set"`
	Prune bool   `toml:"prune"`
	// Variables are values of what the files declare as variables, instead of those that stand there.
	Variables map[string]string `toml:"variables,omitempty"`
}

func (a *applyConfig) validate() error {
	if !core.IsGivenName(a.Set) {
		return fmt.Errorf("apply.set: %q is no name: use letters, digits, \".\", \"_\" and \"-\"", text.Clip(a.Set, 60))
	}
	return nil
}

// warn says that there is no folder to apply: the daemon starts nevertheless, with what its database has.
func (a *applyConfig) warn() []string {
	if a.Dir == "" {
		return nil
	}
	if info, err := os.Stat(a.Dir); err != nil || !info.IsDir() {
		return []string{fmt.Sprintf("apply.dir: %s is no folder: nothing will be applied", a.Dir)}
	}
	return nil
}
