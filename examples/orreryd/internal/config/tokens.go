package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// tokenConfig is one [[tokens]]: who may use the HTTP API, and for what. A list
// that is left out means all; an empty list is refused, since it reads as none.
// Exactly one of the first four fields gives the token.
type tokenConfig struct {
	Token       string `toml:"token,omitempty"`
	TokenSHA256 string `toml:"token_sha256,omitempty"` // in hex
	TokenEnv    string `toml:"token_env,omitempty"`
	TokenFile   string `toml:"token_file,omitempty"`

	Name       string   `toml:"name"`
	Namespaces []string `toml:"namespaces,omitempty"`
	Tenants    []string `toml:"tenants,omitempty"`
	Tools      []string `toml:"tools,omitempty"`
	Runners    []string `toml:"runners,omitempty"` // beside those that are open to all
	Sessions   bool     `toml:"sessions,omitempty"`
	Git        bool     `toml:"git,omitempty"`
	Admin      bool     `toml:"admin,omitempty"`
	ReadOnly   bool     `toml:"read_only,omitempty"`
	Metrics    bool     `toml:"metrics,omitempty"`
	Expires    any      `toml:"expires,omitempty"` // a TOML date-time with a zone, or RFC 3339
}

// minToken is the fewest bytes of a token that nobody guesses.
const minToken = 16

// sum gives the hash under which the token is known.
func (t tokenConfig) sum(key string) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	given := countGiven(t.Token, t.TokenSHA256, t.TokenEnv, t.TokenFile)

	if given != 1 {
		return sum, fmt.Errorf("%s: give exactly one of token, token_sha256, token_env and token_file: there are %d", key, given)
	}
	if t.TokenSHA256 != "" {
		b, err := hex.DecodeString(t.TokenSHA256)
		if err != nil || len(b) != sha256.Size {
			return sum, fmt.Errorf("%s.token_sha256: want the %d hex digits that sha256sum prints", key, 2*sha256.Size)
		}
		if sum = [sha256.Size]byte(b); sum == sha256.Sum256(nil) || sum == [sha256.Size]byte{} {
			return sum, fmt.Errorf("%s.token_sha256: is the hash of nothing: hash a token such as openssl rand -hex 32 prints", key)
		}
		if isPublishedSum(sum) {
			return sum, errPublished(key + ".token_sha256")
		}
		return sum, nil
	}
	secret, field, err := readSecret(t.Token, t.TokenEnv, t.TokenFile, "token")
	if err != nil {
		return sum, fmt.Errorf("%s.%w", key, err)
	}
	if len(secret) < minToken {
		return sum, fmt.Errorf("%s.%s: has %d bytes: want at least %d, such as openssl rand -hex 32 prints", key, field, len(secret), minToken)
	}
	if isPublished(secret) {
		return sum, errPublished(key + "." + field)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sum, fmt.Errorf("%s.%s: has white space or characters that are not ASCII: an HTTP header cannot carry it", key, field)
	}
	return sha256.Sum256([]byte(secret)), nil
}

// readSecret reads a secret from the value, the variable or the file that is given. No
// error shows the secret.
func readSecret(value, env, file, name string) (secret, field string, err error) {
	switch {
	case value != "":
		return value, name, nil
	case env != "":
		v, ok := LookupSecretEnv(env)
		if !ok || v == "" {
			return "", "", fmt.Errorf("%s_env: the environment variable %q is not set", name, env)
		}
		return strings.TrimSpace(v), name + "_env", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", "", fmt.Errorf("%s_file: %w", name, err)
	}
	v := strings.TrimSpace(string(b))
	if v == "" {
		return "", "", fmt.Errorf("%s_file: %s is empty", name, file)
	}
	return v, name + "_file", nil
}

// Expiry gives when the token expires; zero: never.
func (t tokenConfig) Expiry(key string) (time.Time, error) {
	switch v := t.Expires.(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return v, nil
	case string:
		at, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return at, fmt.Errorf("%s.expires: %q is not a time such as 2027-01-31T00:00:00Z", key, text.Clip(v, 40))
		}
		return at, nil
	default:
		return time.Time{}, fmt.Errorf("%s.expires: %v has no time zone: write it such as 2027-01-31T00:00:00Z", key, v)
	}
}

func (c *Config) validateTokens() error {
	var errs []error
	names := map[string]bool{}
	sums := map[[sha256.Size]byte]string{}
	for i, t := range c.Tokens {
		key := fmt.Sprintf("tokens[%d]", i)
		switch {
		case !PlainName(t.Name):
			errs = append(errs, fmt.Errorf("%s.name: %q is not 1 to 64 letters, digits, '-', '_' and '.': the journal names who did what", key, text.Clip(t.Name, 40)))
		case t.Name == "loopback":
			errs = append(errs, fmt.Errorf("%s.name: \"loopback\" is reserved for access without a token", key))
		case names[t.Name]:
			errs = append(errs, fmt.Errorf("%s.name: %q is there twice", key, t.Name))
		}
		names[t.Name] = true
		if t.Admin && t.ReadOnly {
			errs = append(errs, fmt.Errorf("%s: admin and read_only exclude each other", key))
		}
		if t.Admin && len(t.Namespaces)+len(t.Tenants)+len(t.Tools) > 0 {
			errs = append(errs, fmt.Errorf("%s: an admin may do everything: leave namespaces, tenants and tools out, or admin", key))
		}
		errs = append(errs, c.checkRights(key, t))
		if others := t.besideMetrics(); t.Metrics && len(others) > 0 {
			errs = append(errs, fmt.Errorf("%s: metrics excludes %s: such a token reads /metrics and nothing else: leave the others out, or metrics", key, strings.Join(others, ", ")))
		}
		for _, name := range t.Tools {
			if tool, ok := c.Tools[name]; !ok {
				errs = append(errs, fmt.Errorf("%s.tools: %q is not a configured tool: use one of %s", key, text.Clip(name, 40), c.enabledTools()))
			} else if !tool.enabled() {
				errs = append(errs, fmt.Errorf("%s.tools: %w", key, disabledTool(name)))
			}
		}
		errs = append(errs,
			refuseEmpty(key+".namespaces", t.Namespaces), refuseEmpty(key+".tenants", t.Tenants), refuseEmpty(key+".tools", t.Tools))
		_, err := t.Expiry(key)
		errs = append(errs, err)
		sum, err := t.sum(key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if other, ok := sums[sum]; ok {
			errs = append(errs, fmt.Errorf("%s: is the same token as %s", key, other))
		}
		sums[sum] = key
	}
	return errors.Join(errs...)
}

// checkRights checks what a token may use beside tools.
func (c *Config) checkRights(key string, t tokenConfig) error {
	var errs []error
	for right, has := range map[string]bool{"sessions": t.Sessions, "git": t.Git, "runners": len(t.Runners) > 0} {
		if has && (t.Admin || t.ReadOnly) {
			errs = append(errs, fmt.Errorf("%s.%s: an admin may do everything, and a read_only token changes nothing: leave %s out", key, right, right))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	for _, name := range t.Runners {
		if !c.Runners[name].enabled() || c.Runners[name].Type == "" {
			errs = append(errs, fmt.Errorf("%s.runners: %q is not one of the runners: %s", key, text.Clip(name, 40), c.runnersText()))
		}
	}
	return errors.Join(append(errs, refuseEmpty(key+".runners", t.Runners))...)
}

// besideMetrics names the keys that mean nothing for a token that only reads metrics.
func (t tokenConfig) besideMetrics() (keys []string) {
	for _, k := range []struct {
		key   string
		given bool
	}{
		{"admin", t.Admin}, {"read_only", t.ReadOnly},
		{"namespaces", t.Namespaces != nil}, {"tenants", t.Tenants != nil}, {"tools", t.Tools != nil},
		{"sessions", t.Sessions}, {"git", t.Git}, {"runners", t.Runners != nil},
	} {
		if k.given {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// refuseEmpty refuses a list that is given and empty: it reads as "none", and would mean
// "all".
func refuseEmpty(key string, list []string) error {
	if list != nil && len(list) == 0 {
		return fmt.Errorf("%s: the list is empty: leave it out for all, or name some", key)
	}
	return nil
}

// APITokens gives the tokens for the API.
func (c *Config) APITokens() ([]httpapi.Token, error) {
	tokens := make([]httpapi.Token, 0, len(c.Tokens))
	for i, t := range c.Tokens {
		key := fmt.Sprintf("tokens[%d]", i)
		sum, err := t.sum(key)
		if err != nil {
			return nil, err
		}
		expires, err := t.Expiry(key)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, httpapi.Token{
			Name: t.Name, SHA256: sum, Namespaces: t.Namespaces, Tenants: t.Tenants, Tools: t.Tools,
			Sessions: t.Sessions, Git: t.Git, Runners: t.Runners,
			Admin: t.Admin, ReadOnly: t.ReadOnly, Metrics: t.Metrics, Expires: expires,
		})
	}
	return tokens, nil
}

// PlainName reports whether s is harmless in logs, headers and paths.
func PlainName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return false
		}
	}
	return s != "" && s != "." && s != ".." && len(s) <= 64
}
