// Package engine is the generic engine: the loop around the pure machines of core. It
// names no machine. What it needs of one it gets from core's functions by kind, and
// from the [Hooks] of the front above it, which is package shell: programs import that
// one.
//
// # What it does
//
// One goroutine decides, in batches. It gathers what has arrived, the requests of
// callers and the outcomes of executions, and carries out one batch in one transaction
// of the store: it applies the inputs, wakes the machines that are due, writes the
// changed records, appends the inputs to the journal, and puts the outer effects into
// the outbox. After the commit it answers the callers, tells subscribers and those who
// wait, and starts the executions that have a free slot in their lane. While a batch
// is being synced to disk the next one collects, or is decided already: that is the group
// commit.
//
// # Reading order
//
//   - engine.go: the calls: [Engine.Run], [Engine.Send], [Engine.Ask]; options.go: the
//     options and the hooks.
//   - loop.go: the goroutine that decides: when it wakes, what it gathers, how it stops,
//     what it does if a commit fails or another instance has taken over.
//   - staged.go: batches between the store and the disk; pace.go: when to decide ahead.
//   - batch.go: one batch, from its requests to its inputs; batch_due.go: what is due;
//     batch_write.go: what is written, and what follows from the commit.
//   - outbox.go: lanes and executions.
//   - batch_recover.go: the outer effects of an instance that is gone;
//     batch_retention.go: what is forgotten; batch_damage.go: records that cannot be read.
//   - absence.go: when nobody was there to decide, and why.
//   - bus.go: who is told in this process; cache.go, clock.go, stats.go.
//
// # What holds
//
//   - All that a batch does to the loop, it does after its transaction: one that fails
//     leaves no trace, and its outcomes are taken by the next one.
//   - Nobody outside of the loop sees anything of a batch before it is durable, with all
//     that it has read.
//   - An outer effect is begun only once the state that asks for it is durable (A8), and
//     stays in the outbox until its machine has been told what became of it (A9).
//   - An instance commits only while it has its claim: the store compares the fencing
//     token in each transaction (R5).
//   - A record that cannot be read, or a machine that panics, stops nobody else (A10).
package engine
