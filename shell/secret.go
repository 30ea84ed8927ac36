package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/scarce"
	"github.com/orrery-go/orrery/shell/secrets"
)

// errSecret is the same whether a secret does not exist or is not allowed.
func errSecret(name string, use secrets.Use) error {
	return fmt.Errorf("secret %q is not known here, or tool %q of namespace %q and tenant %q may not have it", name, use.Tool, use.Namespace, use.Tenant)
}

// checkSecrets refuses an input that refers to a secret which its tool may not have, and
// gives the input as the tool's validator may see it, with texts in the place of secrets; nil
// if it has none.
func (e *Engine) checkSecrets(tool Tool, to effects.Ref, field string, input json.RawMessage, use secrets.Use) (samples []json.RawMessage, err error) {
	if _, stores := tool.(InputStorer); stores || e.o.Secrets == nil {
		return nil, nil
	}
	names, err := secrets.Names(input)
	if err != nil {
		return nil, invalid(to, "create", "%s: %v", field, err)
	}
	if len(names) == 0 {
		return nil, nil
	}
	for _, name := range names {
		if !e.o.Secrets.Allows(name, use) {
			return nil, invalid(to, "create", "%s: %v", field, errSecret(name, use))
		}
	}
	for _, stands := range []string{"secret", "https://secret.example/"} { // a word, or a whole address
		filled, err := secrets.Fill(input, func(string) (string, error) { return stands, nil })
		if err != nil {
			return nil, invalid(to, "create", "%s: %v", field, err)
		}
		samples = append(samples, filled)
	}
	return samples, nil
}

// validate asks the tool about an input: it is right if it is with any of the texts that
// may stand for its secrets.
func validate(v InputValidator, samples []json.RawMessage) (err error) {
	for _, input := range slices.Backward(samples) {
		if err = v.ValidateInput(input); err == nil {
			return nil
		}
	}
	return err
}

// fillSecrets puts the secrets into the input of a call, just before it. The mask is for
// all that comes back.
func (e *Engine) fillSecrets(ctx context.Context, a *core.Action, call *Call) (secrets.Mask, error) {
	if e.o.Secrets == nil {
		return secrets.Mask{}, nil
	}
	names, err := secrets.Names(call.Input)
	if err != nil {
		return secrets.Mask{}, Permanent(fmt.Errorf("tool_input: %w", err))
	}
	if len(names) == 0 {
		return secrets.Mask{}, nil
	}
	use := secrets.Use{Namespace: a.Namespace, Tenant: a.Tenant, Tool: a.ToolName}
	for _, name := range names {
		if !e.o.Secrets.Allows(name, use) {
			return secrets.Mask{}, Permanent(fmt.Errorf("tool_input: %w", errSecret(name, use)))
		}
	}
	if err := e.checkAuthor(ctx, a, names, wholeInput); err != nil {
		return secrets.Mask{}, err
	}
	values := make(map[string]string, len(names))
	filled, err := secrets.Fill(call.Input, func(name string) (string, error) {
		if v, ok := values[name]; ok {
			return v, nil
		}
		v, err := e.o.Secrets.Value(ctx, name)
		if err != nil {
			err = fmt.Errorf("tool_input: secret %q could not be read: %w", name, err)
			if scarce.What(err) != "" {
				err = NotStarted(err)
			}
			return "", err
		}
		values[name] = v
		return v, nil
	})
	mask := secrets.NewMask(values)
	if err != nil {
		return mask, mask.Error(err)
	}
	call.Input, call.log = filled, mask.Logger(call.log)
	return mask, nil
}
