package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell/kube"
)

// shells are programs that run any other one, or any code, that their arguments or their
// input name: in a list of executables they allow everything.
var shells = []string{
	"ash", "awk", "bash", "busybox", "chroot", "cmd", "csh", "dash", "doas", "docker", "ed", "emacs", "env", "expect",
	"find", "fish", "flock", "gawk", "gdb", "git", "go", "ionice", "java", "ksh", "kubectl", "ld", "less", "lua", "make", "man",
	"mawk", "more", "nc", "nice", "node", "nohup", "npm", "npx", "nsenter", "parallel", "perl", "php", "pip", "podman",
	"powershell", "pwsh", "python", "rbash", "rsync", "ruby", "scp", "screen", "script", "sed", "setsid", "sh", "socat", "sqlite",
	"ssh", "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset", "tar", "tclsh", "tcsh", "tftp", "time", "timeout", "tmux",
	"unshare", "vi", "vim", "watch", "wish", "xargs", "zip", "zsh",
}

// isShell reports whether a program is known to run any other one. The version in its name
// does not count: python3.12.
func isShell(program string) bool {
	name := strings.TrimRight(strings.TrimSuffix(filepath.Base(program), ".exe"), "0123456789.-")
	return slices.Contains(shells, name)
}

// Warnings say what is allowed, and restricts less than it seems to.
func (c *Config) Warnings() []string {
	return slices.Concat(c.warnTools(), c.warnRunners(), c.warnSessions(), c.Apply.warn())
}

// writes reports whether a token is a tenant's, and may change something.
func (t tokenConfig) writes() bool { return !t.Admin && !t.ReadOnly && !t.Metrics }

// tenantTokens are the names of tokens that may change something and are no admin's.
func (c *Config) tenantTokens() (names []string) {
	for _, t := range c.Tokens {
		if t.writes() {
			names = append(names, t.Name)
		}
	}
	return names
}

func warnShells(key string, executables []string) (warnings []string) {
	for i, e := range executables {
		if isShell(e) {
			warnings = append(warnings, fmt.Sprintf("%s.executables[%d]: %q runs any program that its arguments name: the list restricts nothing", key, i, e))
		}
	}
	return warnings
}

func (c *Config) warnTools() (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t, key := c.Tools[name], "tools."+name
		if t.Type != TypeCommand || !t.enabled() {
			continue
		}
		if t.Executables != nil {
			warnings = append(warnings, warnShells(key, *t.Executables)...)
			continue
		}
		var who []string
		for _, k := range c.Tokens {
			if k.writes() && (k.Tools == nil || slices.Contains(k.Tools, name)) {
				who = append(who, k.Name)
			}
		}
		if len(who) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: runs any program as %s for the tokens %s: set executables, or leave the tool out of their tools", key, asUser(t.RunAs), strings.Join(who, ", ")))
		}
	}
	return warnings
}

func (c *Config) warnRunners() (warnings []string) {
	for _, name := range c.RunnerNames() {
		r, key := c.Runners[name], "runners."+name
		if r.Type != runnerLocal {
			if p := deref(r.Profile); p != "" && p != kube.ProfileRestricted && len(c.tenantTokens()) > 0 {
				warnings = append(warnings, fmt.Sprintf("%s.profile: pods of %q may have what tenants should not share: set %q, or name the runner in no token", key, p, kube.ProfileRestricted))
			}
			continue
		}
		switch {
		case r.Executables != nil:
			warnings = append(warnings, warnShells(key, *r.Executables)...)
		case c.guarded():
			warnings = append(warnings, key+": runs any program as "+asUser(r.RunAs)+" for whoever may use it: set executables, or take it away with enabled = false")
		}
	}
	return warnings
}

// asUser names whom programs run as.
func asUser(runAs *string) string {
	if runAs == nil {
		return "the daemon's user"
	}
	return "the user " + *runAs
}

func (c *Config) warnSessions() (warnings []string) {
	for i, t := range c.Tokens {
		if t.Sessions && c.Workspace != "" {
			who := asUser(c.Sessions.RunAs)
			if c.Sessions.RunAs != nil {
				who += ", whose files all sessions share"
			}
			warnings = append(warnings, fmt.Sprintf("tokens[%d].sessions: a terminal session runs any program as %s, whatever executables say: %q may have one", i, who, t.Name))
		}
	}
	return warnings
}
