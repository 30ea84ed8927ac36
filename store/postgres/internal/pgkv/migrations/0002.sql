-- The second format: a database of several partitions. Who knows the first one alone goes on, unless it was divided: then "least" is 2.
ALTER TABLE %s.meta ADD COLUMN partitions int; -- how many there are; NULL: nobody has said, and it is one
ALTER TABLE %s.meta ADD COLUMN rule int;       -- version of the rule by which a tenant has its partition
ALTER TABLE %s.instances ADD COLUMN core text NOT NULL DEFAULT '';
ALTER TABLE %s.instances ADD COLUMN able text NOT NULL DEFAULT '';
ALTER TABLE %s.instances ADD COLUMN draining boolean NOT NULL DEFAULT false; -- it is to give back what it owns
