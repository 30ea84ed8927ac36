package config

import "slices"

// Reloaded is what a daemon takes over while it runs, of settings that were read again.
type Reloaded struct {
	InForce Config // the settings with that
	// Withheld are the names of tokens that can be used from the next start only.
	Withheld []string
	// Tokens reports whether tokens can be replaced: not if there was none at the start, or none would be left.
	Tokens bool
}

// Reload gives what of settings that were read again holds at once: the level of the log, the tokens and the secrets of tools.
// Everything else is as it was in force. began are the settings of the start.
//
// A token that may change something must lie within one of the start: how the programs of tenants are confined, which workspace and which
// runners they have, and whether their limits act was decided at the start by which tenants have tokens.
func Reload(began, was, now Config) Reloaded {
	r := Reloaded{InForce: was}
	r.InForce.LogLevel = now.LogLevel
	if len(began.Secrets) > 0 {
		r.InForce.Secrets = now.Secrets
	}
	var tokens []tokenConfig
	var withheld []string
	for _, t := range now.Tokens {
		if t.writes() && !slices.ContainsFunc(began.Tokens, t.within) {
			withheld = append(withheld, t.Name)
			continue
		}
		tokens = append(tokens, t)
	}
	if len(began.Tokens) > 0 && len(tokens) > 0 {
		r.InForce.Tokens, r.Withheld, r.Tokens = tokens, withheld, true
	}
	return r
}

// within reports whether another token may change something in all of the namespaces and tenants of this one.
func (t tokenConfig) within(o tokenConfig) bool {
	subset := func(of, all []string) bool {
		return all == nil || of != nil && !slices.ContainsFunc(of, func(name string) bool { return !slices.Contains(all, name) })
	}
	return o.writes() && subset(t.Namespaces, o.Namespaces) && subset(t.Tenants, o.Tenants)
}
