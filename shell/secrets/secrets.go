// Package secrets lets a tool's input name secrets that it does not hold:
// {{secret "name"}} within any text of the input stands for the secret's value. The value
// is filled in just before the tool is called, and masked in what the tool gives back; so
// it stands in no state, journal, list or log.
//
// secrets.go has [Source] and a set of named secrets; reference.go finds references and
// fills them in; mask.go hides values.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Use is what a secret is wanted for.
type Use struct{ Namespace, Tenant, Tool string }

// Source gives the values of secrets. It must be safe for concurrent use.
type Source interface {
	// Allows reports whether there is a secret of that name that the use may have. It is
	// quick.
	Allows(name string, use Use) bool
	// Value gives the value of a secret that the use may have. The error does not quote it.
	Value(ctx context.Context, name string) (string, error)
}

// Bounds of a value, in bytes. A shorter one could not be masked without masking much
// else.
const (
	MinValue = 4
	MaxValue = 64 << 10
)

// Check reports why a text cannot be the value of a secret.
func Check(value string) error {
	if len(value) < MinValue || len(value) > MaxValue {
		return fmt.Errorf("it has %d bytes: want %d to %d", len(value), MinValue, MaxValue)
	}
	return nil
}

// Secret is a named secret, and who may use it. An empty list allows all.
type Secret struct {
	Read                       func(ctx context.Context) (string, error)
	Namespaces, Tenants, Tools []string
}

// Set is a [Source] of secrets by their names. It must not be changed once it is in use.
type Set map[string]Secret

// Allows implements [Source].
func (s Set) Allows(name string, use Use) bool {
	in := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	secret, ok := s[name]
	return ok && in(secret.Namespaces, use.Namespace) && in(secret.Tenants, use.Tenant) && in(secret.Tools, use.Tool)
}

// Value implements [Source].
func (s Set) Value(ctx context.Context, name string) (string, error) {
	secret, ok := s[name]
	if !ok {
		return "", errors.New("there is none of that name")
	}
	value, err := secret.Read(ctx)
	if err != nil {
		return "", err
	}
	return value, Check(value)
}

// Text reads a secret that is known already.
func Text(value string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return value, nil }
}

// File reads a secret anew from a file at each use, so that it can be replaced; white
// space around it is no part of it.
func File(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		info, err := os.Stat(path)
		if err == nil && info.Size() > 2*MaxValue {
			return "", fmt.Errorf("the file has %d bytes: at most %d", info.Size(), MaxValue)
		}
		b, err := os.ReadFile(path)
		return strings.TrimSpace(string(b)), err
	}
}

// commandLimit is how long the program of a secret may take.
const commandLimit = 10 * time.Second

// Command reads a secret from what a program prints to stdout, anew at each use; white
// space around it is no part of it. The program has the environment env and ten seconds.
func Command(argv, env []string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, commandLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env, cmd.WaitDelay = env, time.Second
		var out limited
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				return "", fmt.Errorf("program %q did not end within %s", argv[0], commandLimit)
			}
			return "", fmt.Errorf("program %q: %w", argv[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
}

// limited keeps the beginning of what a program prints: more than a value may have, so
// that one that is too long is found out.
type limited []byte

func (l *limited) Write(p []byte) (int, error) {
	*l = append(*l, p[:min(len(p), 2*MaxValue-len(*l))]...)
	return len(p), nil
}
