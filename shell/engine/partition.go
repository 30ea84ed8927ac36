package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/store"
)

// metaPartition has in a database which partition it is; without it, it is partition 0.
const metaPartition = "partition"

// enterPartition notes in an empty database that it is the partition of the options, and refuses one
// that is another partition: its ids would be made as those of another one.
func (e *Engine) enterPartition(ctx context.Context) error {
	found, empty := 0, false
	err := e.store.View(ctx, func(tx store.ReadTx) (err error) {
		found, empty, err = partitionOf(tx)
		return err
	})
	if err != nil {
		return err
	}
	want := e.o.Partition
	if found == want {
		return nil
	}
	if !empty {
		return fmt.Errorf("shell: Options.Partition is %d, and the database is partition %d: give that number, or the database of the other one", want, found)
	}
	return e.store.Update(ctx, func(tx store.Tx) error {
		raw, err := json.Marshal(want)
		if err != nil {
			return err
		}
		return tx.SetMeta(metaPartition, raw)
	})
}

// partitionOf gives the partition of a database, and whether it is none yet: it has no batch, and nobody has
// noted one.
func partitionOf(tx store.ReadTx) (n int, empty bool, err error) {
	raw, err := tx.Meta(metaPartition)
	if err != nil {
		return 0, false, err
	}
	if raw == nil {
		seq, err := tx.Seq()
		return 0, seq == 0, err
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return 0, false, fmt.Errorf("the number of the database's partition: %q: %w", raw, err)
	}
	return n, false, nil
}
