-- The first format. %s stands for the schema. Nothing here compares text by a collation: keys are bytea.
CREATE TABLE %s.meta (
	one    int PRIMARY KEY CHECK (one = 1),
	format int NOT NULL -- of these tables
);
CREATE TABLE %s.partitions (
	part       int PRIMARY KEY,
	token      bigint NOT NULL DEFAULT 0,  -- grows with each claim and each reconnection: the fencing token
	last       bigint NOT NULL DEFAULT 0,  -- number of the last commit
	checkpoint bigint NOT NULL DEFAULT 0,  -- up to here all is in entries, and the log is gone
	beat       bigint NOT NULL DEFAULT 0,  -- grows with each sign of life of the owner
	session    text   NOT NULL DEFAULT '', -- of the owner's opening; empty: nobody owns the partition
	owner      text   NOT NULL DEFAULT '',
	address    text   NOT NULL DEFAULT ''
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000);
CREATE TABLE %s.tables (
	part int  NOT NULL,
	id   int  NOT NULL,
	name text NOT NULL,
	PRIMARY KEY (part, id)
);
CREATE TABLE %s.entries (
	part int   NOT NULL,
	tab  int   NOT NULL,
	k    bytea NOT NULL,
	v    bytea NOT NULL,
	PRIMARY KEY (part, tab, k)
);
CREATE TABLE %s.log (
	part  int    NOT NULL,
	n     bigint NOT NULL,
	frame bytea  NOT NULL,
	PRIMARY KEY (part, n)
);
ALTER TABLE %s.log ALTER COLUMN frame SET STORAGE EXTERNAL; -- it is compressed already
