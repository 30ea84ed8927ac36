package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// lateDisk is a [store.Stager] whose disk answers when the test says so, and as it says.
type lateDisk struct {
	*memory.Store // as who writes sees it
	t             *testing.T
	answers       chan error // of syncs; one that was unconfirmed leaves the store at work

	mu      sync.Mutex
	durable *memory.Store // as others see it
	staged  [][]byte      // backups of what was staged and is not durable
	many    int           // that were staged so far
	upTo    int           // of which so many are durable
	broken  error
	syncs   int // that have begun
	open    sync.WaitGroup

	states map[string]bool          // that were durable once, as JSON
	handed map[store.EffectKey]bool // that were durably handed out once
	gone   map[effects.Ref]bool     // that were durably not there, after they had been
	lives  map[effects.Ref]bool     // that are durably there
}

func newLateDisk(t *testing.T) *lateDisk {
	return &lateDisk{
		t: t, Store: memory.New(), durable: memory.New(), answers: make(chan error),
		states: map[string]bool{}, handed: map[store.EffectKey]bool{}, gone: map[effects.Ref]bool{}, lives: map[effects.Ref]bool{},
	}
}

func (d *lateDisk) View(ctx context.Context, fn func(store.ReadTx) error) error {
	d.mu.Lock()
	st := d.durable
	d.mu.Unlock()
	return st.View(ctx, fn)
}

func (d *lateDisk) Update(ctx context.Context, fn func(store.Tx) error) error {
	durable, err := d.Stage(ctx, fn)
	if unknown := durable(); unknown != nil {
		return unknown
	}
	return err
}

func (d *lateDisk) Stage(ctx context.Context, fn func(store.Tx) error) (func() error, error) {
	d.mu.Lock()
	broken := d.broken
	d.mu.Unlock()
	if broken != nil {
		return func() error { return nil }, broken
	}
	err := d.Store.Update(ctx, fn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		var b bytes.Buffer
		if _, berr := d.Store.Backup(context.Background(), &b); berr != nil {
			panic(berr)
		}
		d.staged = append(d.staged, b.Bytes())
		d.many++
	}
	n, wrote := d.many, err == nil
	d.open.Add(1)
	return sync.OnceValue(func() error {
		defer d.open.Done()
		return d.sync(n, wrote)
	}), err
}

// sync waits until the first n are durable.
func (d *lateDisk) sync(n int, wrote bool) error {
	for {
		d.mu.Lock()
		done, broken := n <= d.upTo, d.broken
		covered := d.many
		if !done && broken == nil {
			d.syncs++
		}
		d.mu.Unlock()
		switch {
		case done:
			return nil
		case broken != nil && wrote:
			return fmt.Errorf("%w: %w", store.ErrUnconfirmed, broken)
		case broken != nil:
			return broken
		}
		err := <-d.answers
		d.mu.Lock()
		if err == nil || errors.Is(err, store.ErrUnconfirmed) {
			d.show(covered)
		} else {
			d.broken = err
		}
		d.mu.Unlock()
		if errors.Is(err, store.ErrUnconfirmed) {
			return err
		}
	}
}

// isDurable tells how many of those that were staged are durable.
func (d *lateDisk) isDurable() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.upTo
}

// show makes what was staged durable. The caller holds mu.
func (d *lateDisk) show(upTo int) {
	for ; d.upTo < upTo; d.upTo++ {
		st, err := memory.Restore(bytes.NewReader(d.staged[0]), d.Session())
		if err != nil {
			panic(err)
		}
		d.durable, d.staged = st, d.staged[1:]
		d.note()
	}
}

func (d *lateDisk) note() {
	lives := map[effects.Ref]bool{}
	err := d.durable.View(context.Background(), func(tx store.ReadTx) error {
		return errors.Join(tx.Records(func(r store.Record) error {
			d.states[string(r.State)] = true
			lives[effects.Ref{Kind: r.Kind, ID: r.ID}] = true
			return nil
		}), tx.Outbox(func(o store.OutboxEntry) error {
			if !o.Waiting() {
				d.handed[o.Key] = true
			}
			return nil
		}))
	})
	if err != nil {
		panic(err)
	}
	for ref := range d.lives {
		if !lives[ref] {
			d.gone[ref] = true
		}
	}
	d.lives = lives
}

func (d *lateDisk) Backup(ctx context.Context, w io.Writer) (int64, error) {
	return d.durable.Backup(ctx, w)
}

func (d *lateDisk) Close() error {
	d.open.Wait()
	return d.Store.Close()
}

// answer has the disk answer the sync that waits, and reports whether one does.
func (d *lateDisk) answer(err error) bool {
	select {
	case d.answers <- err:
		return true
	default:
		return false
	}
}

// failed reports whether the disk has.
func (d *lateDisk) failed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken != nil
}

// count gives how many were staged, and how many syncs have begun.
func (d *lateDisk) count() (staged, syncs int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.many, d.syncs
}

func (d *lateDisk) seq() (seq uint64) {
	require.NoError(d.t, d.View(context.Background(), func(tx store.ReadTx) (err error) {
		seq, err = tx.Seq()
		return err
	}))
	return seq
}
