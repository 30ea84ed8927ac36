package wal

import "sync"

// Hold keeps frames for whoever has still to read or to copy them: as long as it is held,
// [Log.Drop] drops no segment that has one of them. It keeps files on the disk, so whoever
// holds frames needs a limit of its own. A hold is not in the folder: after a start it is
// to be made anew before the first Drop.
type Hold struct {
	log  *Log
	from uint64
}

// holds are those of a log.
type holds struct {
	mu  sync.Mutex
	all map[*Hold]struct{}
}

// Hold keeps the frames numbered from that one on until it is moved or released. It does
// not bring back what was dropped before, nor what a Drop that is under way has dropped.
// It waits for no file.
func (l *Log) Hold(from uint64) *Hold {
	h := &Hold{log: l, from: from}
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	if l.holds.all == nil {
		l.holds.all = make(map[*Hold]struct{})
	}
	l.holds.all[h] = struct{}{}
	return h
}

// Move keeps the frames from that one on, and those before it no longer. The next Drop
// drops them.
func (h *Hold) Move(from uint64) {
	h.log.holds.mu.Lock()
	defer h.log.holds.mu.Unlock()
	h.from = max(h.from, from)
}

// Keeps reports whether that is the first frame that the hold keeps; a nil Hold keeps none.
func (h *Hold) Keeps(first uint64) bool {
	if h == nil {
		return false
	}
	h.log.holds.mu.Lock()
	defer h.log.holds.mu.Unlock()
	return h.from == first
}

// Release ends the hold; a second one, and that of a nil Hold, do nothing. The next Drop
// drops what it has kept.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.log.holds.mu.Lock()
	defer h.log.holds.mu.Unlock()
	delete(h.log.holds.all, h)
	if len(h.log.holds.all) == 0 {
		h.log.readers.closeLeft()
	}
}

// Held is the first frame that a hold keeps; !ok: there is no hold.
func (l *Log) Held() (first uint64, ok bool) {
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for h := range l.holds.all {
		if !ok || h.from < first {
			first, ok = h.from, true
		}
	}
	return first, ok
}

// held reports whether a hold keeps a segment of which that is the last frame.
func (l *Log) held(last uint64) bool {
	first, ok := l.Held()
	return ok && first <= last
}
