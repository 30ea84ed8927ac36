package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// program is a program of the cluster.
type program struct {
	name, path string
	args       []string
	env        []string     // besides this process's
	ready      func() error // nil: at once

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
	told  chan struct{} // closed before it is killed
}

// start starts a program and waits until it is ready. Its output is appended to
// NAME.log.
func (c *cluster) start(p *program) error {
	out, err := os.OpenFile(c.file(p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.ended, p.told = make(chan struct{}), make(chan struct{})
	c.programs[p.name] = p
	go func(cmd *exec.Cmd, ended, told chan struct{}) {
		err := cmd.Wait()
		close(ended)
		select {
		case <-told:
		default:
			c.died <- fmt.Errorf("%s ended by itself: %v; see %s", p.name, err, c.file(p.name+".log"))
		}
	}(p.cmd, p.ended, p.told)
	if p.ready == nil {
		return nil
	}
	return c.wait(p.name, p.ready)
}

// wait tries ready until it is.
func (c *cluster) wait(what string, ready func() error) error {
	begun := time.Now()
	for {
		err := ready()
		if err == nil {
			log.Printf("%-24s ready after %5.2f s, %5.2f s in all", what, time.Since(begun).Seconds(), time.Since(c.begun).Seconds())
			return nil
		}
		if time.Since(begun) > readyTimeout {
			return fmt.Errorf("%s is not ready after %s: %w", what, readyTimeout, err)
		}
		select {
		case died := <-c.died:
			return died
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// obey carries out a command.
func (c *cluster) obey(line string) error {
	verb, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	p := c.programs[name]
	if p == nil {
		return fmt.Errorf("command %q: no program %q is in this cluster", line, name)
	}
	switch verb {
	case "stop":
		return p.stop()
	case "start":
		select {
		case <-p.ended:
			return c.start(p)
		default:
			return fmt.Errorf("command %q: it runs", line)
		}
	case "pause":
		return p.cmd.Process.Signal(syscall.SIGSTOP)
	case "continue":
		return p.cmd.Process.Signal(syscall.SIGCONT)
	}
	return fmt.Errorf("command %q: use stop, start, pause or continue", line)
}

// stop kills: nothing here needs an orderly end, and that of etcd and
// kube-apiserver takes 17 s.
func (p *program) stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	close(p.told)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// kill ends every program.
func (c *cluster) kill() {
	for _, p := range c.programs {
		if err := p.stop(); err != nil {
			log.Printf("stop %s: %v", p.name, err)
		}
	}
}
