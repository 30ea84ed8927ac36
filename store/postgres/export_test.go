package postgres

import "context"

// Checkpoint brings all that is committed into the tables now.
func Checkpoint(ctx context.Context, s *Store) error { return s.db.Checkpoint(ctx) }
