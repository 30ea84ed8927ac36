package pgkv

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Format is that of the tables which this package makes and reads.
const Format = 1

//go:embed migrations/0001.sql
var first string

// migrations lead from each format to the next one; the first one makes the tables.
var migrations = []string{first}

// migrationLock is the key of the advisory lock under which tables are made and changed.
const migrationLock = 0x4f7272657279

// ErrNewer: the tables are those of a newer program.
var ErrNewer = errors.New("written by a newer Orrery")

// statements are what is sent to the database.
type statements struct {
	up, upTo, down, downTo, many               string
	tables, row, log                           string
	commit, append, held, checkpoint, truncate string
	addTable, upsert, remove, removeAll        string
	take, again, beat, leave, claim            string
}

func newStatements(schema string) *statements {
	q := func(sql string) string { return strings.ReplaceAll(sql, "%s", schema) }
	entries := "SELECT k, v FROM %s.entries WHERE part = $1 AND tab = $2 AND k >= $3"
	return &statements{
		up:     q(entries + " ORDER BY k LIMIT $4"),
		upTo:   q(entries + " AND k < $5 ORDER BY k LIMIT $4"),
		down:   q(entries + " ORDER BY k DESC LIMIT $4"),
		downTo: q(entries + " AND k < $5 ORDER BY k DESC LIMIT $4"),
		many: q(`SELECT x.i, e.k, e.v FROM unnest($2::int[], $3::bytea[]) WITH ORDINALITY AS x(tab, k, i)
			CROSS JOIN LATERAL (SELECT k, v FROM %s.entries WHERE part = $1 AND tab = x.tab AND k >= x.k ORDER BY k LIMIT 1) AS e`),
		tables: q("SELECT id, name FROM %s.tables WHERE part = $1"),
		row:    q("SELECT token, last, checkpoint, beat, session, owner, address FROM %s.partitions WHERE part = $1"),
		log:    q("SELECT n, frame FROM %s.log WHERE part = $1 AND n > $2 ORDER BY n"),
		// A number that does not follow, and a token that is not the writer's any more, make a NULL, which the column
		// refuses: so the whole transaction fails.
		commit:     q("UPDATE %s.partitions SET last = CASE WHEN token = $2 AND last = $3 THEN $4::bigint ELSE NULL END WHERE part = $1"),
		append:     q("INSERT INTO %s.log (part, n, frame) SELECT $1, n, frame FROM unnest($2::bigint[], $3::bytea[]) AS x(n, frame)"),
		held:       q("UPDATE %s.partitions SET token = CASE WHEN token = $2 THEN token ELSE NULL END WHERE part = $1"),
		checkpoint: q("UPDATE %s.partitions SET token = CASE WHEN token = $2 THEN token ELSE NULL END, checkpoint = $3 WHERE part = $1"),
		truncate:   q("DELETE FROM %s.log WHERE part = $1 AND n <= $2"),
		addTable:   q("INSERT INTO %s.tables (part, id, name) VALUES ($1, $2, $3)"),
		upsert: q(`INSERT INTO %s.entries (part, tab, k, v) SELECT $1, $2, k, v FROM unnest($3::bytea[], $4::bytea[]) AS x(k, v)
			ON CONFLICT (part, tab, k) DO UPDATE SET v = excluded.v`),
		remove:    q("DELETE FROM %s.entries WHERE part = $1 AND tab = $2 AND k = ANY($3::bytea[])"),
		removeAll: q("DELETE FROM %s.entries WHERE part = $1 AND tab = $2"),
		take: q(`UPDATE %s.partitions SET token = token + 1, beat = beat + 1, session = $5, owner = $6, address = $7
			WHERE part = $1 AND token = $2 AND beat = $3 AND last = $4 RETURNING token, last, checkpoint`),
		again: q("UPDATE %s.partitions SET token = token + 1 WHERE part = $1 AND token = $2 AND session = $3 RETURNING token, last"),
		beat:  q("UPDATE %s.partitions SET beat = beat + 1 WHERE part = $1 AND session = $2"),
		leave: q("UPDATE %s.partitions SET token = token + 1, session = '', owner = '', address = '' WHERE part = $1 AND session = $2"),
		claim: q("INSERT INTO %s.partitions (part) VALUES ($1) ON CONFLICT DO NOTHING"),
	}
}

// prepare makes the tables, or brings them into this format, and has the row of a partition.
func prepare(ctx context.Context, conn *pgx.Conn, schema string, part int, s *statements) error {
	found, err := format(ctx, conn, schema)
	if err != nil {
		return err
	}
	if found < Format {
		if err := migrate(ctx, conn, schema); err != nil {
			return err
		}
	}
	if found > Format {
		return fmt.Errorf("%w: the tables have format %d, this program knows %d", ErrNewer, found, Format)
	}
	_, err = conn.Exec(ctx, s.claim, part)
	return err
}

// format gives that of the tables that are there; 0: none are.
func format(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, schema string) (n int, err error) {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", schema+".meta").Scan(&there); err != nil || !there {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT format FROM "+schema+".meta").Scan(&n)
	return n, err
}

func migrate(ctx context.Context, conn *pgx.Conn, schema string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		found, err := format(ctx, tx, schema) // another one may have been faster
		if err != nil || found >= Format {
			return err
		}
		if found == 0 {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
				return fmt.Errorf("make the schema: %w", err)
			}
		}
		for _, sql := range migrations[found:] {
			if _, err := tx.Exec(ctx, strings.ReplaceAll(sql, "%s", schema)); err != nil {
				return fmt.Errorf("make the tables: %w", err)
			}
		}
		_, err = tx.Exec(ctx, "INSERT INTO "+schema+".meta (one, format) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET format = excluded.format", Format)
		return err
	})
}
