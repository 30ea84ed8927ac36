package wal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// dir is where the logs are on the disks of the tests.
const dir = "/db.log"

// promise is what a log must hold: of what was appended at least what a Sync has
// returned for, and nothing else.
type promise struct {
	first    uint64   // the number of appended[0]
	appended []string // what was appended in this life or is left of earlier ones
	synced   uint64   // up to here a Sync has returned
	dropped  uint64   // up to here a Drop may have dropped
	created  bool     // Create has returned
	lives    int      // how often the log was opened
}

func (p promise) last() uint64 { return p.first + uint64(len(p.appended)) - 1 }

// copied is a promise that does not change with p.
func (p promise) copied() promise {
	p.appended = slices.Clip(p.appended)
	return p
}

// frame is a payload that no other life of the log has for the same number.
func (p promise) frame(size int) string {
	s := fmt.Sprintf("life %d frame %d ", p.lives, p.last()+1)
	return s + strings.Repeat("x", max(0, size-len(s)))
}

// actor uses a log on a disk and holds it against its promise.
type actor struct {
	t    require.TestingT
	disk *disktest.Disk
	o    wal.Options
	p    *promise
	log  *wal.Log
}

// open opens the log, or creates it if it need not be there yet, and checks it. Behind
// that all that is there is promised.
func (a *actor) open() error {
	a.p.lives++
	a.log = nil
	l, err := wal.Open(dir, id, a.o)
	if errors.Is(err, wal.ErrMissing) && !a.p.created {
		l, err = wal.Create(dir, id, a.p.first, a.o)
	}
	if err != nil {
		return err
	}
	a.log, a.p.created = l, true
	if err := a.check(); err != nil {
		return err
	}
	a.p.synced = l.Last()
	a.p.appended = slices.Clip(a.p.appended[:l.Last()+1-a.p.first])
	return nil
}

// check holds what the log has against what it must have. The error is one of the disk.
func (a *actor) check() error {
	last := a.log.Last()
	require.GreaterOrEqual(a.t, last, a.p.synced, "the log ends before what was synced")
	require.LessOrEqual(a.t, last, a.p.last(), "the log holds more than was appended")
	n := max(a.p.dropped+1, a.p.first)
	err := a.log.Replay(n, func(number uint64, payload []byte) error {
		require.Equal(a.t, n, number)
		if want := a.p.appended[n-a.p.first]; want != string(payload) {
			require.Failf(a.t, "another frame", "frame %d is %.30q of %d bytes, not %.30q of %d", n, payload, len(payload), want, len(want))
		}
		n++
		return nil
	})
	if err != nil {
		return err
	}
	require.Equal(a.t, last+1, max(n, last+1), "frames are left out")
	require.True(a.t, n == last+1 || last < n, "replay ends with frame %d, not %d", n-1, last)
	return nil
}

// step does one thing with the log. Its errors are those of the disk.
func (a *actor) step(draw func(n int) int) error {
	switch k := draw(20); {
	case k < 11:
		if err := a.append(sizeOf(draw)); err != nil || draw(2) == 0 {
			return err
		}
		return a.sync()
	case k < 15:
		return a.sync()
	case k < 17:
		return a.drop(a.p.first + uint64(draw(len(a.p.appended)+1)))
	case k == 17:
		return a.log.Prepare()
	case k == 18: // the process is killed
		return a.open()
	default:
		if err := a.log.Close(); err != nil {
			return err
		}
		return a.open()
	}
}

func sizeOf(draw func(n int) int) int {
	switch draw(8) {
	case 0:
		return 3000 + draw(9000)
	case 1, 2:
		return 300 + draw(1000)
	default:
		return 10 + draw(200)
	}
}

func (a *actor) append(size int) error {
	frame, number := a.p.frame(size), a.p.last()+1
	a.p.appended = append(a.p.appended, frame)
	cut := len(frame) / 3
	n, err := a.log.Append([]byte(frame[:cut]), []byte(frame[cut:]))
	if err != nil {
		if !errors.Is(err, wal.ErrBroken) {
			a.p.appended = slices.Clip(a.p.appended[:len(a.p.appended)-1]) // nothing of it is there
		}
		return err
	}
	require.Equal(a.t, number, n)
	require.Equal(a.t, number, a.log.Last())
	return nil
}

func (a *actor) sync() error {
	last := a.log.Last()
	if err := a.log.Sync(); err != nil {
		return err
	}
	a.p.synced = last
	return nil
}

// drop drops what was synced, up to a number: a caller drops nothing else.
func (a *actor) drop(upTo uint64) error {
	upTo = min(upTo, a.p.synced)
	a.p.dropped = max(a.p.dropped, upTo)
	return a.log.Drop(upTo)
}
