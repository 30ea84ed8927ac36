// Package repartition copies the partitions of one database into those of another one that has more of them, or fewer. Each
// record goes to the partition of its tenant. The journals stay behind: each partition that is made begins an epoch of its
// journal behind the last batch of every source, so numbers that follow from those of batches, such as tokens of
// locks, only grow, and no id is made twice.
//
// repartition.go has what callers see; survey.go finds out where each record goes, and index.go keeps that; merge.go brings what
// the sources give into one order; division.go gives each target its part.
package repartition

import (
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Source is a partition that is copied. Nobody may write to it meanwhile.
type Source interface {
	store.Store
	store.Exporter
}

// Target fills a partition that nobody has written to, such as [store.Importer].Import does. It calls Export of what it gets once.
type Target func(ctx context.Context, from store.Exporter) error

// Options of a copy.
type Options struct {
	// Place gives the partition of a tenant, such as [core.Partition] does. It is needed if the copy has another number of partitions.
	Place Rule
	// At is when the copy is made: the epoch begins then. Zero: it does not say.
	At effects.Time
	// LeavePods copies also if the cluster may hold pods of runs. The copy does not know those pods for its own: nobody watches or deletes
	// them, and the attempts that they belong to count as lost.
	LeavePods bool
	// LeaveSessions copies also if terminal sessions of tasks may live. Whoever works on the copy finds none of them: the tasks count as those whose
	// session has died, and are restarted or escalated, while what runs in the sessions goes on until somebody ends it.
	LeaveSessions bool
}

// Report tells of a copy.
type Report struct {
	// Journal says that each partition was copied as it is, with its journal.
	Journal bool
	Batch   uint64   // the last one, of all sources
	Token   uint64   // the greatest one that a claim had, of all sources
	Records []uint64 // of each target
	Left    []Left   // what stays behind, by What
	// Omitted are the first [MaxOmitted] of what could not be read. If the journal is copied as well, whoever fills a target is told, and this is empty.
	Omitted []store.Omission
	Damaged uint64 // how many there are
}

// MaxOmitted bounds [Report].Omitted.
const MaxOmitted = 100

// Left is what stays behind of one sort.
type Left struct {
	What   string `json:"what"` // "claim", "queue_item" and so on
	Count  uint64 `json:"count"`
	First  string `json:"first"` // the name of the first one
	Reason string `json:"reason"`
}

// String gives it in words.
func (l Left) String() string {
	return fmt.Sprintf("%s (%d, first %s): %s", l.What, l.Count, l.First, l.Reason)
}

// Errors of [Copy] about what its sources hold.
var (
	// ErrPods: runs have pods, see [Options].LeavePods.
	ErrPods = errors.New("runs have pods in the cluster")
	// ErrSessions: terminal sessions of tasks may live, see [Options].LeaveSessions.
	ErrSessions = errors.New("tasks have terminal sessions")
	// ErrWebhooks: a request has come in of which no action was made yet, and nobody can tell whose it is.
	ErrWebhooks = errors.New("webhooks wait that no action was made of")
	// ErrTwice: two sources have a record under the same id, and both belong in the same target.
	ErrTwice = errors.New("two partitions have a record under the same id")
)

// Copy fills the targets with what the sources hold: partition k of the copy is made by to[k]. A nil source is a partition in which
// nobody has ever worked.
//
// If there are as many targets as sources, each gets its source as it is, with its journal. Otherwise
// a record goes where its tenant lives, which [Options].Place decides, and these go otherwise:
//
//   - What belongs to no tenant goes where the machine is to which it belongs, see [core.StoredBelonging].
//   - The heartbeats of a run go with the run, and keep their count.
//   - What each partition has for itself stays in the partition with its number: digests of alerts and what
//     channels are to tell. If there is no such partition, it stays behind.
//   - The subscribers of the common bus go where its tenant lives, the one whose names are both empty.
//   - What was set aside stays in the partition of its number, or goes to the last one.
//   - Machines of different tenants that have the same id, as each partition may have one, go where their tenants live. If that is the same target
//     the copy fails: [ErrTwice].
//   - Feeds have delivered what the feeds of all sources have.
//   - Claims of engines stay behind: what was under way in an engine that has crashed is interrupted. So do the keys of page tokens: a list
//     that was begun before the copy begins anew. The identity by which runners know their pods stays behind, too: see [Options].LeavePods.
//   - The answers that were kept for requests that come again are never in a copy.
//
// If it fails, the targets hold a part, and are of no use.
func Copy(ctx context.Context, from []Source, to []Target, o Options) (Report, error) {
	if len(from) == 0 || len(to) == 0 || len(to) > store.MaxPartitions || len(from) > store.MaxPartitions {
		return Report{}, fmt.Errorf("copy %d partitions into %d: want 1 to %d of each", len(from), len(to), store.MaxPartitions)
	}
	if len(from) != len(to) && o.Place == nil {
		return Report{}, errors.New("copy partitions: Place is nil: want what gives the partition of a tenant, such as core.Partition")
	}
	var report Report
	var err error
	if len(from) == len(to) {
		report, err = copyEach(ctx, from, to)
	} else {
		report, err = divide(ctx, from, to, o)
	}
	if err != nil {
		return report, fmt.Errorf("copy partitions: %w", err)
	}
	return report, nil
}

// copyEach copies each partition with its journal.
func copyEach(ctx context.Context, from []Source, to []Target) (Report, error) {
	report := Report{Journal: true, Records: make([]uint64, len(to))}
	for k, source := range from {
		if source == nil {
			continue
		}
		c := &counting{from: source, report: &report, partition: k}
		if err := to[k](ctx, c); err != nil {
			return report, fmt.Errorf("partition %d: %w", k, err)
		}
	}
	return report, nil
}

// counting is an exporter that counts what it gives.
type counting struct {
	from      store.Exporter
	report    *Report
	partition int
}

func (c *counting) Export(ctx context.Context, to store.Sink) error {
	return c.from.Export(ctx, &countingSink{to, c})
}

type countingSink struct {
	store.Sink
	c *counting
}

func (s *countingSink) Begin(h store.Head) error {
	r := s.c.report
	r.Batch, r.Token = max(r.Batch, h.Seq), max(r.Token, h.Token)
	return s.Sink.Begin(h)
}

func (s *countingSink) Record(r store.Record) error {
	s.c.report.Records[s.c.partition]++
	return s.Sink.Record(r)
}
