package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/store"
)

func TestSilenceIsTimeBetweenLooksThatTheDatabaseAnswered(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	row := func(token, beat uint64) store.Partition {
		return store.Partition{Token: token, Beat: beat, Session: "s"}
	}
	type look struct {
		at    float64
		took  float64
		fails bool
		row   store.Partition
		want  float64
	}
	for name, looks := range map[string][]look{
		"it grows with each look":                  {{at: 0, row: row(1, 1)}, {at: 4, row: row(1, 1), want: 4}, {at: 8, row: row(1, 1), want: 8}, {at: 10, row: row(1, 1), want: 10}},
		"a sign of life ends it":                   {{at: 0, row: row(1, 1)}, {at: 4, row: row(1, 1), want: 4}, {at: 8, row: row(1, 2)}, {at: 10, row: row(1, 2), want: 2}},
		"so does another owner":                    {{at: 0, row: row(1, 1)}, {at: 4, row: row(2, 1)}},
		"a look that fails does not count":         {{at: 0, row: row(1, 1)}, {at: 4, fails: true}, {at: 4.5, row: row(1, 1)}, {at: 8, row: row(1, 1), want: 3.5}},
		"nor half a lease without one":             {{at: 0, row: row(1, 1)}, {at: 5, row: row(1, 1)}, {at: 9, row: row(1, 1), want: 4}},
		"the database may have been asked earlier": {{at: 0, took: 3, row: row(1, 1)}, {at: 4, took: 3, row: row(1, 1), want: 1}},
		"the first look knows nothing of before":   {{at: 100, row: row(7, 9)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := silence{lease: 10 * time.Second}
			for i, l := range looks {
				if l.fails {
					s.missed()
					continue
				}
				assert.InDelta(t, l.want, s.see(l.row, at(l.at), at(l.at+l.took)).Seconds(), 1e-9, "look %d", i)
			}
		})
	}
}
