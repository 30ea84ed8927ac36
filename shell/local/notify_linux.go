package local

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	rootMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_ONLYDIR
	// A state comes by a rename; the lock is closed when its supervisor ends.
	podMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR
)

// inotify is the notifier of Linux.
type inotify struct {
	dir   string
	watch *watch
	f     *os.File
	done  chan struct{}

	mu    sync.Mutex
	names map[int32]string // by watch descriptor; empty: the root
	added map[string]bool
}

func newNotifier(dir string, w *watch) (notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	n := &inotify{
		dir: dir, watch: w, f: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}),
		names: map[int32]string{}, added: map[string]bool{},
	}
	wd, err := unix.InotifyAddWatch(fd, dir, rootMask)
	if err != nil {
		_ = n.f.Close()
		return nil, fmt.Errorf("inotify: %s: %w", dir, err)
	}
	n.names[int32(wd)] = ""
	go n.read()
	return n, nil
}

func (n *inotify) close() {
	_ = n.f.Close()
	<-n.done
}

func (n *inotify) add(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.added[name] {
		return nil
	}
	conn, err := n.f.SyscallConn()
	if err != nil {
		return err
	}
	wd := 0
	if ctlErr := conn.Control(func(fd uintptr) {
		wd, err = unix.InotifyAddWatch(int(fd), filepath.Join(n.dir, name), podMask)
	}); ctlErr != nil {
		return ctlErr
	}
	if err != nil {
		return fmt.Errorf("inotify: %s: %w", name, err)
	}
	n.names[int32(wd)], n.added[name] = name, true
	return nil
}

// read hands events on until the file is closed.
func (n *inotify) read() {
	defer close(n.done)
	buf := make([]byte, 64<<10)
	for {
		got, err := n.f.Read(buf)
		if err != nil {
			return
		}
		for rest := buf[:got]; len(rest) >= unix.SizeofInotifyEvent; {
			length := int(binary.NativeEndian.Uint32(rest[12:]))
			wd, mask := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:])
			file := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
			rest = rest[unix.SizeofInotifyEvent+length:]
			n.event(wd, mask, file)
		}
	}
}

func (n *inotify) event(wd int32, mask uint32, file string) {
	n.mu.Lock()
	name, known := n.names[wd]
	if mask&unix.IN_IGNORED != 0 {
		delete(n.names, wd)
		delete(n.added, name)
	}
	n.mu.Unlock()
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		n.watch.touchAll()
	case !known || mask&unix.IN_IGNORED != 0:
	case name == "":
		n.watch.touch(file) // others than pods are left out there
	case file == lockFile && mask&unix.IN_CLOSE_WRITE != 0:
		n.watch.touchAgain(name, recheckTimes)
	case file == stateFile || file == startedFile:
		n.watch.touch(name)
	}
}
