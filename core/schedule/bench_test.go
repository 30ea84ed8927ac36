package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core/schedule"
)

var benchmarks = []struct{ name, expr, zone string }{
	{"simple", "*/5 * * * *", "UTC"},
	{"daily", "30 2 * * *", "UTC"},
	{"dst zone", "30 2 * * *", "America/New_York"},
	{"dst zone elapsed", "*/5 * * * *", "America/New_York"},
	{"weekdays", "0 9 * * MON-FRI", "America/New_York"},
	{"last Friday", "0 9 * * 5L", "America/New_York"},
	{"sparse", "0 0 * 2 SUN#5", "America/New_York"},
	{"impossible", "0 0 30 2 *", "America/New_York"},
	{"every", "@every 90s", "UTC"},
}

func BenchmarkParse(b *testing.B) {
	for _, row := range benchmarks {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schedule.Parse(row.expr, row.zone, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	for _, row := range benchmarks {
		b.Run(row.name, func(b *testing.B) {
			s, err := schedule.Parse(row.expr, row.zone, 0)
			require.NoError(b, err)
			after := instant(b, "2033-03-05T12:13:14.150Z")
			b.ReportAllocs()
			for b.Loop() {
				s.Next(after)
			}
		})
	}
}

func BenchmarkLoadZone(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schedule.LoadZone("America/New_York"); err != nil {
			b.Fatal(err)
		}
	}
}
