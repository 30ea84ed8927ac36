// Package crashtest holds the crash suite: tests that kill a working Orrery
// with SIGKILL at hundreds of moments, under load of all three kinds of
// trigger, and then ask whether everything that was acknowledged is there,
// nothing was done twice that must not be, and nothing is stuck (FAULTS
// "Storage" and "Process").
//
// There are two victims. The daemon, examples/orreryd, is driven as a process
// over HTTP with real programs as its tools. The engine on a bolt file runs in a
// child that is this very test binary, which dies and starts again many times a
// second, also at chosen points: right before a commit, and between a commit and
// its answer. Both are held against the same checks.
//
// A second child carries out runbooks with all kinds of phases, with real git
// repositories, terminal sessions, Go workers and worker machines.
//
// A third child runs jobs whose pods are processes of this machine, which outlive
// it, and tells a database of runs what becomes of them.
//
// A fourth child backfills schedules, beside others whose times wait for one another
// or take each other's place.
//
// What a client was told stands in a ledger outside the victim, and each run of
// a tool leaves one line in a file. The checks compare both with the store.
//
// Environment:
//
//	ORRERY_SLOW=1    the whole suite: 200 kills of the daemon, 400 of the engine,
//	                 200 of the engine at its runbooks, 100 at its jobs, 200 at its
//	                 backfills
//	ORRERY_KILLS=n   that many kills of the daemon, twice as many of the engine
//	ORRERY_SEED=n    the seed of load and kills, 1 if it is not set; `.ci/run soak` sets fresh ones
//
// A seed fixes what is asked and when it is killed, not what the machine's
// scheduler makes of it. The files of a run that failed are kept; the log says
// where.
package crashtest
