package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/secrets"
)

// namedSecretConfig is one [secrets.NAME]: where its value comes from, and who may use it.
type namedSecretConfig struct {
	SecretEnv     string   `toml:"secret_env,omitempty"`     // read once, at the start
	SecretFile    string   `toml:"secret_file,omitempty"`    // read anew at each use
	SecretCommand []string `toml:"secret_command,omitempty"` // run anew at each use
	Namespaces    []string `toml:"namespaces,omitempty"`
	Tenants       []string `toml:"tenants,omitempty"`
	Tools         []string `toml:"tools,omitempty"`
}

func (c *Config) validateSecrets() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		key := "secrets." + name
		if !PlainName(name) {
			errs = append(errs, fmt.Errorf("secrets: the name %q is not 1 to 64 letters, digits, '-', '_' and '.'", text.Clip(name, 40)))
			continue
		}
		s := c.Secrets[name]
		for _, l := range []struct {
			field string
			list  []string
		}{{"namespaces", s.Namespaces}, {"tenants", s.Tenants}, {"tools", s.Tools}} {
			if l.list != nil && len(l.list) == 0 {
				errs = append(errs, fmt.Errorf("%s.%s: must not be empty: leave it out to allow all", key, l.field))
			}
		}
		for i, tool := range s.Tools {
			if _, ok := c.Tools[tool]; !ok {
				errs = append(errs, fmt.Errorf("%s.tools[%d]: %q is unknown: use one of %s", key, i, text.Clip(tool, 40), c.enabledTools()))
			}
		}
		if _, err := s.secret(key); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// secret makes the secret. A variable and a file are looked at; a program is not run.
func (s namedSecretConfig) secret(key string) (secrets.Secret, error) {
	out := secrets.Secret{Namespaces: s.Namespaces, Tenants: s.Tenants, Tools: s.Tools}
	given := countGiven(s.SecretEnv, s.SecretFile)
	if s.SecretCommand != nil {
		given++
	}
	if given != 1 {
		return out, fmt.Errorf("%s: exactly one of secret_env, secret_file and secret_command is needed: there are %d", key, given)
	}
	if s.SecretCommand != nil {
		if len(s.SecretCommand) == 0 || s.SecretCommand[0] == "" {
			return out, fmt.Errorf("%s.secret_command: name a program and its arguments", key)
		}
		out.Read = secrets.Command(s.SecretCommand, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")})
		return out, nil
	}
	value, field, err := readSecret("", s.SecretEnv, s.SecretFile, "secret")
	if err == nil {
		if err = secrets.Check(value); err != nil {
			err = fmt.Errorf("%s: %w", field, err)
		} else if isPublished(value) {
			return out, errPublished(key + "." + field)
		}
	}
	if err != nil {
		return out, fmt.Errorf("%s.%w", key, err)
	}
	if out.Read = secrets.Text(value); s.SecretFile != "" {
		out.Read = secrets.File(s.SecretFile)
	}
	return out, nil
}

// NamedSecrets gives what inputs of tools may refer to; nil if there are none: a text such
// as {{secret "x"}} then has no meaning, and is other programs'.
func (c *Config) NamedSecrets() (secrets.Source, error) {
	if len(c.Secrets) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	set := make(secrets.Set, len(c.Secrets))
	for name, s := range c.Secrets {
		secret, err := s.secret("secrets." + name)
		if err != nil {
			return nil, err
		}
		set[name] = secret
	}
	return set, nil
}
