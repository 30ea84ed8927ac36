package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// tokenConfig is one [[tokens]]: who may use the HTTP API, and for what. A list
// that is left out means all; an empty one is refused, since it reads as none.
// Exactly one of the first four says what the token is.
type tokenConfig struct {
	Token       string `toml:"token,omitempty"`
	TokenSHA256 string `toml:"token_sha256,omitempty"` // in hex
	TokenEnv    string `toml:"token_env,omitempty"`
	TokenFile   string `toml:"token_file,omitempty"`

	Name       string   `toml:"name"`
	Namespaces []string `toml:"namespaces,omitempty"`
	Tenants    []string `toml:"tenants,omitempty"`
	Tools      []string `toml:"tools,omitempty"`
	Admin      bool     `toml:"admin,omitempty"`
	ReadOnly   bool     `toml:"read_only,omitempty"`
	Expires    any      `toml:"expires,omitempty"` // a TOML date-time with a zone, or RFC 3339
}

// minToken is the fewest bytes of a token that nobody guesses.
const minToken = 16

// sum gives the hash under which the token is known.
func (t tokenConfig) sum(key string) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	given := 0
	for _, v := range []string{t.Token, t.TokenSHA256, t.TokenEnv, t.TokenFile} {
		if v != "" {
			given++
		}
	}
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
		return sum, nil
	}
	secret, field, err := readSecret(t.Token, t.TokenEnv, t.TokenFile, "token")
	if err != nil {
		return sum, fmt.Errorf("%s.%w", key, err)
	}
	if len(secret) < minToken {
		return sum, fmt.Errorf("%s.%s: has %d bytes: want at least %d, such as openssl rand -hex 32 prints", key, field, len(secret), minToken)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sum, fmt.Errorf("%s.%s: has white space or characters that are not ASCII: an HTTP header cannot carry it", key, field)
	}
	return sha256.Sum256([]byte(secret)), nil
}

// readSecret reads a secret from where it is said to be; it appears in no error.
func readSecret(value, env, file, name string) (secret, field string, err error) {
	switch {
	case value != "":
		return value, name, nil
	case env != "":
		v, ok := os.LookupEnv(env)
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

// expires gives the end of the token; zero: none.
func (t tokenConfig) expires(key string) (time.Time, error) {
	switch v := t.Expires.(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return v, nil
	case string:
		at, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return at, fmt.Errorf("%s.expires: %q is not a time such as 2027-01-31T00:00:00Z", key, short(v, 40))
		}
		return at, nil
	default:
		return time.Time{}, fmt.Errorf("%s.expires: %v has no time zone: write it such as 2027-01-31T00:00:00Z", key, v)
	}
}

func (c *config) validateTokens() error {
	var errs []error
	names := map[string]bool{}
	sums := map[[sha256.Size]byte]string{}
	for i, t := range c.Tokens {
		key := fmt.Sprintf("tokens[%d]", i)
		switch {
		case !plainName(t.Name):
			errs = append(errs, fmt.Errorf("%s.name: %q is not 1 to 64 letters, digits, '-', '_' and '.': the journal names who did what", key, short(t.Name, 40)))
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
		for _, name := range t.Tools {
			if tool, ok := c.Tools[name]; !ok {
				errs = append(errs, fmt.Errorf("%s.tools: %q is not a configured tool: use one of %s", key, short(name, 40), c.enabledTools()))
			} else if !tool.enabled() {
				errs = append(errs, fmt.Errorf("%s.tools: %w", key, disabledTool(name)))
			}
		}
		errs = append(errs,
			refuseEmpty(key+".namespaces", t.Namespaces), refuseEmpty(key+".tenants", t.Tenants), refuseEmpty(key+".tools", t.Tools))
		_, err := t.expires(key)
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

// refuseEmpty refuses a list that is written without anything in it: it reads as
// nothing, and would be everything.
func refuseEmpty(key string, list []string) error {
	if list != nil && len(list) == 0 {
		return fmt.Errorf("%s: the list is empty: leave it out for all, or name some", key)
	}
	return nil
}

// Schemes of webhook signatures.
const (
	signStandard = "standard" // Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature
	signGitHub   = "github"   // X-Hub-Signature-256
	signNone     = "none"
)

func (w webhookConfig) signature() string { return or(w.Signature, signStandard) }

// secrets gives the secrets that sign this route's requests; each is good.
func (w webhookConfig) secrets(key string) ([]string, error) {
	given := 0
	for _, v := range []string{w.Secret, w.SecretEnv, w.SecretFile} {
		if v != "" {
			given++
		}
	}
	scheme := w.signature()
	switch scheme {
	case signNone:
		if given > 0 {
			return nil, fmt.Errorf("%s: has a secret that signature \"none\" never asks for: use %q or %q, or leave it out", key, signStandard, signGitHub)
		}
		return nil, nil
	case signStandard, signGitHub:
	default:
		return nil, fmt.Errorf("%s.signature: %q is unknown: use %q, %q or %q", key, scheme, signStandard, signGitHub, signNone)
	}
	if given != 1 {
		return nil, fmt.Errorf("%s: signature %q needs exactly one of secret, secret_env and secret_file: there are %d (or say signature = \"none\")", key, scheme, given)
	}
	text, field, err := readSecret(w.Secret, w.SecretEnv, w.SecretFile, "secret")
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	var secrets []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			secrets = append(secrets, line)
		}
	}
	for i, s := range secrets {
		if scheme == signStandard {
			if _, err := standardwebhooks.NewWebhook(s); err != nil {
				return nil, fmt.Errorf("%s.%s: secret %d is not base64, as signature %q wants it (whsec_…)", key, field, i+1, signStandard)
			}
		}
	}
	return secrets, nil
}
