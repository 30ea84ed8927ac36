package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// narrow is a terminal of so many columns, on a day in 2026.
func narrow(columns int) screen {
	return screen{terminal: true, columns: columns, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

var someRows = table{
	[]string{"ID", "STATUS:12", "TOOL:20", "LABEL:32", "DUE (UTC)", "STARTED (UTC)", "NOTE:48"},
	[][]string{
		{"0193f2a4-5b6c-7d8e-9f01-23456789abcd", "completed", "command", "nightly report", "2026-03-01 02:00:00", "2026-03-01 02:00:01", "all went well, and nothing was left over from before"},
		{"0193f2a4-5b6d-7d8e-9f01-23456789abcd", "pending", "command", "-", "2027-03-01 02:00:00", "-", "-"},
	},
}

func TestATableIsShownAsThereIsRoomForIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		columns int
		want    string
	}{
		{200, `
ID                                    STATUS     TOOL     LABEL           DUE (UTC)            STARTED (UTC)        NOTE
0193f2a4-5b6c-7d8e-9f01-23456789abcd  completed  command  nightly report  2026-03-01 02:00:00  2026-03-01 02:00:01  all went well, and nothing was left over from before
0193f2a4-5b6d-7d8e-9f01-23456789abcd  pending    command  -               2027-03-01 02:00:00  -                    -
`},
		{100, `
ID             STATUS     TOOL     LABEL       DUE UTC           STARTED UTC  NOTE
0193f2a4-5b6c  completed  command  nightly r…  03-01 02:00       03-01 02:00  all went well, and no…
0193f2a4-5b6d  pending    command  -           2027-03-01 02:00  -            -
`},
		{80, `
ID             STATUS     TOOL     LABEL       DUE UTC           NOTE
0193f2a4-5b6c  completed  command  nightly r…  03-01 02:00       all went well,…
0193f2a4-5b6d  pending    command  -           2027-03-01 02:00  -
`},
		{40, `
ID             STATUS     NOTE
0193f2a4-5b6c  completed  all went well…
0193f2a4-5b6d  pending    -
`},
	} {
		assert.Equal(t, strings.TrimPrefix(tt.want, "\n"), someRows.text(narrow(tt.columns)), tt.columns)
	}
}

func TestATableInAPipeIsWhateverItsRowsAre(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `ID                                    STATUS     TOOL     LABEL           DUE (UTC)            STARTED (UTC)        NOTE
0193f2a4-5b6c-7d8e-9f01-23456789abcd  completed  command  nightly report  2026-03-01 02:00:00  2026-03-01 02:00:01  all went well, and nothing was left over from b…
0193f2a4-5b6d-7d8e-9f01-23456789abcd  pending    command  -               2027-03-01 02:00:00  -                    -
`, someRows.text(screen{}))
	wide := someRows.text(screen{whole: true})
	assert.Contains(t, wide, "left over from before")
}

func TestANameThatLooksLikeAnIDIsNotTakenForOne(t *testing.T) {
	t.Parallel()
	name := "0193f2a4-5b6c-7d8e-9f01-23456789abcd"
	out := table{[]string{"NAME:40", "STATE", "HOLDER:48"}, [][]string{{name, "running", strings.Repeat("holder ", 6)}}}.text(narrow(60))
	assert.Contains(t, out, name)
}

func TestNoRowIsWiderThanItsTerminal(t *testing.T) {
	t.Parallel()
	names := slices.Concat(stateColumns, spareColumns, cutColumns, []string{"ID", "READY", "SUCCEEDED"})
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(80, 200).Draw(t, "columns")
		header := append([]string{"ID"}, rapid.SliceOfNDistinct(rapid.SampledFrom(names[len(stateColumns):]), 0, 12, rapid.ID[string]).Draw(t, "header")...)
		header = append(header, "STATE", "OUTCOME")
		cells := rapid.OneOf(rapid.SampledFrom([]string{"-", "1", "2026-03-01 02:00:00", uuid.Max.String(), "日本語の表示も"}), rapid.StringN(0, 120, -1))
		state := rapid.SampledFrom([]string{"running", "completed", "done: failed"})
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []string {
			row := make([]string, len(header))
			for i := range row {
				row[i] = cells.Draw(t, "cell")
			}
			row[len(row)-1], row[len(row)-2] = state.Draw(t, "outcome"), state.Draw(t, "state")
			return row
		}), 1, 5).Draw(t, "rows")
		out := table{header, rows}.text(narrow(columns))
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d lines of %d rows:\n%s", len(lines), len(rows), out)
		}
		for _, line := range lines {
			if text.Width(line) > columns {
				t.Fatalf("%d columns:\n%s", text.Width(line), out)
			}
		}
		if !strings.Contains(lines[0], "STATE") || !strings.Contains(lines[0], "OUTCOME") {
			t.Fatalf("no state:\n%s", out)
		}
	})
}

func TestPrefixesAreUniqueAndNoLongerThanNeeded(t *testing.T) {
	t.Parallel()
	digits := rapid.StringOfN(rapid.SampledFrom([]rune("01")), 32, 32, -1) // which are alike for long
	rapid.Check(t, func(t *rapid.T) {
		ids := make([]string, rapid.IntRange(1, 6).Draw(t, "n"))
		for i := range ids {
			ids[i] = uuid.MustParse(digits.Draw(t, "id")).String()
		}
		n := prefixLength(ids)
		if n < shortestID || !isPrefix(ids[0][:n]) && n < len(ids[0]) {
			t.Fatalf("%d is no length of a prefix that commands take", n)
		}
		distinct := func(n int) int {
			seen := map[string]bool{}
			for _, id := range ids {
				seen[id[:n]] = true
			}
			return len(seen)
		}
		if distinct(n) != distinct(len(ids[0])) {
			t.Fatalf("%d characters do not tell %v apart", n, ids)
		}
		if n > shortestID && ids[0][n-2] != '-' && distinct(n-1) == distinct(n) {
			t.Fatalf("%d characters are more than needed of %v", n, ids)
		}
	})
	assert.Zero(t, prefixLength(nil))
}
