package postgres

import (
	"context"
	"fmt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/internal/tables"
)

var _ store.Checker = (*Store)(nil)

// Check implements [store.Checker]: values whose checksum is wrong; due and list entries without a record; counts that are not what the
// lists hold; gaps in the journal; an outbox that disagrees with its waiting index. It reads one snapshot, in one transaction of the database, beside
// the owner too. The pages of the database are PostgreSQL's: its extension amcheck looks at those.
func (s *Store) Check(ctx context.Context) (found []store.Finding, err error) {
	full := func() bool { return len(found) >= store.MaxFindings }
	report := func(where, what string) {
		if !full() {
			found = append(found, store.Finding{Where: where, What: what})
		}
	}
	err = s.view(ctx, "check", func(t *tables.ReadTx) error {
		if err := t.Check(report, full); err != nil {
			return fmt.Errorf("check: %w", err)
		}
		return nil
	})
	return found, err
}
