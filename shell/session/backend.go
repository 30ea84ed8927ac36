package session

import "context"

// backend is where sessions live. Calls for one session do not overlap, but
// look and screens may come at any time.
type backend interface {
	kind() string
	// look gives all of our sessions by name.
	look(ctx context.Context) (map[string]*pane, error)
	// screens gives what sessions show, by name; those that are gone are missing.
	// Text, cursor, size, title and history of one are of the same moment; its
	// Info is that of the pane which was given. With coloured the text has the escape sequences of its
	// colours, if the backend knows them.
	screens(ctx context.Context, panes []*pane, coloured bool) (map[string]*pane, error)
	// start starts a session whose name is free.
	start(ctx context.Context, l launch) error
	// write types text, or presses return, and remembers the notes with it.
	write(ctx context.Context, p *pane, k keys, n notes) error
	// forget removes a session whose processes have ended.
	forget(ctx context.Context, p *pane) error
	// attach gives the command to join a session.
	attach(name string) []string
	// close gives the sessions that must end with the daemon, and takes no more.
	close() []*pane
}

// pane is a session as the backend sees it at one moment.
type pane struct {
	Info
	id               string // the backend's own name
	rows, columns    int
	cursorX, cursorY int
	history          int // lines that were pushed out of the screen
	title            string
	text             string // what it shows, where screens gave it
	server           int    // the process that is not ours to end: tmux's server
	notes            notes
}

// notes are what a session remembers, so that an effect that is carried out
// again is not felt twice.
type notes struct {
	spawn   string   // whose Spawn started it
	pending bool     // that Spawn's input is not typed yet
	typed   []string // keys of what was typed last, the last at the end
}

// keys is what is typed at once: text or return.
type keys struct {
	text  string
	enter bool
}

// launch is what starts a session.
type launch struct {
	name    string
	dir     string
	argv    []string
	program string // the file that argv[0] means
	env     map[string]string
	notes   notes
}
