package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/shell/confine"
)

// cgroupConfig says where control groups are made.
type cgroupConfig struct {
	// Root is a directory of cgroup v2 that is delegated to the daemon; empty: none.
	Root string `toml:"root"`
}

// confined are the bounds of a tool's programs; the zero value is none.
type confined struct {
	user   *confine.User
	tree   *confine.Tree
	limits confine.Limits
}

func (t toolConfig) limits() confine.Limits {
	return confine.Limits{MemoryMaxBytes: deref(t.MemoryMaxBytes), PidsMax: deref(t.PidsMax), CPUMax: deref(t.CPUMax)}
}

func (c *Config) checkCgroup() error {
	if r := c.Cgroup.Root; r != "" && !filepath.IsAbs(r) {
		return fmt.Errorf("cgroup.root: %q is not an absolute path: want one such as \"/sys/fs/cgroup/orrery.slice/orreryd.service/runs\"", text.Clip(r, 80))
	}
	return nil
}

// checkLimits checks the limits of a control group, which need a root.
func checkLimits(key, root string, memory *int64, pids *int, cpu *float64) []error {
	errs := []error{
		checkBetween(key+".memory_max_bytes", memory, 1<<20, 1<<50),
		checkBetween(key+".pids_max", pids, 1, 1<<22),
	}
	if cpu != nil && !(*cpu >= 0.01 && *cpu <= 4096) { // catches NaN too
		errs = append(errs, fmt.Errorf("%s.cpu_max: %v is not between 0.01 and 4096 CPUs", key, *cpu))
	}
	if (memory != nil || pids != nil || cpu != nil) && root == "" {
		errs = append(errs, fmt.Errorf("%s: memory_max_bytes, pids_max and cpu_max need a control group: set cgroup.root to a directory of cgroup v2 that is delegated to the daemon", key))
	}
	return errs
}

// checkConfined checks what can be told on any machine; the user must be known here.
func (t toolConfig) checkConfined(key, root string) error {
	errs := checkLimits(key, root, t.MemoryMaxBytes, t.PidsMax, t.CPUMax)
	if t.RunAs != nil {
		if _, err := confine.LookupUser(*t.RunAs); err != nil {
			errs = append(errs, fmt.Errorf("%s.run_as: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// confine makes the bounds of all tools, as this process can, and ends what an earlier one
// has left in control groups.
func (c *Config) confine() (map[string]confined, error) {
	out := map[string]confined{}
	swept := false
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t, b := c.Tools[name], confined{limits: c.Tools[name].limits()}
		var err error
		if t.RunAs != nil && t.enabled() {
			if b.user, err = confine.LookupUser(*t.RunAs); err == nil {
				err = b.user.Check()
			}
			if err != nil {
				return nil, fmt.Errorf("tools.%s.run_as: %w", name, err)
			}
		}
		if b.limits.Any() && t.enabled() {
			if b.tree, err = confine.OpenTree(c.Cgroup.Root, b.limits); err == nil && !swept {
				swept, err = true, b.tree.Sweep(command.GroupPrefix)
			}
			if err != nil {
				return nil, fmt.Errorf("cgroup.root: %w", err)
			}
		}
		out[name] = b
	}
	return out, nil
}
