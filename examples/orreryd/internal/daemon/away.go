package daemon

import (
	"errors"
	"time"
)

// answersWithin is how long the database may take to answer a daemon that looks who works, before that says that it is not ready.
const answersWithin = time.Second

// errAway is all that anyone may know who asks whether the daemon is ready.
var errAway = errors.New("the database is not available: the daemon's log says why")

// whileAnswered gives what /readyz needs to know of the database without asking it, which may take long while that does not answer.
func whileAnswered(of interface {
	Unanswered(within time.Duration) error
}) func() error {
	return func() error {
		if of.Unanswered(answersWithin) != nil {
			return errAway
		}
		return nil
	}
}
