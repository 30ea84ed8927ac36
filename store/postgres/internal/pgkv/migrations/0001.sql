-- The first format. %s stands for the schema. Nothing here compares text by a collation: keys are bytea.
CREATE TABLE %s.meta (
	one    int PRIMARY KEY CHECK (one = 1),
	format int NOT NULL, -- of these tables
	least  int NOT NULL  -- the least format that a program must know to work with them
);
CREATE TABLE %s.partitions (
	part       int PRIMARY KEY,
	token      bigint NOT NULL DEFAULT 0,  -- grows with each claim: the fencing token
	last       bigint NOT NULL DEFAULT 0,  -- number of the last commit
	checkpoint bigint NOT NULL DEFAULT 0,  -- up to here all is in entries, and the log is gone
	target     bigint NOT NULL DEFAULT 0,  -- up to here some may be in entries: a checkpoint is under way
	steps      bigint NOT NULL DEFAULT 0,  -- transactions of checkpoints: each finds the one before it
	beat       bigint NOT NULL DEFAULT 0,  -- grows with each sign of life of the owner
	session    text   NOT NULL DEFAULT '', -- of the owner's opening; empty: nobody owns the partition
	owner      text   NOT NULL DEFAULT '',
	address    text   NOT NULL DEFAULT '',
	halted     text   NOT NULL DEFAULT ''  -- why the partition must not go on by itself
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000);
CREATE TABLE %s.instances (
	name    text PRIMARY KEY,
	session text   NOT NULL,
	address text   NOT NULL,
	version text   NOT NULL,
	beat    bigint NOT NULL
) WITH (fillfactor = 20);
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
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE TABLE %s.log (
	part  int    NOT NULL,
	n     bigint NOT NULL,
	frame bytea  NOT NULL,
	PRIMARY KEY (part, n)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
	toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000);
ALTER TABLE %s.log ALTER COLUMN frame SET STORAGE EXTERNAL; -- it is compressed already
