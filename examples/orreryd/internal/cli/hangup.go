package cli

import (
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// hangups decide what becomes of SIGHUP. It stops a command as SIGTERM does, unless nohup has it ignored, or the command
// reads its settings again on it: then it does, but if the terminal has hung up on which the command ran.
type hangups struct {
	signals chan os.Signal
	ignored bool                            // when the program began: by nohup
	reload  atomic.Pointer[chan<- struct{}] // nil: nothing is read again
	gone    func() bool                     // reports whether the terminal is gone
}

func newHangups(stderr io.Writer) *hangups {
	h := &hangups{signals: make(chan os.Signal, 1), ignored: signal.Ignored(syscall.SIGHUP), gone: terminalGone(stderr)}
	if !h.ignored {
		signal.Notify(h.signals, syscall.SIGHUP)
	}
	return h
}

// toReload has SIGHUP tell the channel from now on.
func (h *hangups) toReload() <-chan struct{} {
	c := make(chan struct{}, 1) // one that waits stands for all that come meanwhile
	var sends chan<- struct{} = c
	h.reload.Store(&sends)
	signal.Notify(h.signals, syscall.SIGHUP)
	return c
}

// hear takes a signal, and reports whether that was all: else it is one to stop.
func (h *hangups) hear() bool {
	reload := h.reload.Load()
	if reload == nil || !h.ignored && h.gone() {
		return false
	}
	select {
	case *reload <- struct{}{}:
	default:
	}
	return true
}

// forward passes on what is not heard, until stop.
func (h *hangups) forward(to chan<- os.Signal) {
	for s := range h.signals {
		if !h.hear() {
			select {
			case to <- s:
			default: // the program ends already
			}
		}
	}
}

func (h *hangups) stop() {
	signal.Stop(h.signals)
	close(h.signals)
}

// terminalGone tells of a program whose errors go to a terminal whether that has hung up since.
func terminalGone(stderr io.Writer) func() bool {
	if !isTerminal(stderr) {
		return func() bool { return false }
	}
	return func() bool { return !isTerminal(stderr) }
}
