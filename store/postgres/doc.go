// Package postgres is a [store.Store] in a PostgreSQL database, of version 13 or newer, that one process at a
// time writes to. It is for who has such a database, highly available and backed up, and wants no file of his own: the
// daemon on another machine opens the same database and goes on.
//
// # What is written
//
// A commit is one row, with all that a batch has changed, and one round trip to the database: what many callers
// wait for goes together. Every few seconds the net change is brought into the table from which others read;
// so what comes and goes within seconds, such as an entry of the outbox, never becomes a row there. Keys and values are
// bytea. The schema, "orrery" if nothing else is said, holds nothing else, and is made by the first Open.
//
// # Who writes
//
// The store is claimed by [Open], which waits, or fails with [store.ErrClaimed], as long as another process has it and gives signs of
// life. A process that was silent for [Options.Lease] loses it. Each transaction that writes
// carries a token, which the database compares: so whoever has lost the store cannot write to it, however late it
// comes; it gets [store.ErrFenced], and [Store.Failed] is closed.
//
// # What can be lost
//
// What Update returned nil for is as durable as PostgreSQL's own commits. With synchronous_commit off, or after a failover to a
// standby that replicates asynchronously, the database itself may lose what it has acknowledged. A process that
// lives on notices: it refuses everything with [ErrLost].
//
// If the connection breaks during a commit the store connects again and finds out whether the commit took place; callers
// wait meanwhile, and so they do as long as the database does not answer.
//
// # Connections
//
// The connection string is libpq's, as a URL or as key=value pairs, with TLS (sslmode, sslrootcert) as there. The role needs CREATE on the
// database for the first Open, after that only SELECT, INSERT, UPDATE and DELETE on the schema's tables.
// Through PgBouncer in its transaction mode, prepared statements must be on there (max_prepared_statements), or
// default_query_exec_mode=exec in the connection string.
package postgres
