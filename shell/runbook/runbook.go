// Package runbook reads runbook files: pipelines, queues, workers, strategies
// and what belongs to them, written by hand in TOML (003, D1).
//
// Reading is strict. An unknown key, a wrong type, a reference to what is not
// there, and all that the machines of core would refuse is an [Error] with line
// and column; a file is reported on as a whole, not up to its first mistake.
//
// What comes out are values of core, whole: a pipeline has the strategies, the
// agents and the pipelines that it names within itself. A run keeps them, so
// that editing the file never changes one that is under way.
//
//	name = "release"
//
//	[queues.merge]
//	max_attempts = 3
//
//	[pipelines.build]
//	inputs = [{ name = "branch", required = true }]
//
//	[[pipelines.build.phases]]
//	name = "test"
//	run = ["go", "test", "./..."]
//	timeout = "10m"
//
//	[[pipelines.build.phases]]
//	name = "merge"
//	push = { queue = "merge", data = { branch = "${branch}" } }
//
// # Files
//
//   - runbook.go: [Parse] and what it gives; tree.go, table.go: TOML with lines and
//     columns;
//   - compile.go: the tables of a file, each by its file: pipeline.go, worker.go,
//     actions.go; members.go, gitnames.go: names and paths in them;
//   - link.go: pipelines that start one another, and the limits of all together;
//   - graph.go, graph_label.go, graph_text.go: a pipeline as a picture.
package runbook

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/fileerr"
)

// Limits of a runbook file.
const (
	MaxFileBytes = 4 << 20
	MaxNesting   = 100 // of arrays and tables
	MaxErrors    = 50  // that are reported; of warnings too
	maxKeyParts  = 32  // of a dotted key
	maxList      = core.MaxPhases
	maxExpanded  = 64 << 20 // bytes, once everything is where it is named
	maxStarters  = 256      // sets of values with which one pipeline is started
)

// Runbook is what a file says, in the order of the file; its tenant is chosen later.
type Runbook struct {
	Name        string              `json:"name"` // 003 RunbookId
	Description string              `json:"description,omitempty"`
	Queues      []Queue             `json:"queues,omitempty"`
	Semaphores  []Semaphore         `json:"semaphores,omitempty"`
	Strategies  []Strategy          `json:"strategies,omitempty"`
	Pipelines   []core.PipelineDef  `json:"pipelines,omitempty"`
	Workers     []Worker            `json:"workers,omitempty"`
	Subscribers []core.Subscription `json:"subscribers,omitempty"` // without namespace and tenant: see [Runbook.Subscriptions]
	Warnings    []Error             `json:"-"`                     // what is allowed, and probably not meant
}

type (
	// Queue is a queue and its configuration.
	Queue struct {
		Name   string           `json:"name"`
		Config core.QueueConfig `json:"config"`
	}
	// Semaphore is a semaphore and how many slots it has.
	Semaphore struct {
		Name  string `json:"name"`
		Slots uint32 `json:"slots"`
	}
	// Strategy is a named list of approaches (003 Strategy). Its users hold copies.
	Strategy struct {
		Name       string          `json:"name"`
		Approaches []core.Approach `json:"approaches"`
	}
	// Worker takes items of a queue and does its work for each.
	Worker struct {
		Name        string            `json:"name"`
		Queue       string            `json:"queue"`
		Concurrency uint32            `json:"concurrency,omitempty"`
		PollMS      int64             `json:"poll_ms,omitempty"`
		Do          core.WorkerDo     `json:"do"`
		WakeOn      []core.EventMatch `json:"wake_on,omitempty"` // beside what its own queue announces
	}
)

// Load reads a runbook file. What is wrong with what it says is an [Errors].
func Load(path string) (*Runbook, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the runbook: %w", err)
	}
	defer func() { _ = f.Close() }() // reading loses nothing
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the runbook %s: %w", path, err)
	}
	return Parse(path, data)
}

// Parse reads the text of a runbook file, whose name stands in errors, and names a runbook
// that does not name itself.
func Parse(file string, data []byte) (*Runbook, error) {
	c := newCompiler(file, data)
	if len(data) > MaxFileBytes {
		c.errs = []Error{{File: file, Line: 1, Column: 1, Problem: fmt.Sprintf("the file is larger than %d bytes: split it", MaxFileBytes)}}
		return nil, c.result()
	}
	root := c.parse()
	if len(c.errs) > 0 {
		return nil, c.result()
	}
	book := c.runbook(root)
	book.Name = cmp.Or(book.Name, strings.TrimSuffix(filepath.Base(file), ".toml"))
	if err := c.result(); err != nil {
		return nil, err
	}
	return book, nil
}

// Pipeline gives the definition of that name.
func (r *Runbook) Pipeline(name string) (core.PipelineDef, bool) {
	i := slices.IndexFunc(r.Pipelines, func(p core.PipelineDef) bool { return p.Name == name })
	if i < 0 {
		return core.PipelineDef{}, false
	}
	return r.Pipelines[i], true
}

// Spec is the worker as it is declared in a tenant.
func (w Worker) Spec(namespace, tenant string) core.WorkerSpec {
	return core.WorkerSpec{
		Namespace: namespace, Tenant: tenant, Name: w.Name, Queue: w.Queue,
		Concurrency: w.Concurrency, PollMS: w.PollMS, Do: w.Do,
	}
}

// Subscriptions are what the bus must know so that the runbook works in a tenant: its
// subscribers, and what wakes its workers (003 WorkerWakeSubscriber), each its own queue
// at least. Their names begin with that of the runbook.
func (r *Runbook) Subscriptions(namespace, tenant string) []core.Subscription {
	var out []core.Subscription
	for _, s := range r.Subscribers {
		out = append(out, scoped(s, r.Name, namespace, tenant))
	}
	for _, w := range r.Workers {
		worker := core.MachineName{Namespace: namespace, Tenant: tenant, Name: w.Name}
		queue := core.QueueRef(namespace, tenant, w.Queue).ID
		matches := append([]core.EventMatch{
			{Category: "queue", Action: "push", SourceID: queue},
			{Category: "queue", Action: "ready", SourceID: queue},
		}, w.WakeOn...)
		for i, m := range matches {
			out = append(out, core.WorkerWakeSubscriber{Match: m, Worker: worker}.Subscription(wakeName(r.Name, w.Name, i)))
		}
	}
	return out
}

// wakeName is the name under which the bus knows what wakes a worker.
func wakeName(book, worker string, i int) string {
	name := fmt.Sprintf("wake/%d", i-1)
	if own := []string{"push", "ready"}; i < len(own) {
		name = own[i]
	}
	return book + "/" + worker + "/" + name
}

// scoped gives a subscription that reaches into a tenant.
func scoped(s core.Subscription, book, namespace, tenant string) core.Subscription {
	s.Name = book + "/" + s.Name
	if m := s.Do.WakeWorker; m != nil {
		s.Do.WakeWorker = &core.MachineName{Namespace: namespace, Tenant: tenant, Name: m.Name}
	}
	if p := s.Do.Push; p != nil {
		to := *p
		to.MachineName = core.MachineName{Namespace: namespace, Tenant: tenant, Name: p.Name}
		s.Do.Push = &to
	}
	if p := s.Do.StartPipeline; p != nil {
		start := *p
		start.Namespace, start.Tenant = namespace, tenant
		s.Do.StartPipeline = &start
	}
	return s
}

// Error is one thing that is wrong with a file, and where: line and column, from 1.
type Error = fileerr.Error

// Errors are all that is wrong with a file, in the order of the file.
type Errors = fileerr.Errors

// All gives the errors that an error of [Load] or [Parse] holds, if it has any.
func All(err error) []Error { return fileerr.All(err) }
