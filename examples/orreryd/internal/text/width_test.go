package text

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
)

func TestATextTakesAsManyColumnsAsATerminalShowsItIn(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "plain": 5, "grüße": 5, "日本": 4, "ｆｕｌｌ": 8, "e\u0301": 1, "🚀": 2, "❤\ufe0f": 2, "→ …": 3,
	} {
		assert.Equal(t, want, Width(in), in)
	}
}

func TestATextIsCutToColumns(t *testing.T) {
	for _, row := range []struct {
		in           string
		most         int
		want, middle string
	}{
		{"short", 5, "short", "short"},
		{"longer than that", 8, "longer …", "lon…that"},
		{"日本語の表示", 6, "日本…", "日…示"},
		{"ab", 1, "…", "…"},
	} {
		assert.Equal(t, row.want, Cut(row.in, row.most))
		assert.Equal(t, row.middle, CutMiddle(row.in, row.most))
	}
}

func TestACutTextIsNeverWiderThanItsColumn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Clean(rapid.String().Draw(t, "text") + rapid.SampledFrom([]string{"", "日本語", "e\u0301\u0301", "🚀"}).Draw(t, "more"))
		most := rapid.IntRange(1, 20).Draw(t, "most")
		for _, out := range []string{Cut(in, most), CutMiddle(in, most)} {
			if Width(out) > most {
				t.Fatalf("%q takes %d columns of %d", out, Width(out), most)
			}
			if Width(in) <= most && out != in {
				t.Fatalf("%q became %q with room for it", in, out)
			}
		}
	})
}

func TestStatesHaveColoursByWhatTheyMean(t *testing.T) {
	for state, want := range map[string]Colour{
		"completed": Green, "done": Green, "succeeded": Green, "done: success": Green, "completed (skipped)": Green,
		"failed": Red, "done: failed": Red, "missed": Red, "failed, can be retried": Red,
		"running": Cyan, "running (checks)": Cyan, "processing": Cyan,
		"paused": Yellow, "paused: holidays": Yellow, "pending": Yellow, "waiting": Yellow, "disabled: no reason was kept": Yellow,
		"cancelled": "", "done: cancelled": "", "enabled": "", "-": "", "": "", "201": "", "Failed": "",
	} {
		assert.Equal(t, want, StateColour(state), state)
	}
	for _, s := range core.OrchestratorStatuses() {
		if s != core.OrchestratorCancelled {
			assert.NotEmpty(t, StateColour(string(s)), s)
		}
	}
	assert.Equal(t, "\x1b[31mfailed\x1b[0m", Red.Paint("failed"))
	assert.Equal(t, "failed", Colour("").Paint("failed"))
}
