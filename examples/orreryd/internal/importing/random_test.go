package importing_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/examples/orreryd/internal/importing"
)

// drawField draws a field of a crontab: lists, ranges, steps beyond the range, and stars at any place of a list.
func drawField(t *rapid.T, label string, lo, hi int) string {
	var items []string
	for i := range rapid.IntRange(1, 3).Draw(t, label+" items") {
		a := rapid.IntRange(lo, hi).Draw(t, fmt.Sprint(label, i, " from"))
		b := rapid.IntRange(a, hi).Draw(t, fmt.Sprint(label, i, " to"))
		step := rapid.IntRange(1, hi+3).Draw(t, fmt.Sprint(label, i, " step"))
		items = append(items, rapid.SampledFrom([]string{
			"*", fmt.Sprintf("*/%d", step), fmt.Sprint(a), fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("%d-%d/%d", a, b, step),
		}).Draw(t, fmt.Sprint(label, i, " form")))
	}
	return strings.Join(items, ",")
}

// drawHour draws hours early in the day more often, when clocks change.
func drawHour(t *rapid.T) string {
	if rapid.Bool().Draw(t, "early") {
		return drawField(t, "hour", 0, 4)
	}
	return drawField(t, "hour", 0, 23)
}

// A window are the looks of a stretch of time.
type window struct {
	from, to effects.Time
	looks    []look
}

// windowsOf are the days around each change of the clocks, and ten days in which there is none.
func windowsOf(t *testing.T, zone string) []window {
	t.Helper()
	all := looksOf(t, zone)
	var list []window
	add := func(from, to time.Time) {
		w := window{from: effects.TimeOf(from), to: effects.TimeOf(to)}
		for _, l := range all {
			if l.at > w.from && l.at <= w.to {
				w.looks = append(w.looks, l)
			}
		}
		list = append(list, w)
	}
	add(oracleFrom.AddDate(0, 2, 0), oracleFrom.AddDate(0, 2, 10))
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	for at := oracleFrom; at.Before(oracleTo); {
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() || !end.Before(oracleTo) {
			break
		}
		add(end.Add(-26*time.Hour), end.Add(26*time.Hour))
		at = end.Add(time.Hour)
	}
	return list
}

func TestAnyLineFiresAsTheManualOfCronSays(t *testing.T) {
	windows := map[string][]window{}
	var zones []string
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Santiago"} {
		windows[zone] = windowsOf(t, zone)
		zones = append(zones, zone)
	}
	rapid.Check(t, func(rt *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		month := "*"
		if rapid.IntRange(0, 4).Draw(rt, "some months") == 0 {
			month = drawField(rt, "month", 1, 12)
		}
		line := strings.Join([]string{
			drawField(rt, "minute", 0, 59), drawHour(rt), drawField(rt, "dom", 1, 31), month, drawField(rt, "dow", 0, 7), "/bin/true",
		}, " ")
		r, err := importing.Crontab([]importing.Source{{Name: "c", Text: []byte(line + "\n")}}, importing.CrontabOptions{Zone: zone, Now: now})
		require.NoError(rt, err, line)
		if r.Made == 0 { // a day that does not exist
			require.Contains(rt, told(r, nil), "does not exist", line)
			return
		}
		a := readRecurring(t, r.Files[0].Text)["true"]
		s, err := schedule.Spec{Expr: a.Cron, Zone: orUTC(a.TZ), DayMatch: schedule.DayMatch(a.DayMatch)}.Compile()
		require.NoError(rt, err, line)
		v := parseVixie(t, line)
		named := slices.ContainsFunc(r.Notes, func(n importing.Note) bool { return n.Line == 1 && strings.Contains(n.Text, "where the clocks") })
		differs := false
		for _, w := range windows[zone] {
			var want []effects.Time
			for _, l := range w.looks {
				if (v.wildcard() && l.wildcard || !v.wildcard() && l.fixed) && v.fires(l.of) {
					want = append(want, l.at)
				}
			}
			got, _ := s.Between(w.from, w.to, 1_000_000)
			if !slices.Equal(want, got) {
				differs = true
				require.True(rt, named, "%s in %s as %+v: %v", line, zone, a, first(different(want, got)))
			}
		}
		require.Equal(rt, named, differs, "%s in %s as %+v: %v", line, zone, a, r.Notes)
	})
}

// FuzzCrontab: whatever a crontab is, what is made of it can be read back, and its names are names.
func FuzzCrontab(f *testing.F) {
	for _, seed := range []string{"0 3 * * * /bin/true\n", "A='b'\n@daily x%y\n", "*/5 * */2 * mon cd x && sudo -u y sh -c 'z &' &\n", "* * * * * a \\% \\\\ `b` $(c\n", "-\n@\n=\n'=\n", "\xff\n\x00"} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, system bool) {
		r, err := importing.Crontab([]importing.Source{{Name: "c", Text: text, System: system}}, importing.CrontabOptions{Zone: "Europe/Berlin", Now: now})
		if err != nil {
			return
		}
		made := 0
		for _, file := range r.Files {
			for name := range readRecurring(t, file.Text) {
				require.True(t, core.IsGivenName(name), name)
				made++
			}
		}
		require.Equal(t, r.Made, made)
		again, err := importing.Crontab([]importing.Source{{Name: "c", Text: bytes.Clone(text), System: system}}, importing.CrontabOptions{Zone: "Europe/Berlin", Now: now})
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

// FuzzKubernetes: whatever a manifest is, nothing panics, and a file has a job.
func FuzzKubernetes(f *testing.F) {
	for _, seed := range []string{
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {schedule: '0 3 * * *', jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}\n",
		"kind: List\nitems: [{kind: Pod}, 1, null]\n", "---\n---\n{}", "a: &a [*a]", "kind: CronJobList\nitems: &x\n  - kind: List\n    items: []\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := importing.Kubernetes([]importing.Source{{Name: "c", Text: text}}, importing.KubernetesOptions{Now: now})
		if err == nil {
			require.Len(t, r.Files, r.Made)
		}
	})
}
