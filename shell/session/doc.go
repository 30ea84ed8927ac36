// Package session carries out the effects of terminal sessions (003 Effect
// Types: Spawn, Send, Kill, Nudge): programs that run on a terminal of their own
// for as long as they like, take input, and show a screen that can be looked at.
//
// There are two backends, with the same interface and the same tests:
//
//   - tmux: a tmux server of our own, reached through tmux's command line by a
//     socket that is derived from [Options.Instance], so that two daemons never
//     meet. No configuration file is read. The sessions live in that server, not
//     in this process: they go on when the daemon ends, however it ends, and are
//     found again by the next one on the same socket. Somebody may attach to one
//     with the command that [Sessions.AttachCommand] gives.
//   - pty: pseudo-terminals inside this process, where tmux is missing. The
//     sessions end with the daemon: [Sessions.Close] kills them, and after a
//     kill -9 their terminal hangs up. On Linux, what outlives that is ended by
//     the next Spawn or Kill of the session, or by [Sessions.Cleanup]. The
//     screen is what a simple terminal would show of the last 256 KiB of output.
//
// # Carrying out twice
//
// All effects may be repeated, as they are after a crash. A Spawn leaves a
// session that lives as it is, and replaces one that has ended, unless the same
// machine started it: what ran and ended while nobody looked does not run again.
// A machine that wants another run kills the session first, or takes another
// name. What is typed with a Spawn is typed once, also where a later Spawn of the
// same machine finds that it is still to be typed. Other text is typed once for
// each effect, told by its machine and number: with tmux that is remembered in the
// session, together with the typing, for the last 16 of them. Where it was cut off between text and
// return, the next text presses return first. A Kill of a session
// that is gone is no error.
//
// # What a program is told
//
// Of the daemon's environment a program gets what [Options.InheritEnv] names,
// since the rest may hold secrets; then what the effect gives, then
// ORRERY_SESSION, the session's name, and ORRERY_SESSIONS, a name for all of the
// daemon's sessions. Environment and arguments never stand on a command line of
// ours where other users could read them.
//
// # How a session ends
//
// Kill ends all that runs in the session, not its first program alone: SIGHUP
// and SIGTERM first, SIGKILL after [Options.KillGrace]. To that belong the
// processes of the terminal's session, their descendants wherever they went, and
// on Linux whatever carries the two variables above in the environment with
// which it was started. Not found are processes that gave up all three; a process
// of another user cannot be killed, and is named in the error. A program that
// ends by itself leaves its session behind, dead, with screen and exit code, to
// be looked at until it is killed or replaced; what it left running runs on
// until then.
//
// # As another user
//
// With [Options.RunAs] the program of a session, and all that it starts, runs as that user.
// The tmux server and the terminals stay the daemon's, which is root: a session cannot reach
// the server, and the daemon believes nothing that a session's user could have written. The
// user enters the workspace itself, so that no link leads it further than its own rights do. All sessions
// have the same user, and so reach one another.
//
// # Limits
//
// The workspace check guards against mistakes and is no jail: a program may go
// wherever its user may. Where a directory is replaced by a link between check
// and start, the start follows it. A terminal that is read line by line takes no
// line longer than about 4 KiB: that is the kernel's limit. tmux measures
// activity in whole seconds. tmux before 3.3 does not tell which signal ended a
// program. On the pty backend elsewhere than on Linux, an input that a program
// does not read holds its session up. A service manager that ends all processes
// of the daemon's control group ends the tmux server with them; systemd does not
// with KillMode=process. Elsewhere than on Linux and macOS nothing of this is
// tested; on Windows [New] says that it is not supported.
//
// # Files
//
//   - session.go: options, [Sessions], [New]; check.go: what an effect may ask for;
//   - carry.go: Spawn, Send, Kill and Nudge; observe.go, engine.go: what sessions do;
//   - backend.go: what a backend is; tmux.go, pty.go with screen.go: the two of them;
//   - asuser*.go: the user of a session;
//   - process*.go: the processes of a session, and how they are ended.
//
// # Duties of the caller
//
// With RunAs, the program that imports this package is started once more for each session: what its
// packages do as they are initialized is done there too, as root.
package session
