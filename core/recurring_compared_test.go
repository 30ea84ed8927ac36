package core_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// check holds what is so after each step.
func (c *compared) check() {
	r, m := c.recurring(), c.m
	counts := map[core.Verdict]uint64{}
	for _, n := range m.records {
		counts[n.verdict]++
	}
	require.Equal(c.t, counts[core.VerdictDispatched], r.ExecutionCount, "execution_count")
	require.Equal(c.t, counts[core.VerdictMissed], r.MissedCount, "missed_count")
	require.Equal(c.t, counts[core.VerdictSkipped], r.SkippedCount, "skipped_count")
	require.Equal(c.t, counts[core.VerdictDeduplicated], r.DeduplicatedCount, "deduplicated_count")
	require.Equal(c.t, counts[core.VerdictCancelled], r.CancelledCount, "cancelled_count")
	require.Equal(c.t, counts[core.VerdictExpired], r.ExpiredCount, "expired_count")
	require.Len(c.t, r.Waiting, int(counts[core.VerdictWaiting]))
	require.Equal(c.t, m.used, r.Executions, "executions")
	require.Equal(c.t, uint32(m.skip), r.SkipNext, "skip_next")
	last := core.Time(0)
	if n := len(m.starts); n > 0 {
		last = m.starts[n-1].started
	}
	require.Equal(c.t, last, r.LastExecutedAt, "last_executed_at")
	if m.spec.MaxExecutions > 0 {
		require.LessOrEqual(c.t, r.Executions, max(m.spec.MaxExecutions, r.Executions-uint64(len(r.Waiting))))
	}
	most := map[core.OverlapPolicy]int{core.OverlapBufferOne: 1, core.OverlapBufferAll: max(int(m.spec.BufferLimit), 1) + 99*b2i[int](m.spec.BufferLimit == 0), core.OverlapCancelOther: 1, core.OverlapTerminateOther: 1}
	require.LessOrEqual(c.t, len(m.buffered()), most[m.overlap()], "the buffer of %s", m.overlap())
}

func b2i[N int | int64](b bool) N {
	if b {
		return 1
	}
	return 0
}

// checkLedger holds that the entries of the ledger are what the model has recorded, in that order.
func (c *compared) checkLedger() {
	var entries []core.Occurrence
	for _, s := range c.states {
		if o, ok := s.(core.Occurrence); ok {
			entries = append(entries, o)
		}
	}
	slices.SortFunc(entries, func(a, b core.Occurrence) int { return int(a.Number) - int(b.Number) })
	records := c.m.records
	for i, o := range entries {
		require.Equal(c.t, uint64(i+1), o.Number)
		require.LessOrEqual(c.t, o.Count, uint64(len(records)), "more than there were: %+v", o)
		of := records[:o.Count]
		records = records[o.Count:]
		require.Equal(c.t, []core.Time{of[0].at, of[len(of)-1].at}, []core.Time{o.DueAt, o.LastDueAt}, "%+v", o)
		for _, n := range of {
			require.Equal(c.t, n.verdict, o.Verdict, "of %s: %s, want %s", n.at, o.Reason, n.reason)
			behind := n.verdict == core.VerdictMissed && !strings.Contains(n.reason, "from") && len(of) > 1 // told by the first of them
			if o.Outcome == "" && !behind {
				require.True(c.t, strings.HasPrefix(o.Reason, n.reason), "%s of %s: %q, want %q", o.Verdict, n.at, o.Reason, n.reason)
			}
			if o.Outcome == "" {
				require.Contains(c.t, o.Reason, n.policy)
			}
			require.Equal(c.t, n.manual, o.Manual)
		}
	}
	require.Empty(c.t, records, "without an entry")
	require.Len(c.t, entries, int(c.recurring().Sequence))
	var before core.Time
	for _, n := range c.m.records {
		if !n.manual {
			require.Less(c.t, before, n.at, "in their order, each once")
			before = n.at
		}
	}
}

// preview holds that the times which are told are those at which something is dispatched, if
// nothing intervenes.
func (c *compared) preview() {
	if len(c.m.waiting) > 0 {
		return
	}
	fork := &compared{t: c.t, period: c.period, states: maps.Clone(c.states), seq: c.seq, m: &naive{t: c.t, now: c.m.now}}
	for _, n := range c.recurring().Running {
		ref := effects.Ref{Kind: core.KindAction, ID: n.Action}
		fork.apply(ref, core.ActionCancel{Mode: core.CancelKill})
	}
	if r := fork.recurring(); !r.Enabled && r.PausedUntil.IsZero() {
		if fork.apply(recurringRef, core.RecurringResume{}); !fork.recurring().Enabled {
			return
		}
	}
	begin := max(c.m.now, fork.recurring().LastDueAt)
	for _, at := range c.recurring().Upcoming(c.m.now, 3, c.m.calendars) {
		require.Greater(c.t, at, c.m.now)
		for n := 0; fork.m.now < at && n < 5000; n++ {
			due := fork.recurring().Deadline()
			require.False(c.t, due.IsZero(), "%s was told, and nothing comes", at)
			fork.m.now = max(due, fork.m.now)
			require.LessOrEqual(c.t, fork.m.now, at, "a time was told that does not come")
			fork.apply(recurringRef, core.RecurringDue{})
			for _, n := range fork.recurring().Running {
				require.Equal(c.t, at, fork.m.now, "%s is dispatched then, and was not told", n.DueAt)
				require.Greater(c.t, at, begin)
				fork.apply(effects.Ref{Kind: core.KindAction, ID: n.Action}, core.ActionCancel{Mode: core.CancelKill})
			}
		}
		if fork.m.now < at {
			return // nearly all is left out
		}
		require.Equal(c.t, at, fork.recurring().LastExecutedAt, "it was told")
	}
}

// replay holds that the journal gives the same bytes.
func (c *compared) replay() {
	again := world{}
	for _, e := range c.journal {
		decoded, err := core.DecodeEntry(e.AppendJSON(nil))
		require.NoError(c.t, err)
		batch := core.NewBatch(again, core.Clock{Now: decoded.At}, decoded.Seq)
		for _, in := range decoded.Inputs {
			res, err := batch.Apply(in)
			require.NoError(c.t, err)
			require.True(c.t, res.Changed, "%v", res.Refused)
		}
		again.store(batch)
	}
	want := world{}
	for ref, s := range c.states {
		want[ref] = encoded(s)
	}
	require.Equal(c.t, want, again)
}
