package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/store/postgres"
)

// left ends what is left on this machine of partitions that another daemon works on: that one has told the tasks and runs that their sessions and
// pods, whose home is here, are lost. Nothing is ended while this daemon may work on the partition.
type left struct {
	name string // of this daemon
	log  *slog.Logger
	disk *disk

	mu     sync.Mutex
	sweeps map[int]*sweep // by partition
}

// sweep ends what is left of one partition.
type sweep struct {
	end  context.CancelFunc
	done chan struct{}
}

// leftAgain is how long a sweep waits that has not ended everything.
const leftAgain = time.Minute

// saw begins to end what is left of a partition, of which c are the settings, if another daemon works on it.
func (l *left) saw(ctx context.Context, e fleet.Event, c config.Config) {
	if e.Kind != fleet.EventStandsBy || e.State.Owner == "" || e.State.Owner == l.name || l.disk == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.sweeps[e.State.Partition]
	ctx, end := context.WithCancel(ctx)
	s := &sweep{end: end, done: make(chan struct{})}
	l.sweeps[e.State.Partition] = s
	go func() {
		defer close(s.done)
		defer end()
		if before != nil {
			before.end()
			<-before.done
		}
		l.sweep(ctx, c, e.State.Partition)
	}()
}

// stop waits until nothing of a partition is ended any more: it is this daemon's.
func (l *left) stop(partition int) {
	l.mu.Lock()
	s := l.sweeps[partition]
	l.mu.Unlock()
	if s != nil {
		s.end()
		<-s.done
	}
}

// close ends all sweeps.
func (l *left) close() {
	l.mu.Lock()
	partitions := slices.Collect(maps.Keys(l.sweeps))
	l.mu.Unlock()
	for _, p := range partitions { // order-free: all are waited for
		l.stop(p)
	}
	l.disk.close()
}

// sweep ends what is left until nothing is, or ctx ends.
func (l *left) sweep(ctx context.Context, c config.Config, partition int) {
	log := l.log.With("partition", partition)
	for ctx.Err() == nil {
		err := l.disk.alone(ctx, func() error { return errors.Join(endSessions(ctx, c, log), endPods(ctx, c, partition, log)) })
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Warn("what is left here of a partition that another daemon works on could not be ended; trying again", "error", err, "after", leftAgain)
		select {
		case <-time.After(leftAgain):
		case <-ctx.Done():
		}
	}
}

// endSessions ends the sessions that are left of a partition.
func endSessions(ctx context.Context, c config.Config, log *slog.Logger) (err error) {
	if c.Workspace == "" {
		return nil
	}
	roots, err := c.WorkspaceRoots()
	if err != nil {
		return err
	}
	user, err := c.SessionUser()
	if err != nil {
		return err
	}
	sessions, err := newSessions(c, roots, user)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sessions.Close()) }()
	ended, err := sessions.Cleanup(ctx, func(string) bool { return ctx.Err() != nil })
	if len(ended) > 0 {
		log.Warn("sessions were ended that are left of a time when this daemon worked on the partition; their tasks are another one's now", "sessions", ended)
	}
	return err
}

// endPods ends the pods of local runners that are left of a partition.
func endPods(ctx context.Context, c config.Config, partition int, log *slog.Logger) (err error) {
	runners, err := c.LeftRunners(log)
	if err != nil || len(runners) == 0 {
		return err
	}
	st, err := postgres.Open(ctx, c.Database, postgres.Options{ReadOnly: true, Partition: partition})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(runners)) {
		ended, err := jobs.EndLeft(ctx, runners[name], st)
		if len(ended) > 0 {
			log.Warn("pods were ended that are left of a time when this daemon worked on the partition; their runs are another one's now", "runner", name, "pods", len(ended))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("runners.%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// newLeft makes what ends what is left here. If there cannot be anything it ends nothing.
func newLeft(ctx context.Context, c config.Config, name string, log *slog.Logger) *left {
	l := &left{name: name, log: log, sweeps: map[int]*sweep{}}
	if c.Workspace == "" && len(c.LocalRunners()) == 0 {
		return l
	}
	var err error
	if l.disk, err = holdDisk(ctx, c.DB+".home"); err != nil {
		log.Warn("sessions and pods that are left here of another daemon's partitions will not be ended", "error", err)
	}
	return l
}
