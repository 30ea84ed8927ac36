-- The fifth format: whose lost commits the partition was stopped for. Who knows nothing of that may stop it once more for the same.
CREATE TABLE %s.told (
	part    int    NOT NULL,
	session text   NOT NULL, -- of the opening of an owner
	last    bigint NOT NULL, -- number of its last commit that was told of
	PRIMARY KEY (part, session)
);
