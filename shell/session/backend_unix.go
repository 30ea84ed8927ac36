//go:build unix

package session

import "fmt"

func newBackend(o Options, instance string, env map[string]string) (backend, error) {
	switch o.Backend {
	case Tmux:
		return newTmux(o, instance, env)
	case PTY:
		return newPTY(o), nil
	case "":
		if t, err := newTmux(o, instance, env); err == nil {
			return t, nil
		}
		return newPTY(o), nil
	default:
		return nil, fmt.Errorf("Backend: %q is not known: want %q, %q or nothing", o.Backend, Tmux, PTY)
	}
}
