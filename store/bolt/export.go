package bolt

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// pastRatio is how many times longer the entries of the archive are than its blocks, about.
const pastRatio = 6

// Export implements [store.Exporter]: with all that was committed before the call. Readers
// and writers go on; the space that they free meanwhile is used again afterwards.
func (s *Store) Export(ctx context.Context, to store.Sink) error {
	return s.View(ctx, func(tx store.ReadTx) (err error) {
		t := tx.(*tables.ReadTx)
		ktx := t.Backing().(backing).Tx
		o := tables.ExportOptions{Bytes: ktx.Base().Size() + pastRatio*ktx.PastBytes(0, 0)}
		if o.Place, err = json.Marshal(ktx.Position()); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if s.db.ReadOnly() {
			o.Lost = s.db.PastLost() // else the journal was begun anew when the file was opened
		}
		return tables.Export(t, to, o)
	})
}

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, from store.Exporter) error {
	if err := s.lockWriter(ctx); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer s.unlockWriter()
	return tables.Import(ctx, &portions{ctx: ctx, s: s}, from)
}

// portions are the transactions of an Import. After each of them a checkpoint brings it into the file and
// the archive.
type portions struct {
	ctx context.Context // of the one call of Import
	s   *Store
	tx  *kv.Tx
}

// Begin implements [tables.Portions].
func (p *portions) Begin() (_ tables.Backing, err error) {
	if p.tx, err = p.s.begin(p.ctx, "write", true); err != nil {
		return nil, err
	}
	return backing{p.tx}, nil
}

// Commit implements [tables.Portions].
func (p *portions) Commit() error {
	err := p.tx.Commit()
	p.s.open.Done()
	if err != nil {
		return err
	}
	return p.s.db.Checkpoint()
}

// Rollback implements [tables.Portions].
func (p *portions) Rollback() {
	p.tx.Rollback()
	p.s.open.Done()
}
