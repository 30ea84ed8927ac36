package schedule_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
)

var seeds = []string{
	"0 9 * * MON-FRI", "*/10 * * * * *", "0 0 0 L,LW,15W 2-11/3 MON#2,5L,FRI#L 2026-2030/2", "22-2 FRI-MON * * 7",
	"2-@daily", "0 * 29 3 *", "0 0 30 2 *", "@every 90s", "@at 2026-02-10T14:00:00Z", "@reboot",
	"*/90 9-15/10 */2 january Monday-SUN/9", ",,,, * * * *", "\x00", "\xff",
}

func FuzzParse(f *testing.F) {
	for _, expr := range seeds {
		f.Add(expr, "Europe/Berlin")
	}
	f.Add("@daily", "Local")
	f.Add("@daily", "../UTC")
	f.Fuzz(func(t *testing.T, expr, zone string) {
		defer boundtest.Within(t, len(expr)+len(zone))()
		s, err := schedule.Parse(expr, zone, 0)
		if err != nil {
			var bad *schedule.Error
			require.ErrorAs(t, err, &bad)
			assert.True(t, utf8.ValidString(err.Error()))
			assert.False(t, strings.ContainsRune(err.Error(), 0))
			assert.Less(t, len(err.Error()), 600)
			return
		}
		assert.NotEmpty(t, s.Describe())
		assert.LessOrEqual(t, len(s.Warnings()), 11)
		for _, w := range s.Warnings() {
			assert.True(t, utf8.ValidString(w))
			assert.Less(t, len(w), 600)
		}
		again, err := s.Spec().Compile()
		require.NoError(t, err)
		assert.Equal(t, s.Preview(0, 2), again.Preview(0, 2))
		both := s.Spec()
		both.DayMatch = schedule.DayMatchBoth
		strict, err := both.Compile()
		require.NoError(t, err)
		for _, at := range strict.Preview(0, 2) { // a day that matches both matches either
			next, ok := s.Next(at - 1)
			assert.True(t, ok)
			assert.Equal(t, at, next)
		}
		once, twice := map[effects.Time]bool{}, s.Spec()
		twice.DST = schedule.DSTTwice
		often, err := twice.Compile()
		require.NoError(t, err)
		for _, at := range often.Preview(0, 50) {
			once[at] = true
		}
		for i, at := range s.Preview(0, 50) { // what fires once is among what fires twice
			assert.True(t, once[at] || i >= 25, "%s", at)
		}
	})
}

func FuzzNext(f *testing.F) {
	for i, expr := range seeds {
		f.Add(expr, uint16(i*37), int64(1_774_000_000_000)+int64(i)*86_400_000)
	}
	names := schedule.ZoneNames()
	f.Fuzz(func(t *testing.T, expr string, zone uint16, after int64) {
		defer boundtest.Within(t, len(expr))()
		s, err := schedule.Parse(expr, names[int(zone)%len(names)], 0)
		if err != nil {
			return
		}
		// Next is strictly after its argument and monotonic, and Between lists
		// what Next gives.
		from := effects.Time(after)
		var chain []effects.Time
		for at, ok := s.Next(from); ok && len(chain) < 5; at, ok = s.Next(at) {
			require.Greater(t, at, from)
			require.LessOrEqual(t, at, effects.MaxTime)
			if len(chain) > 0 {
				require.Greater(t, at, chain[len(chain)-1])
			}
			between, ok := s.Next(from + (at-from)/2)
			require.True(t, ok)
			require.LessOrEqual(t, between, at)
			chain = append(chain, at)
		}
		require.Equal(t, chain, s.Preview(from, 5))
		if len(chain) > 0 {
			n, capped := s.Count(from, chain[len(chain)-1], 5)
			require.Equal(t, len(chain), n)
			require.False(t, capped)
		}
		require.Equal(t, len(chain) == 0, s.Impossible(from))
	})
}
