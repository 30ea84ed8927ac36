// Command orreryd is Orrery as a daemon with a command line: it fires
// scheduled, recurring and webhook actions from one database file, and talks to
// a running daemon over HTTP (001, 002).
//
//	orreryd orchestrate --demo        the daemon, with a schedule to look at
//	orreryd recurring list            what is planned
//	orreryd actions add -- echo hi    one action, now
//
// Exit codes: 0 done; 1 failed, or a divergence was found; 2 the command line or
// the configuration is wrong; 3 no daemon answers; 4 not found; 128 + n ended at
// once by a second signal n.
package main

import (
	"os"
	_ "time/tzdata" // for the time zones of expressions (CEL), where the machine has none, as in an image from scratch

	"github.com/orrery-go/orrery/examples/orreryd/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
