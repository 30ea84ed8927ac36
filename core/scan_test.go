package core_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// checkScannedEntry holds that what is scanned is what encoding/json reads, and reports
// whether the scan took it.
func checkScannedEntry(t tb, b []byte) bool {
	t.Helper()
	scanned, ok := core.ScanEntry(b)
	if ok {
		read, err := core.DecodeEntryByJSON(b)
		require.NoError(t, err, "%q", b)
		require.Equal(t, read, scanned, "%q", b)
	}
	return ok
}

func checkScannedState(t tb, kind effects.Kind, b []byte) bool {
	t.Helper()
	scanned := core.ScanState(kind, b)
	if scanned != nil {
		read, err := core.DecodeStateByJSON(kind, b)
		require.NoError(t, err, "%q", b)
		require.Equal(t, read, scanned, "%q", b)
	}
	return scanned != nil
}

// entryOf is an entry in which the events come to one machine.
func entryOf(kind effects.Kind, events ...core.Event) []byte {
	e := core.NewEntry(7, start, "host-1")
	for i, ev := range events {
		e.Inputs = append(e.Inputs, core.Input{To: effects.Ref{Kind: kind, ID: id(1)}, Actor: "api:ann", Event: ev, Ack: uint32(i), BySet: bySet(i)})
	}
	return e.AppendJSON(nil)
}

// The entries hold what encoding/json reads besides, which must not put a scan off.
func TestEntriesOfAllEventsAreScannedAsEncodingJSONReadsThem(t *testing.T) {
	for _, kind := range kinds {
		assert.True(t, checkScannedEntry(t, entryOf(kind, goldenEvents()[kind]...)), "all events to %s", kind)
	}
	full := core.Entry{Seq: 1, Inputs: []core.Input{{Event: core.ActionDue{}, To: effects.Ref{Kind: core.KindAction}, Full: []core.Full{{Tenant: "t", Kind: "action", Room: 2, Reason: "r"}}}}}
	assert.True(t, checkScannedEntry(t, full.AppendJSON(nil)))
	assert.True(t, checkScannedEntry(t, core.Entry{}.AppendJSON(nil)))
	assert.True(t, checkScannedEntry(t, goldenEntry().AppendJSON(nil)))
}

// If the forms were written otherwise one day, the scans would go off, and only time would
// tell.
func TestWhatComesOftenIsScanned(t *testing.T) {
	for _, kind := range []effects.Kind{core.KindAction, core.KindQueue} {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				clock, state := core.Clock{Now: start}, absent(kind)
				for range rapid.IntRange(1, 20).Draw(t, "events") {
					clock = drawClock(t, clock)
					e := drawEvent(t, state, clock)
					next, effs := apply(state, e, clock)
					require.True(t, checkScannedEntry(t, entryOf(kind, e)) || refusal(effs) != nil, "%s", entryOf(kind, e))
					if state = next; !exists(state) {
						continue
					}
					if a, ok := state.(core.Action); ok {
						scanned := checkScannedState(t, kind, a.AppendJSON(nil))
						require.Equal(t, a.Recurrence.IsZero() && a.Trigger.Type == core.TriggerScheduled, scanned, "%s", encoded(a))
					}
					if q, ok := state.(core.Queue); ok {
						for _, i := range q.Items {
							require.Equal(t, i.Origin == nil, checkScannedState(t, core.KindQueueItem, i.AppendJSON(nil)), "%s", encoded(i))
						}
					}
				}
			})
		})
	}
}

// Each byte counts: a scan that takes what encoding/json refuses, or reads it otherwise,
// would hide damage.
func TestWhatWasChangedIsScannedAsEncodingJSONReadsItOrNotAtAll(t *testing.T) {
	var forms [][]byte
	for _, kind := range kinds {
		for _, e := range goldenEvents()[kind] {
			forms = append(forms, entryOf(kind, e))
		}
	}
	states := goldenStates()
	rapid.Check(t, func(t *rapid.T) {
		changed := func(b []byte) []byte {
			b = bytes.Clone(b)
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				at := rapid.IntRange(0, max(len(b)-1, 0)).Draw(t, "at")
				text := rapid.SampledFrom([]string{"", "\"", "\\", "\\u0000", "0", "-", "1e3", "null", "{", "}", "[", "]", ",", ":", " ", "\x00", "\xff", "é", "A", "99999999999999999999"}).Draw(t, "text")
				cut := rapid.IntRange(0, min(2, len(b)-at)).Draw(t, "cut")
				b = slices.Concat(b[:at], []byte(text), b[at+cut:])
			}
			return b
		}
		for range 50 {
			checkScannedEntry(t, changed(rapid.SampledFrom(forms).Draw(t, "entry")))
			s := rapid.SampledFrom(states).Draw(t, "state")
			checkScannedState(t, s.Ref().Kind, changed(s.AppendJSON(nil)))
		}
	})
}

func TestEveryTimeIsScannedAsItIsParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := effects.Time(rapid.Int64Range(int64(effects.MinTime), int64(effects.MaxTime)).Draw(t, "time"))
		got, ok := core.ScanTime(at.AppendJSON(nil))
		require.True(t, ok)
		require.Equal(t, at, got)
	})
	day := time.Date(1969, 12, 1, 23, 59, 59, 999e6, time.UTC)
	for ; day.Year() < 2410; day = day.AddDate(0, 0, 1) { // each date of all kinds of years, and some that do not exist
		for _, text := range []string{day.Format(`"2006-01-02T15:04:05.000Z"`), day.Format(`"2006-01-`) + "31T00:00:00.000Z\"", day.Format(`"2006-`) + "02-29T00:00:00.000Z\""} {
			var want effects.Time
			err := json.Unmarshal([]byte(text), &want)
			got, ok := core.ScanTime([]byte(text))
			if ok != (err == nil) || ok && got != want {
				t.Fatalf("%s: scanned %s (%v), parsed %s (%v)", text, got, ok, want, err)
			}
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add(byte(0), goldenEntry().AppendJSON(nil))
	for i, kind := range kinds {
		f.Add(byte(i), entryOf(kind, goldenEvents()[kind]...))
	}
	for _, s := range goldenStates() {
		for i, kind := range kinds {
			if kind == s.Ref().Kind {
				f.Add(byte(i), s.AppendJSON(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, n byte, b []byte) {
		defer boundtest.Within(t, len(b))()
		checkScannedEntry(t, b)
		checkScannedState(t, pick(n), b)
	})
}

// bySet is a declaration now and then.
func bySet(i int) *core.Declaration {
	return []*core.Declaration{nil, {Set: "ours", File: "a.toml"}, {TakeOver: true}}[i%3]
}
