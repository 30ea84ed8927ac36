-- The fourth format: instances are told that partitions are to be where they should be. Who knows nothing of that goes on.
ALTER TABLE %s.instances ADD COLUMN rebalanced bigint NOT NULL DEFAULT 0; -- grows each time
