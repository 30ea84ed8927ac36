// Package shell is the imperative shell around the pure core: the engine, which is
// the only way for state to change, and the tools that carry effects out.
//
// Begin with [New] and [Engine.Run]. The calls stand by subject: [Engine.Actions] makes
// an action for one of the Tools; [Engine.Queues] has the two ends of a queue,
// [Queues.Push] and [Queues.Work]; [Engine.Pipelines] starts a pipeline, whose
// definition package runbook reads from a file; [Engine.Jobs] and [Engine.Runs] are
// for pods. Pipelines that merge, open terminal sessions or notify people need
// Interpreters: packages git, session and notify have them.
//
// # Map
//
// The loop, batches, the outbox and recovery stand in package engine, which names no
// machine. This package is the typed front above it:
//
//   - engine.go, options.go, tool.go: the engine as programs see it, what they implement,
//     and how it carries the outer effects of machines out.
//   - actions.go, recurring.go, queues.go, machines.go, jobs.go, …: the calls,
//     by subject; list.go: pages of lists.
//   - mend.go: who is told if a record is found damaged.
//   - observers.go: the table of what is announced, logged and counted of each machine;
//     observe.go: how; observe_run.go: what is more than a row;
//     stats.go: what was counted.
//   - sessions.go: the watcher of terminal sessions.
package shell
