// Package core holds the machines of Orrery: pure functions from a state, an
// event and a clock reading to a new state and the effects that are to follow,
// (State, Event, Clock) → (State, []Effect).
//
// Nothing here does I/O, reads a clock, draws a random number or starts a
// goroutine (F2). States are values: Apply never writes to anything that the
// old value can see. It never returns an error and never panics, whatever the
// state and event: an event that a state has no transition for changes nothing
// and answers with [effects.Refused] (R14).
//
// The zero value of each machine's state stands for "does not exist": the
// create event leads out of it, and a deleted machine is back in it.
//
// A [Batch] applies inputs to many machines at one instant, carries the inner
// effects between them, and collects what is to be stored and what is to leave
// the process. The engine commits a batch; the replay folds the same batches over
// the journal; so both give the same bytes (F3).
//
// # Duties of the caller
//
// Whoever runs the machines over a store does for each batch, in this order and in
// one transaction:
//
//  1. Read the clock once, and begin a batch with [NewBatch], under the number that
//     its journal entry will have. No two entries may have the same number.
//  2. Give the batch a [Loader] that reads the states from before it, and their list
//     indexes. What it gives must not change while the batch lasts.
//  3. Apply the inputs with [Batch.Apply], one after the other: requests, answers to
//     outer effects, and the [DueEvent] of what the due index says is due. An input
//     that could not be decided has left no trace. The batch goes on without it.
//  4. Write [Batch.Changes]: each record with its form by AppendJSON, its entry in
//     the due index by Deadline, and its list entries by Terms. A change to nil
//     deletes all of them.
//  5. Put [Batch.Outer] into the outbox, and delete from it [Batch.Withdrawn] and
//     the effects that inputs have answered ([Input].Ack). What of [Batch.Stopped] nobody has
//     begun is handed back by a further input ([HandBackEvent]).
//  6. Append an [Entry] with the inputs whose [Result] says Changed, in the order in
//     which they were applied, and with the clock reading. The others are left out:
//     a replay numbers its inputs in the same way.
//  7. Commit.
//
// Only when the commit is durable:
//
//  8. Answer the callers with the results.
//  9. Publish [Batch.Events]. Whoever listens may miss some: they are not kept.
//  10. Execute the outer effects, and apply what comes of each as an [AnswerEvent]
//     in a later batch, with its number as Ack.
//
// If the process dies before the commit, nothing of the batch has happened, and
// nobody was answered. If it dies after, the store has all of it but for what
// follows the commit. Whoever starts next tells each machine, for each effect in
// the outbox that had begun, that its holder is gone ([InterruptEvent]): the machine
// decides whether to repeat it. What had certainly not begun is executed as if
// nothing had happened, or given back ([HandBackEvent]).
//
// # Where to read
//
// The generic part names no machine, but for the table of kinds and that of 003's inner
// effects:
//
//   - core.go: Event, State, Clock, and how ids are derived;
//   - transition.go: one transition under way;
//   - batch.go, batch_effects.go: the fold, and where each effect goes;
//     batch_requests.go: the inner effects of 003 that are events for another machine;
//   - kinds.go: the table of kinds; kind_queries.go: what is asked of it;
//   - owner.go, answers.go, pending_effects.go: which machine waits for which other one, and for what;
//     damage.go: who is told that a record was lost;
//   - event_codec.go, journal.go, object.go, json.go: the stored forms;
//   - limits.go, text.go, lists.go, saturating.go, retry.go, recurrence.go,
//     template.go, lease.go, child.go: what several machines share.
//
// Each machine then stands in NAME.go (the diagram, the state, Apply, the deadline),
// NAME_spec.go (what a creator says, and what is wrong with it), NAME_events.go, and
// a file for each further mechanism. From the simple to the large: [Dedup],
// [Occurrence], [Action], [RecurringAction]; [Lock], [Semaphore], [Bus]; [Queue]
// and its window, [Worker]; [Task], [Strategy], [Pipeline]; [Scheduler], [Job],
// [Orchestrator].
package core
