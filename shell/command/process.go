package command

import (
	"os"
	"os/exec"
	"runtime"
	"sync"

	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// process is a started program with its group.
type process struct {
	cmd  *exec.Cmd
	done chan error // gets what Wait said, once

	endEscaped func() // ends what left the group of a program that was stopped

	mu      sync.Mutex
	stopped bool // the program got a signal from us
	over    bool // the program has ended: its id may soon be another's, so no signal any more
}

// start starts cmd. The goroutine that it leaves behind ends with the program,
// after its word in done.
func start(cmd *exec.Cmd, endEscaped func()) (*process, error) {
	p := &process{cmd: cmd, done: make(chan error, 1), endEscaped: endEscaped}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) run(started chan<- error) {
	// The death signal of Linux fires when the thread that started the program
	// ends, and Go ends a thread when a goroutine that locked it returns: keep
	// this one to ourselves until the program is gone.
	runtime.LockOSThread()
	if err := p.cmd.Start(); err != nil {
		runtime.UnlockOSThread()
		started <- err
		return
	}
	started <- nil
	if awaitEnd(p.cmd.Process.Pid) {
		p.endRest() // the ended leader is not yet reaped, so the group's id is still its own
	}
	err := p.cmd.Wait()
	runtime.UnlockOSThread()
	p.endRest()
	p.done <- err
}

// endRest kills, once, what is left of the group, and of a program that was
// stopped also what left the group. A program that ended by itself may leave a
// session of its own behind.
func (p *process) endRest() {
	if p.endGroup() {
		p.endEscaped()
	}
}

// endGroup kills what is left of the group, once, and then reports whether the
// program was stopped.
func (p *process) endGroup() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.over = true
	_ = procgroup.Kill(p.cmd.Process) // the group may have nobody left
	return p.stopped
}

// signal asks the group to end, or makes it end. It reports false when the program had ended.
func (p *process) signal(send func(leader *os.Process) error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.stopped = true
	_ = send(p.cmd.Process)
	return true
}
