package pgkv

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Cluster is a connection to the database of somebody who owns nothing.
type Cluster struct {
	pool *pgxpool.Pool
	s    *statements
}

// Connect gives one, and makes the tables where they are not there.
func Connect(ctx context.Context, url string, o Options) (*Cluster, error) {
	o = o.withDefaults()
	pool, err := Pool(ctx, url, o, true)
	if err != nil {
		return nil, err
	}
	if err := Migrate(ctx, pool, o.Schema); err != nil {
		pool.Close()
		return nil, err
	}
	return &Cluster{pool, newStatements(o.Schema)}, nil
}

// Look gives a partition's row.
func (c *Cluster) Look(ctx context.Context, part int) (Row, error) {
	return scanRow(c.pool.QueryRow(ctx, c.s.look, part))
}

// Rows gives those of all partitions.
func (c *Cluster) Rows(ctx context.Context) (all []Row, err error) {
	err = each(ctx, c.pool, func(rows pgx.Rows) error {
		r, err := scanRow(rows)
		all = append(all, r)
		return err
	}, c.s.partitions)
	return all, err
}

// Register notes an instance.
func (c *Cluster) Register(ctx context.Context, name, session, address, version string) error {
	_, err := c.pool.Exec(ctx, c.s.instance, name, session, address, version)
	return err
}

// RenewInstance moves an instance's beat, if it is there in that session.
func (c *Cluster) RenewInstance(ctx context.Context, name, session string) (found bool, err error) {
	tag, err := c.pool.Exec(ctx, c.s.renewed, name, session)
	return tag.RowsAffected() > 0, err
}

// Leave takes an instance out, if it is there in that session.
func (c *Cluster) Leave(ctx context.Context, name, session string) error {
	_, err := c.pool.Exec(ctx, c.s.leave, name, session)
	return err
}

// Instances gives all instances, by name.
func (c *Cluster) Instances(ctx context.Context, fn func(name, session, address, version string, beat uint64)) error {
	type instance struct {
		name, session, address, version string
		beat                            uint64
	}
	var all []instance
	err := each(ctx, c.pool, func(rows pgx.Rows) error {
		var i instance
		err := rows.Scan(&i.name, &i.session, &i.address, &i.version, &i.beat)
		all = append(all, i)
		return err
	}, c.s.instances)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b instance) int { return cmp.Compare(a.name, b.name) })
	for _, i := range all {
		fn(i.name, i.session, i.address, i.version, i.beat)
	}
	return nil
}

// Close ends the connections.
func (c *Cluster) Close() { c.pool.Close() }

// Now gives the time of the database's clock.
func (c *Cluster) Now(ctx context.Context) (at time.Time, err error) {
	err = c.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at)
	return at, err
}
