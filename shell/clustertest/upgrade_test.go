//go:build unix

package clustertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// upgrade stops a daemon, and starts it with another program.
func (c *cluster) upgrade(t *testing.T, m *member, program string) {
	t.Helper()
	t.Logf("%s: upgrade to core %s", m.name, nextVersion())
	require.NoError(t, m.stop(), "%s stops", m.name)
	m.program = program
	m.start()
	require.NoError(t, poll(patience, m.answers), m.name)
}

// upgrades tells before which steps of a schedule one more daemon is upgraded: they are spread over it.
func upgrades(steps int) map[int]bool {
	at := make(map[int]bool)
	for n := range daemons {
		at[(n+1)*steps/(daemons+1)] = true
	}
	return at
}

// decided is a stretch of the journal of a partition that one core has decided, as epochs have it.
type decided struct {
	epoch uint64
	core  string
}

// checkEpochs: no epoch has entries that two cores have decided, each of the two has decided some of the partition, and the next one has the last word.
func checkEpochs(f *findings, partition int, all []decided) {
	seen, of := make(map[string]bool), make(map[uint64]string)
	for _, d := range all {
		if other, ok := of[d.epoch]; ok && other != d.core {
			f.add("partition %d: epoch %d is decided by core %s and by core %s", partition, d.epoch, other, d.core)
		}
		of[d.epoch], seen[d.core] = d.core, true
	}
	for _, version := range []string{core.Version, nextVersion()} {
		if !seen[version] {
			f.add("partition %d: core %s has decided nothing", partition, version)
		}
	}
	if len(all) > 0 && all[len(all)-1].core != nextVersion() {
		f.add("partition %d: core %s has the last word, and all daemons have %s", partition, all[len(all)-1].core, nextVersion())
	}
}

// decisions reads which cores have decided in which epochs of a partition, one after the other.
func (c *cluster) decisions(ctx context.Context, partition int) (all []decided, err error) {
	s, err := postgres.Open(ctx, c.server.URL(c.database), postgres.Options{Partition: partition, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	err = s.View(ctx, func(tx store.ReadTx) error {
		epochs, err := tx.Epochs()
		if err != nil {
			return err
		}
		return tx.Journal(1, func(seq uint64, raw []byte) error {
			entry, err := core.DecodeEntry(raw)
			if err != nil {
				return fmt.Errorf("entry %d: %w", seq, err)
			}
			d := decided{core: entry.Core}
			for _, e := range epochs {
				if e.First <= seq {
					d.epoch = e.Number
				}
			}
			if len(all) == 0 || all[len(all)-1] != d {
				all = append(all, d)
			}
			return nil
		})
	})
	if bad := s.Close(); err == nil {
		err = bad
	}
	return all, err
}

// upgraded holds together what two cores have decided.
func (c *cluster) upgraded(t *testing.T, f *findings, partitions int) {
	t.Helper()
	for p := range partitions {
		all, err := c.decisions(t.Context(), p)
		assert.NoError(t, err, "partition %d", p)
		t.Logf("partition %d: epochs and cores %v", p, all)
		checkEpochs(f, p, all)
	}
}
