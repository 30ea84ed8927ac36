package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/store/postgres"
)

// refuseUnfilled refuses a database into which orreryd copy has not brought everything yet: also of partitions that are whole nobody knows whether the
// source goes on, and one that the copy has not come to would be taken for a new one.
func refuseUnfilled(ctx context.Context, cluster *postgres.Cluster) error {
	all, err := cluster.Partitions(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := postgres.IsFilled(p); err != nil {
			return hintUnfilled(err)
		}
	}
	return nil
}

// hintUnfilled says what to do if an error is about half of a copy.
func hintUnfilled(err error) error {
	if !errors.Is(err, postgres.ErrUnfilled) {
		return err
	}
	return fmt.Errorf("%w. If orreryd copy goes on, start the daemon once that is done; if it was cut off, run the same copy again, or drop the schema orrery and begin without it", err)
}

// hintLost says what to do if an error is about commits that a database has lost; of is what the command takes.
func hintLost(of string, err error) error {
	if !errors.Is(err, postgres.ErrLost) {
		return err
	}
	return fmt.Errorf("%w. Look for what callers know of what is gone, then: orreryd cluster accept-loss %s", err, of)
}

// unfilled gives the error of a partition that this daemon was to work on, and that is half of a copy; nil: there is none.
func (h *host) unfilled() error {
	for p := range h.layout.Partitions {
		if err := h.group.Member(p).State().Unusable; errors.Is(err, postgres.ErrUnfilled) {
			return fmt.Errorf("partition %d is half of a copy that was cut off: run the same orreryd copy again, or drop the schema", p)
		}
	}
	return nil
}
