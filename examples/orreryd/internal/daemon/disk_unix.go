//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// disk is held by each daemon that keeps sessions and pods under one name on this machine.
type disk struct {
	file *os.File
	turn chan struct{} // holds a token while one holds it alone
}

// holdDisk waits until no other daemon ends what is left under that name.
func holdDisk(ctx context.Context, path string) (*disk, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	d := &disk{file: f, turn: make(chan struct{}, 1)}
	for {
		mine, err := d.lock(syscall.LOCK_SH)
		if err == nil && mine {
			return d, nil
		}
		if err == nil {
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		d.close()
		return nil, err
	}
}

func (d *disk) lock(how int) (bool, error) {
	for {
		err := syscall.Flock(int(d.file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("lock %s: %w", d.file.Name(), err)
		}
	}
}

// alone does something while no other daemon keeps its sessions and pods under this name, and fails if one does.
func (d *disk) alone(ctx context.Context, do func() error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	mine, err := d.lock(syscall.LOCK_EX)
	if err == nil && !mine {
		err = errors.New("another daemon on this machine keeps its sessions and runs beside the same --db: give each daemon its own")
	}
	defer func() { _, _ = d.lock(syscall.LOCK_SH) }() // a lock that failed may have lost the one before
	if err != nil {
		return err
	}
	return do()
}

func (d *disk) close() {
	if d != nil {
		_ = d.file.Close()
	}
}
