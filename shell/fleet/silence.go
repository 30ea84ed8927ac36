package fleet

import (
	"time"

	"github.com/orrery-go/orrery/store"
)

// silence measures for how long an owner has given no sign of life: see the package's comment.
type silence struct {
	lease  time.Duration
	row    store.Partition
	since  time.Time // from when on the owner is known to be silent
	looked time.Time // when the last look that the database answered had ended; zero: the one before this failed
}

// missed notes a look that failed.
func (s *silence) missed() { s.looked = time.Time{} }

// see notes a look that the database answered, and gives the silence until it began. It began and ended at these times of the steady clock.
func (s *silence) see(row store.Partition, began, ended time.Time) time.Duration {
	sign := row.Token != s.row.Token || row.Beat != s.row.Beat
	if s.looked.IsZero() || sign || began.Sub(s.looked) >= s.lease/2 {
		s.since = ended
	}
	s.row, s.looked = row, ended
	return max(0, began.Sub(s.since))
}
