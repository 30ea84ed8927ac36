package importing

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"
)

// A recurring is a recurring action as it stands in a file: its keys are the flags of "orreryd recurring add".
type recurring struct {
	Cron        string   `toml:"cron"`
	TZ          string   `toml:"tz,omitempty"`
	DayMatch    string   `toml:"day_match,omitempty"`
	Jitter      string   `toml:"jitter,omitempty"`
	Description string   `toml:"description,omitempty"`
	Command     []string `toml:"command,omitempty"`
	Tool        string   `toml:"tool,omitempty"`

	name   string
	from   string // where it comes from, and the line as it stands there
	inputs *commandInput
}

// A commandInput is the input of the tool command, where a plain command does not say enough.
type commandInput struct {
	Argv  []string          `toml:"argv"`
	Dir   string            `toml:"dir,omitempty"`
	Stdin string            `toml:"stdin,omitempty"`
	Env   map[string]string `toml:"env,omitempty,inline"`
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// tomlKey writes a name as a key.
func tomlKey(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return `"` + name + `"` // a name has nothing that would need more
}

// write appends the table of a recurring action to a file.
func (r *recurring) write(b *bytes.Buffer) error {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "# %s\n[recurring.%s]\n", comment(r.from), tomlKey(r.name))
	if err := encode(b, r); err != nil || r.inputs == nil {
		return err
	}
	fmt.Fprintf(b, "\n[recurring.%s.input]\n", tomlKey(r.name))
	return encode(b, r.inputs)
}

func encode(b *bytes.Buffer, v any) error {
	text, err := toml.Marshal(v)
	if err != nil {
		return fmt.Errorf("write TOML: %w", err)
	}
	b.Write(text)
	return nil
}

// comment is a text as it may stand behind a "#" of TOML.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
