package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/headtail"
)

// Limits of what is read of a pod that is being deleted.
const (
	// readBeforeLimit bounds the reading of what the pod wrote until then: no pod goes on
	// for longer because its logs cannot be read.
	readBeforeLimit = 30 * time.Second
	// openLimit is how long a deletion waits for the pod's logs to be followed.
	openLimit = 5 * time.Second
	// readAfterLimit is how long the last of the logs may take once the pod is gone.
	readAfterLimit = 10 * time.Second
	// maxReadsBefore bounds the deletions of one runner that read what their pods wrote until
	// then at a time: each holds it in memory, and there may be a thousand deletions.
	maxReadsBefore = 16
	// maxReadings bounds the deletions of one runner that follow logs at a time. Each holds what
	// it reads in memory until its pod is gone.
	maxReadings = 64
	// readingWait is how long a deletion waits until it may follow the logs. Beyond that the
	// end of the pod matters more than its last words.
	readingWait = 5 * time.Second
)

// fetchLogs stores what the attempt's pod has written (004 retrievePodLogs).
func (s *Service) fetchLogs(ctx context.Context, o core.Orchestrator, e effects.FetchLogs) (json.RawMessage, error) {
	_, r, err := s.runner(o.Config)
	if err != nil {
		return nil, err // not for good: once it is configured again, they are read as the pod is deleted
	}
	w := s.logBuffer(o.Config.Logs)
	calls, err := r.Logs(ctx, Attempt{Run: o.ID, N: e.Attempt}, LogOptions{}, w)
	a := clusterAnswer{APICalls: calls}
	logs, err := s.keepLogs(ctx, o, e.Attempt, w, err)
	if err == nil {
		a.Logs = &logs
	}
	return answered(a, err)
}

// keepLogs stores what was read of an attempt's logs, and failed says why there is no more
// of it. What an effect before has stored stays if it is more: a pod that is being deleted,
// or is gone, may give less than it did before a crash. An error says that the reading is
// to be repeated.
func (s *Service) keepLogs(ctx context.Context, o core.Orchestrator, attempt uint32, w *headtail.Buffer, failed error) (core.RunLogs, error) {
	if failed != nil && ctx.Err() != nil {
		return core.RunLogs{}, fmt.Errorf("read the logs: %w", failed)
	}
	text, kept, dropped := keptText(w)
	if before, ok := s.keptBefore(ctx, o, attempt); ok && before.Bytes+before.Dropped >= max(w.Total(), 1) {
		if failed != nil && before.Bytes+before.Dropped > w.Total() && !errors.Is(failed, ErrNoPod) {
			before.Truncated, before.Error = true, restUnread(failed)
		}
		return before, nil
	}
	switch {
	case w.Total() == 0 && (errors.Is(failed, ErrNoPod) || isUnread(failed)):
		return core.RunLogs{Error: failed.Error()}, nil
	case failed != nil && w.Total() == 0:
		return core.RunLogs{}, fmt.Errorf("read the logs: %w", failed)
	}
	if err := s.logs.PutLog(ctx, o.ID, attempt, text); err != nil {
		return core.RunLogs{}, fmt.Errorf("store the logs: %w", err)
	}
	logs := core.RunLogs{Stored: true, Bytes: kept, Dropped: dropped, Truncated: dropped > 0 || failed != nil}
	if failed != nil { // what there is of them is better than nothing
		logs.Error = restUnread(failed)
	}
	return logs, nil
}

// restUnread says that logs are stored up to some point only.
func restUnread(why error) string {
	if isUnread(why) {
		return why.Error()
	}
	return "the rest could not be read: " + why.Error()
}

// keptBefore describes what is stored of an attempt's logs already.
func (s *Service) keptBefore(ctx context.Context, o core.Orchestrator, attempt uint32) (core.RunLogs, bool) {
	text, err := s.logs.Log(ctx, o.ID, attempt)
	if err != nil { // nothing is, or it cannot be read: then it is better stored anew
		return core.RunLogs{}, false
	}
	l := core.RunLogs{Stored: true, Bytes: int64(len(text))}
	if m := markerLine.FindSubmatch(text); m != nil {
		l.Bytes -= int64(len(m[0]))
		l.Dropped, _ = strconv.ParseInt(string(m[1]), 10, 64)
		l.Truncated = true
	}
	return l, true
}

// markerLine is the marker, see [keptText].
var markerLine = regexp.MustCompile(`(?m)^… (\d{1,18}) bytes dropped …\n`)

// removeAndRead deletes an attempt whose pod may still run, and reads its logs. What the pod
// wrote before is stored first, and then no longer held: a crash must not cost more than the
// last words. Logs that cannot be read or stored hold no deletion up.
func (s *Service) removeAndRead(ctx context.Context, name string, r Runner, o core.Orchestrator, a Attempt) (clusterAnswer, error) {
	read, calls, failed := s.logBuffer(o.Config.Logs), 0, error(nil)
	if !s.readEarlier(ctx, o, a) {
		read, calls, failed = s.readBefore(ctx, name, r, o, a)
	}
	if ctx.Err() != nil {
		return clusterAnswer{APICalls: calls}, fmt.Errorf("read the logs before the deletion: %w", context.Cause(ctx))
	}
	answer := clusterAnswer{APICalls: calls}
	var last *lastWords
	if !errors.Is(failed, ErrNoPod) {
		place, may := s.placeToFollow(ctx, name, o)
		if may {
			defer s.follows[name].leave(place)
			last = s.followLastWords(ctx, r, o, a, place)
		} else {
			failed = cmp.Or[error](failed, errManyReadings)
		}
	}
	calls, err := s.remove(ctx, name, r, a, nil)
	answer.APICalls += calls
	if last != nil {
		answer.APICalls += last.end(s, err == nil)
		if last.w.Total() >= read.Total() { // else what is stored is more, or what is still held
			read, failed = last.w, last.err
		}
	}
	if err != nil { // it goes on, and so do its logs
		return answer, err
	}
	logs, err := s.keepLogs(ctx, o, a.N, read, failed)
	switch {
	case err != nil && ctx.Err() != nil:
		return answer, err
	case err != nil:
		logs = core.RunLogs{Error: err.Error()}
	}
	answer.Logs = &logs
	return answer, nil
}

// placeToFollow takes a place among those who follow the logs of a runner's pods that are being
// deleted, and waits for one for a while.
func (s *Service) placeToFollow(ctx context.Context, name string, o core.Orchestrator) (*reading, bool) {
	limit, stop := s.o.Clock.Timer(readingWait)
	defer stop()
	return s.follows[name].enter(ctx, scopeOf(o), limit)
}

// readEarlier reports whether a deletion that failed has stored what the pod had written.
// While deletions go on failing it is not read anew: there may be megabytes of it, and a
// thousand such pods.
func (s *Service) readEarlier(ctx context.Context, o core.Orchestrator, a Attempt) bool {
	if o.Cleanup.Failures == 0 {
		return false
	}
	_, stored := s.keptBefore(ctx, o, a.N)
	return stored
}

// readBefore stores what a pod wrote before it is deleted. A pod that has ended is not given up
// unread while its runner is down: once that works again, reading and deletion are equally
// possible. It gives what was read and could not be stored, and nothing of what was.
func (s *Service) readBefore(ctx context.Context, name string, r Runner, o core.Orchestrator, a Attempt) (left *headtail.Buffer, calls int, failed error) {
	var wait backoff
	for {
		before := s.isDown(name)
		w, n, err := s.readOnce(ctx, name, r, o, a)
		calls += n
		again := err != nil && !errors.Is(err, ErrNoPod) && o.Pod.ExitCode != nil && (before || s.isDown(name))
		if !again || !s.pause(ctx, wait.next()) {
			return w, calls, err
		}
	}
}

// readOnce is one try of readBefore. A part of the logs is stored too: what follows may come
// to nothing.
func (s *Service) readOnce(ctx context.Context, name string, r Runner, o core.Orchestrator, a Attempt) (left *headtail.Buffer, calls int, failed error) {
	w := s.logBuffer(o.Config.Logs)
	limited, done := s.withTimeout(ctx, readBeforeLimit)
	defer done()
	place, may := s.reads[name].enter(limited, scopeOf(o), nil)
	if !may {
		return w, 0, errNoPlaceBefore
	}
	defer s.reads[name].leave(place)
	limited, stop := place.until(limited, errPlaceLost)
	defer stop()
	if calls, failed = r.Logs(limited, a, LogOptions{}, w); failed != nil && limited.Err() != nil {
		failed = context.Cause(limited)
	}
	if w.Total() > 0 {
		if _, err := s.keepLogs(ctx, o, a.N, w, failed); err == nil {
			w = s.logBuffer(o.Config.Logs)
		} else if failed == nil {
			failed = err
		}
	}
	return w, calls, failed
}

// lastWords follows the logs of a pod that is being deleted.
type lastWords struct {
	w      *headtail.Buffer
	calls  int
	err    error
	done   chan struct{} // closed when the reading has ended
	cancel context.CancelFunc
}

// followLastWords begins to follow an attempt's logs, and returns as soon as nothing that
// is written from now on will be missed. If the place is taken away, what was read until then
// is stored and no longer held. The caller calls end.
func (s *Service) followLastWords(ctx context.Context, r Runner, o core.Orchestrator, a Attempt, place *reading) *lastWords {
	follow, release := place.until(ctx, errPlaceLost)
	follow, cancel := context.WithCancel(follow)
	l := &lastWords{w: s.logBuffer(o.Config.Logs), done: make(chan struct{}), cancel: cancel}
	opened := make(chan struct{})
	go func() {
		defer close(l.done)
		defer release()
		l.calls, l.err = r.Logs(follow, a, LogOptions{Follow: true, Opened: sync.OnceFunc(func() { close(opened) })}, l.w)
		if l.err == nil || !isUnread(context.Cause(follow)) {
			return
		}
		l.err = errPlaceLost
		if _, err := s.keepLogs(ctx, o, a.N, l.w, l.err); err == nil {
			l.w = s.logBuffer(o.Config.Logs)
		}
	}()
	limit, stop := s.o.Clock.Timer(openLimit)
	defer stop()
	select {
	case <-opened:
	case <-l.done:
	case <-limit:
	case <-ctx.Done():
	}
	return l
}

// end waits for the end of the reading: for a while if the pod is gone, and else not at
// all. It gives the calls of the API.
func (l *lastWords) end(s *Service, gone bool) int {
	if gone {
		limit, stop := s.o.Clock.Timer(readAfterLimit)
		defer stop()
		select {
		case <-l.done:
		case <-limit:
		}
	}
	l.cancel()
	<-l.done
	return l.calls
}

// logBuffer keeps as many bytes of head and tail as are to be kept.
func (s *Service) logBuffer(p core.LogPolicy) *headtail.Buffer {
	head := min(cmp.Or(p.HeadBytes, s.o.LogHeadBytes), maxStoredLog)
	tail := min(cmp.Or(p.TailBytes, s.o.LogTailBytes), maxStoredLog-head)
	return headtail.Parts(int(head), int(tail))
}
