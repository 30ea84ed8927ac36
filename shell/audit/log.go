package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// Defaults and bounds of [Options].
const (
	DefaultMaxAge   = 90 * 24 * time.Hour
	DefaultMaxBytes = 100 << 20
	MinBytes        = 1 << 20 // the least for Options.MaxBytes
)

// Options configure a [Log].
type Options struct {
	// Dir is the folder of the log, made with mode 0700 when the first line is written.
	// Required. One Log at a time may write to it.
	Dir string
	// MaxAge is how long lines are kept at least (default 90 days); negative: until MaxBytes.
	// A segment is removed as a whole, once its last line is older: a day later at most.
	MaxAge time.Duration
	// MaxBytes bounds the files together (default 100 MiB, at least 1 MiB): of the source
	// that fills most the oldest lines are removed.
	MaxBytes int64
	// Logger is told, once a minute at most, that lines were lost (default slog.Default()).
	Logger *slog.Logger
}

// Bounds of what waits for the writer, and how long.
const (
	maxWaiting = 8192 // entries; what comes then is lost, and counted
	syncEvery  = time.Second
	sweepEvery = time.Hour
)

// Log is a log of requests that is being written. It is safe for concurrent use. One goroutine
// writes; [Log.Close] ends it.
type Log struct {
	o     Options
	wake  chan struct{} // holds one element if there is something to write
	reads chan chan struct{}
	stop  chan struct{}
	done  chan struct{}
	close func() error

	mu      sync.Mutex
	merger  *merger
	waiting []Entry
	seq     uint64
	lost    lost
	stats   Stats

	files *segments // the goroutine's own
}

// lost is what could not be written since it was last said in the log.
type lost struct {
	count uint64
	since effects.Time
	why   string
}

// Stats counts what a [Log] has done since it was opened, but for Bytes, which are those of
// its files.
type Stats struct {
	Lines   uint64 // written
	Dropped uint64 // lines that could not be written
	Bytes   int64
}

// Open goes on with the log of a folder, or begins one. An error means that the folder
// cannot be read; whether it can be written shows at the first line.
func Open(o Options) (*Log, error) {
	if o.Dir == "" {
		return nil, errors.New("audit: Options.Dir is empty: name a folder")
	}
	o.MaxAge, o.MaxBytes, o.Logger = cmp.Or(o.MaxAge, DefaultMaxAge), cmp.Or(o.MaxBytes, DefaultMaxBytes), cmp.Or(o.Logger, slog.Default())
	if o.MaxBytes < MinBytes {
		return nil, fmt.Errorf("audit: Options.MaxBytes is %d: it must be at least %d", o.MaxBytes, int64(MinBytes))
	}
	files, err := openSegments(o)
	if err != nil {
		return nil, fmt.Errorf("audit: read the log in %s: %w", o.Dir, err)
	}
	l := &Log{
		o: o, wake: make(chan struct{}, 1), reads: make(chan chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
		merger: newMerger(), seq: files.last(), files: files, stats: Stats{Bytes: files.bytes},
	}
	l.close = sync.OnceValue(func() error {
		close(l.stop)
		<-l.done
		return nil
	})
	go l.run()
	return l, nil
}

// Close writes and syncs what was added before, and ends the log's goroutine.
func (l *Log) Close() error { return l.close() }

// Add adds an entry for a request that was just answered. It never waits for the disk: if
// the writer is too far behind the entry is lost, which is counted and said in the log. The
// first of equal refusals of a minute is a line, the others together another one.
func (l *Log) Add(e Entry) {
	e.clean()
	e.Count = 1
	now := time.Now()
	l.mu.Lock()
	e.At = effects.TimeOf(now)
	e.Since = e.At
	own := l.merger.add(&e, now)
	if own {
		l.push(e)
	}
	l.mu.Unlock()
	if own { // what is counted waits for the end of its minute
		l.nudge()
	}
}

// nudge wakes the writer.
func (l *Log) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// push numbers an entry and has it written. The lock is held.
func (l *Log) push(e Entry) {
	if len(l.waiting) >= maxWaiting {
		l.lose(&e, "the writer is behind")
		return
	}
	l.seq = max(l.seq+1, micros(time.Now()))
	e.Seq = l.seq
	l.waiting = append(l.waiting, e)
}

func micros(t time.Time) uint64 { return uint64(max(t.UnixMicro(), 1)) }

// lose counts a line that is not written. The lock is held.
func (l *Log) lose(e *Entry, why string) {
	if l.lost.count == 0 {
		l.lost.since = e.Since
	}
	l.lost.count += e.Count
	l.lost.why = why
	l.stats.Dropped++
}

// Stats gives the counters.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Read writes what was added before, and reads a page of the log; see [Read].
func (l *Log) Read(ctx context.Context, q Query) (Page, error) {
	written := make(chan struct{})
	select {
	case l.reads <- written:
		select {
		case <-written:
		case <-ctx.Done():
			return Page{}, ctx.Err()
		}
	case <-l.done:
	case <-ctx.Done():
		return Page{}, ctx.Err()
	}
	return Read(ctx, l.o.Dir, q)
}

// run is the log's goroutine.
func (l *Log) run() {
	defer close(l.done)
	pulse := time.NewTimer(sweepEvery)
	defer pulse.Stop()
	var said warning
	for {
		var reader chan struct{}
		ends := false
		select {
		case <-l.wake:
		case <-pulse.C:
		case reader = <-l.reads:
		case <-l.stop:
			ends = true
		}
		now := time.Now()
		calm := l.turn(now, ends || reader != nil, ends)
		if reader != nil {
			close(reader)
		}
		l.warn(now, &said)
		switch {
		case ends:
			return
		case calm:
			pulse.Reset(sweepEvery)
		default:
			pulse.Reset(syncEvery)
		}
	}
}

// turn writes what waits, with the counts of minutes that are over, or with all counts. It
// reports whether there is nothing left to do.
func (l *Log) turn(now time.Time, all, end bool) bool {
	l.mu.Lock()
	l.merger.due(now, all, l.push)
	batch := l.waiting
	l.waiting = nil
	if l.lost.count > 0 && len(batch) < maxWaiting {
		batch = append(batch, l.lossLocked(now))
	}
	calm := len(l.merger.sources) == 0
	l.mu.Unlock()

	for _, part := range byStream(batch) {
		n, err := l.files.write(part.stream, part.entries, now)
		l.mu.Lock()
		l.wrote(part.entries[:n], nil)
		l.wrote(part.entries[n:], err)
		l.mu.Unlock()
	}
	if err := l.files.sync(now, end); err != nil {
		l.o.Logger.Warn("audit: could not sync the log: its last lines may be lost with the power", "error", err)
	}
	if err := l.files.sweep(now); err != nil {
		l.o.Logger.Warn("audit: could not remove old lines", "error", err)
	}
	l.mu.Lock()
	l.stats.Bytes = l.files.bytes
	calm = calm && l.lost.count == 0 && len(l.waiting) == 0
	l.mu.Unlock()
	return calm && l.files.clean()
}

// lossLocked is the line that says how many are missing.
func (l *Log) lossLocked(now time.Time) Entry {
	l.seq = max(l.seq+1, micros(now))
	return Entry{Seq: l.seq, At: effects.TimeOf(now), Since: l.lost.since, Count: l.lost.count, Operation: Lost, Reason: printable(l.lost.why)}
}

// wrote counts what was written, or lost. The lock is held.
func (l *Log) wrote(entries []Entry, err error) {
	for _, e := range entries {
		loss := e.Operation == Lost // if it fails, the next turn tries again
		switch {
		case err == nil && loss:
			l.lost.count -= min(e.Count, l.lost.count)
			l.lost.since = e.At
		case err == nil:
			l.stats.Lines++
		case !loss:
			l.lose(&e, err.Error())
		}
	}
}

// warning is what was last said of lost lines.
type warning struct {
	at      time.Time
	dropped uint64
}

// warn says that lines were lost, once a minute at most.
func (l *Log) warn(now time.Time, said *warning) {
	l.mu.Lock()
	dropped, why := l.stats.Dropped, l.lost.why
	l.mu.Unlock()
	if dropped == said.dropped || now.Sub(said.at) < minute && said.dropped > 0 {
		return
	}
	l.o.Logger.Warn("audit: lines were lost; a line of the log says how many requests they stood for, once one can be written", "lines", dropped-said.dropped, "error", why)
	*said = warning{now, dropped}
}

// part are entries of one stream.
type part struct {
	stream  string
	entries []Entry
}

// byStream sorts entries by their stream, in the order in which these come first.
func byStream(batch []Entry) []part {
	var parts []part
	at := make(map[string]int)
	for _, e := range batch {
		name := streamOf(&e)
		if e.Operation == Lost {
			name = "lost"
		}
		i, ok := at[name]
		if !ok {
			i = len(parts)
			at[name] = i
			parts = append(parts, part{stream: name})
		}
		parts[i].entries = append(parts[i].entries, e)
	}
	return parts
}
