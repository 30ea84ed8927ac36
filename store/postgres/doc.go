// Package postgres is the [store.Store] of a cluster: partitions in a PostgreSQL database, each
// owned by one process at a time. What Update returned nil for is in the database's write-ahead log, as
// durable as the database's synchronous_commit makes it.
//
// # How it works
//
// A commit is one frame: what a transaction has changed. It is written to the table log in one statement and one
// round trip, together with the fence: the row of the partition has the owner's token and the number of the last
// commit, and the statement writes nothing unless both are as this owner knows them. What the log has beyond the last
// checkpoint stands in memory, above the table entries, and a goroutine brings the net change of many commits there
// every few seconds: so an outbox entry that is put and deleted within seconds never becomes a row. The owner alone
// writes, so what it has read stays true; it keeps it, absences included, and a batch of creations with new ids reads
// nothing at all. [Store.Close] leaves the log as it is: whoever opens the partition next reads it.
//
// # Who owns a partition
//
// [Open] claims a partition. If another process owns it, Open listens for one lease whether its row moves, on its own
// steady clock, and fails with [store.ErrClaimed] if it does; the database's clock, and those of
// others, do not matter. Each claim makes the token greater. An owner that was replaced learns it with its next commit,
// checkpoint, View or [Store.Renew]: these fail with [store.ErrFenced], nothing is written, and [Store.Failed] is closed.
// An owner gives signs of life with each commit; call Renew for the time without any, or [Cluster.Renew] for all partitions of a process together.
//
// # When the database is away
//
// A commit whose answer is lost is looked up once the database answers again, and is made then if it had not been:
// no caller notices but by the time that it takes. After [Options.Patience] without an answer the commit fails with
// [store.ErrUnconfirmed], and the store refuses everything until it is opened anew.
//
// # What a failover loses
//
// With a synchronous standby (synchronous_standby_names, and synchronous_commit at least on) a failover loses nothing.
// With an asynchronous one the standby may lack what the primary acknowledged last. An owner that is told by the
// database of an earlier last commit than its own stops the partition with [ErrLost] and notes that there, whoever owns it by
// then; nobody opens it from then on before [Cluster.AcceptLoss], or with [Options.AcceptLoss]. What was lost is gone: callers hold answers about it,
// and side effects may have happened. Each commit, View, checkpoint and [Store.Renew] looks. If the owner ended before it could
// look, or the partition has more commits by then than were lost, nobody notices. Where the standby lacks no commit but a
// checkpoint alone, the store refuses everything, and the partition can be opened anew without a loss.
//
// # What it needs
//
// PostgreSQL 13 or newer, and a role that may use its schema and the tables in it; to make them it needs the right to
// create a schema, or an empty schema that it owns. TLS and all else as the URL says, in the form of libpq. The
// sessions that write set idle_in_transaction_session_timeout, lock_timeout and statement_timeout, unless the URL does: so a frozen
// process holds no lock for longer than half a lease. A role that may not end its own sessions with
// pg_terminate_backend is enough; but a process that freezes within a message then delays whoever takes over until it is gone.
//
// No prepared statement has a name and no session state is needed, so PgBouncer may stand between in transaction mode. It
// refuses the three settings as startup parameters: name them in its ignore_startup_parameters, and set them for the role instead
// (ALTER ROLE … SET).
package postgres
