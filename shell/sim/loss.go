package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/orrery-go/orrery/store"
)

// What [Report].Counts has of losses: partitions that were stopped for one, and those of which an operator has accepted it.
const (
	CountStopped  = "a partition is stopped for a loss"
	CountAccepted = "a loss is accepted"
)

// acceptedWithin is how long an operator takes at most to accept a loss.
const acceptedWithin = 30 * time.Second

// errStopped: nobody opens the partition.
var errStopped = fmt.Errorf("%w: %w", store.ErrUnusable, store.ErrLost)

// judge has an opening compare what it knows with what the database says, as it does in each commit and with each sign of life. The first time that
// it owns the partition no more, or finds commits gone, ends it: if that is a loss of which nobody has told, it stops the partition, whoever owns it.
func (h *handle) judge() {
	if h.judged || h.db.defects.untold {
		return
	}
	gone := h.acked > h.db.row.Last
	h.judged = gone || h.stale()
	if gone && h.db.told[h.number] < h.acked {
		h.stop()
	}
}

// stop stops the partition for a loss, and has an operator accept it later. It tells of the commits of this opening, and of those of the one before.
func (h *handle) stop() {
	db := h.db
	why := fmt.Sprintf("commit %d was acknowledged, the database's last one is %d", h.acked, db.row.Last)
	db.told[h.number], db.told[h.before] = h.acked, max(db.told[h.before], h.found)
	db.owner++ // whoever owns it is fenced
	db.row.Token, db.row.Session, db.row.Owner, db.row.Address = uint64(db.owner), "", "", ""
	db.row.Halted, db.row.Lost = why, true
	db.row.Beat++
	db.count(CountStopped)
	db.log("%s stops %s: %s", h.of.name, db.partition(db.number), why)
	db.operate(why)
}

// operate has an operator accept a loss after a while.
func (db *database) operate(why string) {
	db.after("an operator accepts the loss of "+db.partition(db.number)+": "+why, db.thinksFor(), func() {
		if db.defects.unaccepted {
			db.operate(why)
			return
		}
		_ = db.acceptLoss(why) // where it was stopped for another one since, that is accepted by itself
	})
}

// thinksFor is how long an operator takes to accept a loss that is told now.
func (r *run) thinksFor() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(rand.New(rand.NewPCG(r.seed, 1<<61|uint64(r.steps))).Int64N(int64(acceptedWithin))).Round(time.Millisecond) //nolint:gosec // a seed is a run
}

// acceptLoss has the partition go on that is stopped for that loss.
func (db *database) acceptLoss(halted string) error {
	if err := db.row.CanAcceptLoss(halted); err != nil {
		return err
	}
	db.goesOn()
	db.row.Beat++
	return nil
}

// goesOn ends the stop of a partition.
func (db *database) goesOn() {
	db.row.Halted, db.row.Lost = "", false
	db.count(CountAccepted)
}

// isStopped reports whether a process that begins could do nothing, since the only partition is stopped.
func (r *run) isStopped() bool { return len(r.dbs) == 1 && r.dbs[0].row.Halted != "" }

// isLost reports whether an error says that commits are lost.
func isLost(err error) bool { return errors.Is(err, store.ErrLost) }
