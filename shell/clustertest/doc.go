// Package clustertest holds the suite of histories: three real daemons on a real
// PostgreSQL database, clients that ask any of them for work, and a schedule of faults
// that a seed chooses. One run has a database of one partition, and one tenant; another one
// has four partitions, tenants in each, daemons that are drained, one that is added and
// taken away again, and daemons that are upgraded one after the other to another core. A third
// one has four partitions and daemons that run pods: each of its faults freezes one of them
// within a call to an API server of Kubernetes, which is the test's own. The call is held up before it is carried out, or before
// it is answered, until another daemon has taken over and is done with the pod: then it goes on, while the
// daemon is still frozen, once it is awake, or after its death. Or the daemon is frozen right before the call, which it must not make any more then.
//
// Each daemon is a process, and reaches the database through a proxy of its own; the others
// reach it through another one. So it can be cut off from the database or from the others, and
// answers of commits can be lost. Daemons are killed, stopped and frozen for longer than their
// lease, also within a transaction that has the row of a partition locked: on one partition the server ends
// that, on several whoever takes over has to. The server is restarted, killed, and failed over to a
// synchronous standby. The clocks
// of the daemons are minutes apart: the program is built with another clock, see clock_test.go.
//
// Two runs of their own have an asynchronous standby: it lacks what clients were told of, and takes over. Each partition that has lost a commit says so, also after
// all daemons were started anew, and nobody works on it until the loss is accepted.
//
// A client asks until it is answered, with the same Idempotency-Key, and waits as Retry-After
// says. What it asked, when, and what it was told is its history. The test holds all of them
// together:
//
//   - against models of a queue and of a lock: one order of all requests explains all answers
//     (porcupine);
//   - tokens of locks only grow, reads of a lock are never older than what was answered before;
//   - what was acknowledged is there, once; what was cancelled stays cancelled;
//   - no side effect of a tool of on_interrupt "fail" happens twice, and none of one attempt;
//   - a pipeline has taken each signal once, in the order in which they were sent;
//   - each time of a recurring action has one verdict, and none is left out;
//   - each run of a job has the one verdict that its pods have, or was cancelled; no pod that was wanted is deleted, an attempt has a second
//     pod only if a daemon was held up, and that one is deleted: in the end the cluster holds nothing of them, and each Job and pod of others as it was;
//   - each record is of the tenant for whom it was asked;
//   - no epoch of a journal was decided by two cores;
//   - the journal of each partition replays clean, and no daemon has complained of what should never be.
//
// Environment:
//
//	ORRERY_SLOW=1     the schedule of the gate instead of a short one
//	ORRERY_FAULTS=n   a schedule of n steps, of one fault or two each; `.ci/run soak` sets it
//	ORRERY_SEED=n     the seed of schedule and clients, 1 if it is not set; `.ci/run soak` sets fresh ones
//
// A seed fixes what is asked and which faults happen in which order, not what the machine's
// scheduler makes of it. The folder of a run that failed is kept, with the history and the logs;
// the test says where.
package clustertest
