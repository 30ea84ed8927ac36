package importing_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/importing"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobfile"
)

// A kubernetesCase is a file of testdata/kubernetes; its first line may have options.
type kubernetesCase struct {
	source  importing.Source
	options importing.KubernetesOptions
}

func kubernetesCases(t *testing.T) []kubernetesCase {
	t.Helper()
	paths, err := filepath.Glob("testdata/kubernetes/*")
	require.NoError(t, err)
	var cases []kubernetesCase
	for _, p := range paths {
		if strings.HasSuffix(p, ".golden") {
			continue
		}
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		c := kubernetesCase{source: importing.Source{Name: filepath.Base(p), Text: text}, options: importing.KubernetesOptions{Now: now}}
		first, _, _ := strings.Cut(string(text), "\n")
		if words, has := strings.CutPrefix(first, "#test:"); has {
			for word := range strings.FieldsSeq(words) {
				switch key, value, _ := strings.Cut(word, "="); key {
				case "zone":
					c.options.Zone = value
				case "runner":
					c.options.Runner = value
				default:
					require.Fail(t, "unknown option", "%s: %s", p, word)
				}
			}
		}
		cases = append(cases, c)
	}
	return cases
}

func TestCronJobsBecomeTheFilesAndNotesOfTheGoldenFiles(t *testing.T) {
	for _, c := range kubernetesCases(t) {
		t.Run(c.source.Name, func(t *testing.T) {
			r, err := importing.Kubernetes([]importing.Source{c.source}, c.options)
			golden(t, filepath.Join("testdata/kubernetes", c.source.Name+".golden"), told(r, err))
		})
	}
}

func TestTheJobsThatAreMadeCanBeApplied(t *testing.T) {
	checker, err := constraints.New(constraints.Options{})
	require.NoError(t, err)
	made := 0
	for _, c := range kubernetesCases(t) {
		r, err := importing.Kubernetes([]importing.Source{c.source}, c.options)
		if err != nil {
			continue
		}
		for _, f := range r.Files {
			_, err := jobfile.Parse(f.Name, f.Text, jobfile.Options{Validate: checker.ValidateAnywhere})
			require.NoError(t, err, "%s: %s", c.source.Name, f.Text)
			made++
		}
		assert.Len(t, r.Files, r.Made)
	}
	assert.Greater(t, made, 15)
}

// kubernetesFires is the schedule of Kubernetes (robfig/cron) for a reading of the clock: a day must match both day fields if one of
// them has a star without a step, or a question mark. A time fires whenever the clock shows it.
func kubernetesFires(t *testing.T, expr string, r reading) bool {
	t.Helper()
	words := map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *"}
	if std, ok := words[expr]; ok {
		expr = std
	}
	fields := strings.Fields(expr)
	var has [5]bool
	var star [5]bool
	for i, bounds := range [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		value := []int8{r.minute, r.hour, r.day, r.month, r.weekday}[i]
		for item := range strings.SplitSeq(strings.ReplaceAll(fields[i], "?", "*"), ",") {
			body, _, stepped := strings.Cut(item, "/")
			if body == "*" && (!stepped || item == "*/1") {
				star[i] = true
			}
			if single := body != "*" && !strings.Contains(body, "-"); single && stepped {
				item = strings.Replace(item, body, body+"-"+[]string{"59", "23", "31", "12", "6"}[i], 1)
			}
			line := slices.Repeat([]string{"*"}, 5)
			line[i] = item
			v := parseVixie(t, strings.Join(line, " "))
			has[i] = has[i] || v.bits[i][value] && int(value) >= bounds[0] && int(value) <= bounds[1]
		}
	}
	if !has[0] || !has[1] || !has[3] {
		return false
	}
	if star[2] || star[4] {
		return has[2] && has[4]
	}
	return has[2] || has[4]
}

func TestEachJobFiresAsItsCronJobDoes(t *testing.T) {
	from, to := now, now.AddDate(1, 0, 0) // two changes of the clocks
	compared := 0
	shown := map[string][]look{}
	for _, c := range kubernetesCases(t) {
		r, err := importing.Kubernetes([]importing.Source{c.source}, c.options)
		if err != nil {
			continue
		}
		for _, f := range r.Files {
			specs, err := jobfile.Parse(f.Name, f.Text, jobfile.Options{})
			require.NoError(t, err)
			s := specs[0]
			original, zone := originalOf(t, string(c.source.Text), s.ID)
			if s.Schedule == "" || strings.HasPrefix(original, "@every") {
				continue
			}
			if zone == "" {
				zone = orUTC(c.options.Zone)
			}
			loc, err := time.LoadLocation(zone)
			require.NoError(t, err)
			fires := map[reading]bool{}
			var want []effects.Time
			if shown[zone] == nil {
				for at := from.Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
					w := at.In(loc)
					shown[zone] = append(shown[zone], look{at: effects.TimeOf(at), of: readingOf(w)})
				}
			}
			for _, l := range shown[zone] {
				// The clock is asked for each time of day once, and for each day once: the fields do not depend on each other.
				day, clock := l.of, l.of
				day.minute, day.hour = -1, -1
				clock.day, clock.month, clock.weekday = -1, -1, -1
				if known(fires, day, func() bool {
					return kubernetesFires(t, withFields(original, "*", "*"), reading{0, 0, l.of.day, l.of.month, l.of.weekday})
				}) &&
					known(fires, clock, func() bool {
						return kubernetesFires(t, withDays(original), reading{l.of.minute, l.of.hour, 1, 1, 1})
					}) {
					want = append(want, l.at)
				}
			}
			compiled, err := schedule.Spec{Expr: s.Schedule, Zone: orUTC(s.Timezone), DayMatch: s.DayMatch}.Compile()
			require.NoError(t, err)
			got, _ := compiled.Between(effects.TimeOf(from), effects.TimeOf(to), 1_000_000)
			named := slices.ContainsFunc(r.Notes, func(n importing.Note) bool {
				return strings.Contains(n.About, s.ID) && strings.Contains(n.Text, "where the clocks")
			})
			where := c.source.Name + ": " + s.ID + ": " + original + " in " + zone + " as " + s.Schedule
			var differ []effects.Time
			if !slices.Equal(want, got) {
				differ = different(want, got)
			}
			assert.Equal(t, named, len(differ) > 0, "%s: %v", where, first(differ))
			for _, at := range differ {
				assert.True(t, nearChange(t, zone, at), "%s: %s", where, at)
			}
			compared++
		}
	}
	assert.Greater(t, compared, 12)
}

func known(fires map[reading]bool, r reading, ask func() bool) bool {
	v, ok := fires[r]
	if !ok {
		v = ask()
		fires[r] = v
	}
	return v
}

// withFields is an expression with other fields of the time of day.
func withFields(expr, minute, hour string) string {
	if expr == "@daily" || expr == "@hourly" {
		return "* * * * *"
	}
	f := strings.Fields(expr)
	return strings.Join(append([]string{minute, hour}, f[2:]...), " ")
}

// withDays is an expression with any day.
func withDays(expr string) string {
	if strings.HasPrefix(expr, "@") {
		return expr
	}
	return strings.Join(append(strings.Fields(expr)[:2:2], "*", "*", "*"), " ")
}

// originalOf finds the schedule of a CronJob in a source, and its zone, as a person reads it.
func originalOf(t *testing.T, text, id string) (expr, zone string) {
	t.Helper()
	if id == "token-sweeper" {
		return "*/5 8-18/2 1,15 */3 mon-fri", "America/New_York"
	}
	name := strings.TrimPrefix(id, "production-")
	at := regexp.MustCompile(`name: ` + name + `[\n,}]`).FindStringIndex(text)
	require.NotNil(t, at, id)
	for line := range strings.Lines(text[at[0]:]) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch value = strings.Trim(value, `"'`); {
		case key == "schedule" && expr == "":
			expr = value
		case key == "timeZone":
			zone = value
		}
		if line == "---\n" || strings.HasPrefix(line, "- apiVersion") {
			break
		}
	}
	if rest, ok := strings.CutPrefix(expr, "CRON_TZ="); ok {
		zone, expr, _ = strings.Cut(rest, " ")
	}
	return expr, zone
}

func TestManifestsThatCannotBeReadAreRefused(t *testing.T) {
	_, err := importing.Kubernetes(nil, importing.KubernetesOptions{Zone: "Mars"})
	require.ErrorContains(t, err, "Mars")
	_, err = importing.Kubernetes([]importing.Source{{Name: "big", Text: make([]byte, importing.MaxBytes+1)}}, importing.KubernetesOptions{})
	require.ErrorContains(t, err, "big: ")
	r, err := importing.Kubernetes([]importing.Source{{Name: "none", Text: []byte("# nothing\n---\n")}}, importing.KubernetesOptions{})
	require.NoError(t, err)
	assert.Empty(t, r.Files)
}

// TestThereAreThirtyExamples: real-looking crontabs and CronJobs.
func TestThereAreThirtyExamples(t *testing.T) {
	assert.GreaterOrEqual(t, len(crontabCases(t))+len(kubernetesCases(t)), 30)
	assert.True(t, core.IsGivenName("postgres-backup"))
}
