package cli

import (
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// field is a field of the body of a request, mostly with the flag that gives its value.
type field struct {
	name    string                                       // in the body; empty: the value is a map of several fields
	flag    string                                       // empty: it has none
	missing string                                       // what to say if the field is left out; empty: it may be
	add     func(*cobra.Command)                         // adds the flag
	value   func(a *app, args []string) (v any, e error) // nil: the field is left out
}

// flagField is a field with a flag that define adds; sent gives what is sent for its value.
func flagField[T any](
	define func(*pflag.FlagSet, *T, string, T, string), flag string, byDefault T, usage string, sent func(*app, T) (any, error),
) field {
	v := new(T)
	return field{
		name: strings.ReplaceAll(flag, "-", "_"), flag: flag,
		add:   func(cmd *cobra.Command) { define(cmd.Flags(), v, flag, byDefault, usage) },
		value: func(a *app, _ []string) (any, error) { return sent(a, *v) },
	}
}

// as names the field otherwise than the flag.
func (f field) as(name string) field {
	f.name = name
	return f
}

// needed refuses a request without the field.
func (f field) needed(missing string) field {
	f.missing = missing
	return f
}

// ifGiven sends the field if its flag is given, also with an empty value, and not otherwise.
func (f field) ifGiven() field {
	var flag *pflag.Flag
	add, value := f.add, f.value
	f.add = func(cmd *cobra.Command) {
		add(cmd)
		flag = cmd.Flag(f.flag)
	}
	f.value = func(a *app, args []string) (any, error) {
		if !flag.Changed {
			return nil, nil
		}
		return value(a, args)
	}
	return f
}

// asIs sends the value of a flag, zero or not.
func asIs[T any](_ *app, v T) (any, error) { return v, nil }

// unlessZero leaves the field out if the value of its flag is zero.
func unlessZero[T comparable](_ *app, v T) (any, error) {
	var zero T
	if v == zero {
		return nil, nil
	}
	return v, nil
}

func textField(flag, usage string) field {
	return flagField((*pflag.FlagSet).StringVar, flag, "", usage, unlessZero)
}

// givenTextField is a text that is sent if it is given, even if it is empty.
func givenTextField(flag, usage string) field {
	return flagField((*pflag.FlagSet).StringVar, flag, "", usage, asIs).ifGiven()
}

// wordField is a word that is sent if it is given; an empty one stands for the default.
func wordField(flag, usage string, words []string) field {
	f := flagField((*pflag.FlagSet).StringVar, flag, "", usage, func(_ *app, v string) (any, error) {
		if v == "" {
			return v, nil
		}
		return v, checkOneOf(flag, v, words)
	}).ifGiven()
	add := f.add
	f.add = func(cmd *cobra.Command) {
		add(cmd)
		fixed(cmd, flag, words)
	}
	return f
}

// timeField is a time, in RFC 3339; an empty one is left out.
func timeField(flag, usage string) field {
	return flagField((*pflag.FlagSet).StringVar, flag, "", usage, func(_ *app, at string) (any, error) {
		if at == "" {
			return nil, nil
		}
		return at, checkTime(flag, at)
	})
}

// secondsField is a duration, which the API takes in seconds.
func secondsField(flag, usage string, least time.Duration) field {
	return flagField((*pflag.FlagSet).DurationVar, flag, 0, usage, func(_ *app, d time.Duration) (any, error) {
		return int64(d / time.Second), wholeSeconds(flag, d, least)
	}).as(strings.ReplaceAll(flag, "-", "_") + "_seconds").ifGiven()
}

// wholeSeconds refuses a duration that the API cannot take in seconds.
func wholeSeconds(flag string, d, least time.Duration) error {
	if d < least || d%time.Second != 0 {
		return usagef("--%s: %s is not a whole number of seconds, at least %s", flag, d, least)
	}
	return nil
}

// reasonField is why something is done.
func reasonField() field { return textField("reason", "`text` that says why") }

func boolField(flag, usage string) field {
	return flagField((*pflag.FlagSet).BoolVar, flag, false, usage, unlessZero)
}

// between refuses a number that is out of bounds.
func between(flag string, least, most uint32) func(*app, uint32) (any, error) {
	return func(_ *app, n uint32) (any, error) {
		if n < least || n > most {
			return nil, usagef("--%s: %d is not between %d and %d", flag, n, least, most)
		}
		return n, nil
	}
}

func countField(flag string, byDefault uint32, usage string) field {
	return flagField((*pflag.FlagSet).Uint32Var, flag, byDefault, usage, asIs)
}

// idField is the id of something.
func idField(flag, usage string) field {
	return flagField((*pflag.FlagSet).StringVar, flag, "", usage, func(_ *app, v string) (any, error) {
		if v == "" {
			return nil, nil
		}
		if err := checkID(v); err != nil {
			return nil, flagged(flag, err)
		}
		return v, nil
	})
}

// newIDField is the id that the command gives to the machine it makes.
func newIDField(what string) field {
	return idField("id", "`id` of the "+what+", a UUID (default a fresh one)")
}

func labelField() field { return textField("label", "`text` that says what it is") }

// listField is what is read from the values of a flag that may be repeated; left out if there is none.
func listField[T any](flag, usage string, read func(flag string, list []string) (T, error)) field {
	return flagField((*pflag.FlagSet).StringArrayVar, flag, nil, usage, func(_ *app, list []string) (any, error) {
		if len(list) == 0 {
			return nil, nil
		}
		return read(flag, list)
	})
}

// nested is an object of fields.
func nested(name string, fields ...field) field {
	return field{
		name:  name,
		add:   func(cmd *cobra.Command) { addFlags(cmd, fields) },
		value: func(a *app, args []string) (any, error) { return a.bodyOf(fields, args) },
	}
}

// addFlags adds the flags of fields to a command.
func addFlags(cmd *cobra.Command, fields []field) *cobra.Command {
	for _, f := range fields {
		if f.add != nil {
			f.add(cmd)
		}
	}
	return cmd
}

// jsonField is a value of JSON, which may be given as @FILE or as - for stdin.
func jsonField(flag, usage string) field {
	return flagField((*pflag.FlagSet).StringVar, flag, "", usage, func(a *app, v string) (any, error) {
		if v == "" {
			return nil, nil
		}
		return a.needJSON(flag, v)
	})
}

// millisField is a duration, which the API takes in milliseconds under a name that says so.
func millisField(flag, usage string, check func(time.Duration) error) field {
	return flagField((*pflag.FlagSet).DurationVar, flag, 0, usage, func(_ *app, d time.Duration) (any, error) {
		return d.Milliseconds(), check(d)
	}).as(strings.ReplaceAll(flag, "-", "_") + "_ms")
}

func anyDuration(time.Duration) error { return nil }

// argument is a field whose value is the command's second argument.
func argument(name string) field {
	return field{name: name, value: func(_ *app, args []string) (any, error) { return args[1], nil }}
}

// constant is a field whose value is always the same.
func constant(name string, v any) field {
	return field{name: name, value: func(*app, []string) (any, error) { return v, nil }}
}

// bodyOf gives the body that fields make.
func (a *app) bodyOf(fields []field, args []string) (map[string]any, error) {
	body := make(map[string]any, len(fields))
	for _, f := range fields {
		v, err := f.value(a, args)
		switch {
		case err != nil:
			return nil, err
		case v != nil && f.name == "":
			several, _ := v.(map[string]any)
			maps.Copy(body, several)
		case v != nil:
			body[f.name] = v
		case f.missing != "":
			return nil, usagef("--%s is missing: %s", f.flag, f.missing)
		}
	}
	return body, nil
}
