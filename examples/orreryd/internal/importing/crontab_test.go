package importing_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/importing"
	"github.com/orrery-go/orrery/shell/command"
)

var update = flag.Bool("update", false, "write the golden files anew")

// now is the time of all imports of these tests.
var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// A crontabCase is a file of testdata/crontab. Its first line may say with which options it is imported:
// #test: system zone=Europe/Berlin dir=/home/anna tool=root=as-root.
type crontabCase struct {
	source  importing.Source
	options importing.CrontabOptions
}

func crontabCases(t *testing.T) []crontabCase {
	t.Helper()
	paths, err := filepath.Glob("testdata/crontab/*")
	require.NoError(t, err)
	var cases []crontabCase
	for _, p := range paths {
		if strings.HasSuffix(p, ".golden") {
			continue
		}
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		c := crontabCase{source: importing.Source{Name: filepath.Base(p), Text: text}, options: importing.CrontabOptions{Now: now}}
		first, _, _ := strings.Cut(string(text), "\n")
		words, has := strings.CutPrefix(strings.TrimSpace(first), "#test:")
		if !has {
			cases = append(cases, c)
			continue
		}
		c.source.Text = bytes.TrimPrefix(text, []byte(strings.TrimSpace(first))) // an empty line is left
		for word := range strings.FieldsSeq(words) {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "system":
				c.source.System = true
			case "zone":
				c.options.Zone = value
			case "dir":
				c.options.Dir = value
			case "tool":
				user, tool, _ := strings.Cut(value, "=")
				c.options.Tools = map[string]string{user: tool}
			default:
				require.Fail(t, "unknown option", "%s: %s", p, word)
			}
		}
		cases = append(cases, c)
	}
	return cases
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, path)
}

// told is all that an import says.
func told(r importing.Result, err error) string {
	var b strings.Builder
	for i, f := range r.Files {
		if i > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, "== %s\n%s", f.Name, f.Text)
	}
	if len(r.Notes) > 0 {
		b.WriteString("== notes\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintln(&b, n)
	}
	if err != nil {
		fmt.Fprintf(&b, "== errors\n%s\n", err)
	}
	return b.String()
}

func TestCrontabsBecomeTheFilesAndNotesOfTheGoldenFiles(t *testing.T) {
	for _, c := range crontabCases(t) {
		t.Run(c.source.Name, func(t *testing.T) {
			r, err := importing.Crontab([]importing.Source{c.source}, c.options)
			golden(t, filepath.Join("testdata/crontab", c.source.Name+".golden"), told(r, err))
		})
	}
}

// A recurringFile is what a file of recurring actions may say, as whoever reads it sees it.
type recurringFile struct {
	Namespace string                     `toml:"namespace"`
	Tenant    string                     `toml:"tenant"`
	Recurring map[string]recurringAction `toml:"recurring"`
}

type recurringAction struct {
	Cron        string   `toml:"cron"`
	TZ          string   `toml:"tz"`
	DayMatch    string   `toml:"day_match"`
	Jitter      string   `toml:"jitter"`
	Description string   `toml:"description"`
	Command     []string `toml:"command"`
	Tool        string   `toml:"tool"`
	Input       *struct {
		Argv  []string          `toml:"argv" json:"argv"`
		Dir   string            `toml:"dir" json:"dir,omitempty"`
		Stdin string            `toml:"stdin" json:"stdin,omitempty"`
		Env   map[string]string `toml:"env" json:"env,omitempty"`
	} `toml:"input"`
}

func readRecurring(t *testing.T, text []byte) map[string]recurringAction {
	t.Helper()
	var f recurringFile
	require.NoError(t, toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&f), "%s", text)
	return f.Recurring
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	made := 0
	tool, err := command.New(command.Options{})
	require.NoError(t, err)
	for _, c := range crontabCases(t) {
		r, err := importing.Crontab([]importing.Source{c.source}, c.options)
		if strings.HasPrefix(c.source.Name, "broken") {
			require.Error(t, err)
			require.Empty(t, r)
			continue
		}
		require.NoError(t, err, c.source.Name)
		n := 0
		for _, f := range r.Files {
			for name, a := range readRecurring(t, f.Text) {
				n++
				assert.True(t, core.IsGivenName(name), name)
				assert.NotEqual(t, len(a.Command) > 0, a.Tool != "" && a.Input != nil, "%s: %s: a command or a tool with its input", c.source.Name, name)
				input, err := json.Marshal(map[string]any{"argv": a.Command})
				if a.Input != nil {
					input, err = json.Marshal(a.Input)
				}
				require.NoError(t, err)
				require.NoError(t, tool.ValidateInput(input), "%s: %s", c.source.Name, name)
			}
		}
		assert.Equal(t, r.Made, n, c.source.Name)
		made += n
	}
	assert.Greater(t, made, 70)
}

func TestSeveralCrontabsHaveNamesThatAreUniqueAmongThem(t *testing.T) {
	line := []byte("0 3 * * * /usr/local/bin/backup\n")
	r, err := importing.Crontab([]importing.Source{{Name: "/a/nightly", Text: line}, {Name: "/b/nightly", Text: line}}, importing.CrontabOptions{Now: now})
	require.NoError(t, err)
	require.Len(t, r.Files, 2)
	assert.Equal(t, "nightly.toml", r.Files[0].Name)
	assert.Equal(t, "nightly-2.toml", r.Files[1].Name)
	together := readRecurring(t, append(r.Files[0].Text, r.Files[1].Text...)) // as on standard output
	assert.Contains(t, together, "backup")
	assert.Contains(t, together, "backup-2")
	assert.Len(t, together, 2)
}

func TestABrokenLineNamesFileLineFieldAndText(t *testing.T) {
	_, err := importing.Crontab([]importing.Source{
		{Name: "good", Text: []byte("0 3 * * * /bin/true\n")}, {Name: "bad", Text: []byte("\n  0 25 * * * /bin/true\n\xff\xfe * * * * x\n")},
	}, importing.CrontabOptions{Now: now})
	var all importing.Errors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 2)
	assert.Equal(t, importing.Error{File: "bad", Line: 2, Column: 3, Field: "hour", Problem: `25 is not between 0 and 23, in "0 25 * * * /bin/true"`}, all[0])
	assert.Equal(t, 3, all[1].Line)
	assert.Contains(t, all[1].Problem, "UTF-8")
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	_, err := importing.Crontab(nil, importing.CrontabOptions{Zone: "Mars"})
	require.ErrorContains(t, err, "Mars")
	_, err = importing.Crontab([]importing.Source{{Name: "big", Text: make([]byte, importing.MaxBytes+1)}}, importing.CrontabOptions{})
	require.ErrorContains(t, err, "big: ")
	_, err = importing.Crontab([]importing.Source{{Name: "many", Text: []byte(strings.Repeat("x\n", 1000))}}, importing.CrontabOptions{})
	var all importing.Errors
	require.ErrorAs(t, err, &all)
	assert.Len(t, all, 101)
	assert.Contains(t, all[100].Problem, "not said any more")
}

func TestTheDelayOfALineIsWithinThatOfASchedule(t *testing.T) {
	read := func(delay string) (map[string]recurringAction, error) {
		r, err := importing.Crontab([]importing.Source{{Name: "tab", Text: []byte("RANDOM_DELAY=" + delay + "\n0 3 * * * /bin/true\n")}}, importing.CrontabOptions{Now: now})
		if err != nil {
			return nil, err
		}
		return readRecurring(t, r.Files[0].Text), nil
	}
	most := core.MaxJitterSeconds / 60
	for delay, seconds := range map[string]string{"0": "", "1": "1m", strconv.Itoa(most): strconv.Itoa(most) + "m"} {
		got, err := read(delay)
		require.NoError(t, err, delay)
		require.Len(t, got, 1)
		for _, r := range got {
			assert.Equal(t, seconds, r.Jitter, delay)
		}
	}
	for _, delay := range []string{"-1", "x", strconv.Itoa(most + 1), "200000000000000000"} {
		_, err := read(delay)
		assert.ErrorContains(t, err, "RANDOM_DELAY", delay)
		assert.ErrorContains(t, err, "is no number of minutes from 0 to "+strconv.Itoa(most), delay)
	}
}
