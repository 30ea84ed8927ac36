-- The third format: former owners of partitions, and what came of what they have carried out. Who knows none of them goes on.
CREATE TABLE %s.formers (
	part    int    NOT NULL,
	session text   NOT NULL, -- of the former owner's opening
	owner   text   NOT NULL,
	beat    bigint NOT NULL, -- grows with each sign of life
	running bytea  NOT NULL, -- keys of effects, 20 bytes each
	stops   bytea  NOT NULL, -- keys of those that are to end, 21 bytes each
	PRIMARY KEY (part, session)
) WITH (fillfactor = 20);
CREATE TABLE %s.reported (
	part    int    NOT NULL,
	session text   NOT NULL,
	id      bytea  NOT NULL, -- of the machine, and
	n       bigint NOT NULL, -- the number of the effect
	data    bytea  NOT NULL,
	PRIMARY KEY (part, session, id, n)
);
