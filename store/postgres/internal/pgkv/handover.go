package pgkv

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/orrery-go/orrery/store"
)

// Bytes of a key in a column, and of one that is to end.
const (
	keySize  = len(uuid.UUID{}) + 4
	stopSize = keySize + 1
)

func appendKey(b []byte, k store.EffectKey) []byte {
	return binary.BigEndian.AppendUint32(append(b, k.ID[:]...), k.N)
}

func keyOf(b []byte) store.EffectKey {
	return store.EffectKey{ID: uuid.UUID(b[:len(uuid.UUID{})]), N: binary.BigEndian.Uint32(b[len(uuid.UUID{}):])}
}

// keysOf reads what appendKey has written.
func keysOf(b []byte) (keys []store.EffectKey, err error) {
	if len(b)%keySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes of keys: want a multiple of %d", store.ErrCorrupt, len(b), keySize)
	}
	for part := range slices.Chunk(b, keySize) {
		keys = append(keys, keyOf(part))
	}
	return keys, nil
}

func encodeKeys(keys []store.EffectKey) []byte {
	b := make([]byte, 0, len(keys)*keySize)
	for _, k := range keys {
		b = appendKey(b, k)
	}
	return b
}

func encodeStops(stops []store.FormerStop) []byte {
	b := make([]byte, 0, len(stops)*stopSize)
	for _, s := range stops {
		kill := byte(0)
		if s.Kill {
			kill = 1
		}
		b = append(appendKey(b, s.Key), kill)
	}
	return b
}

func stopsOf(b []byte) (stops []store.FormerStop, err error) {
	if len(b)%stopSize != 0 {
		return nil, fmt.Errorf("%w: %d bytes of what is to end: want a multiple of %d", store.ErrCorrupt, len(b), stopSize)
	}
	for part := range slices.Chunk(b, stopSize) {
		stops = append(stops, store.FormerStop{Key: keyOf(part), Kill: part[keySize] != 0})
	}
	return stops, nil
}

// passed carries out a statement that gives a row if its fence has let it pass.
func (c *Cluster) passed(ctx context.Context, sql string, args ...any) error {
	var part int
	err := c.pool.QueryRow(ctx, sql, args...).Scan(&part)
	if noRow(err) {
		return store.ErrFenced
	}
	return err
}

// Remain notes a former owner, if it owns the partition yet.
func (c *Cluster) Remain(ctx context.Context, f store.Former) error {
	return c.passed(ctx, c.s.remain, f.Partition, f.Session, f.Owner, encodeKeys(f.Running))
}

// Report gives a sign of life of a former owner and stores results, in one statement.
func (c *Cluster) Report(ctx context.Context, f store.Former, results []store.FormerResult) ([]store.FormerStop, error) {
	ids, ns, data := make([][]byte, len(results)), make([]int64, len(results)), make([][]byte, len(results))
	for i, r := range results {
		ids[i], ns[i], data[i] = r.Key.ID[:], int64(r.Key.N), r.Data
		if data[i] == nil {
			data[i] = []byte{} // no NULL
		}
	}
	var stops []byte
	err := c.pool.QueryRow(ctx, c.s.report, f.Partition, f.Session, encodeKeys(f.Running), ids, ns, data).Scan(&stops)
	switch {
	case noRow(err):
		return nil, store.ErrFenced
	case err != nil:
		return nil, err
	}
	return stopsOf(stops)
}

// Depart takes a former owner out, if that says so itself, or the partition's owner.
func (c *Cluster) Depart(ctx context.Context, part int, by, session string) error {
	if by == session { // its own row, which no other opening has
		_, err := c.pool.Exec(ctx, c.s.depart, part, session)
		return err
	}
	return c.passed(ctx, c.s.dismiss, part, by, session)
}

// Formers gives the former owners of a partition, and after that what they have reported.
func (c *Cluster) Formers(ctx context.Context, part, most int) (all []store.Former, results []store.FormerResult, err error) {
	if all, err = c.formersBy(ctx, c.s.formers, part); err != nil {
		return nil, nil, err
	}
	err = each(ctx, c.pool, func(rows pgx.Rows) error {
		var r store.FormerResult
		var id []byte
		err := rows.Scan(&r.Session, &id, &r.Key.N, &r.Data)
		if err == nil {
			r.Key.ID, err = uuid.FromBytes(id)
		}
		results = append(results, r)
		return err
	}, c.s.reported, part, most)
	return all, results, err
}

// AllFormers gives the former owners of all partitions, by partition and session.
func (c *Cluster) AllFormers(ctx context.Context) ([]store.Former, error) {
	all, err := c.formersBy(ctx, c.s.allFormers)
	return all, unreachable(ctx, err)
}

// formersBy gives the former owners that a statement selects, by partition and session.
func (c *Cluster) formersBy(ctx context.Context, sql string, args ...any) (all []store.Former, err error) {
	err = each(ctx, c.pool, func(rows pgx.Rows) error {
		var f store.Former
		var running []byte
		err := rows.Scan(&f.Partition, &f.Session, &f.Owner, &f.Beat, &running)
		if err == nil {
			f.Running, err = keysOf(running)
		}
		all = append(all, f)
		return err
	}, sql, args...)
	slices.SortFunc(all, func(a, b store.Former) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Session, b.Session))
	})
	return all, err
}

// Stop says what a former owner is to end, if by owns the partition.
func (c *Cluster) Stop(ctx context.Context, part int, by, session string, stops []store.FormerStop) error {
	return c.passed(ctx, c.s.stopFormer, part, by, session, encodeStops(stops))
}

// Taken deletes results, if by owns the partition.
func (c *Cluster) Taken(ctx context.Context, part int, by string, results []store.FormerResult) error {
	sessions, ids, ns := make([]string, len(results)), make([][]byte, len(results)), make([]int64, len(results))
	for i, r := range results {
		sessions[i], ids[i], ns[i] = r.Session, r.Key.ID[:], int64(r.Key.N)
	}
	return c.passed(ctx, c.s.taken, part, by, sessions, ids, ns)
}
