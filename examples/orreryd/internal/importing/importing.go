// Package importing turns the schedules of other programs into files of Orrery: the lines of
// crontabs ([Crontab]) and the CronJobs of Kubernetes ([Kubernetes]). It is given texts and gives
// texts; it opens no file, and the same input gives the same output.
//
// What means something else here, or cannot be said, is in the notes of what was imported: never is it
// left out silently.
//
//   - importing.go: sources, files and notes;
//   - crontab.go: the lines of a crontab, as crontab(5) has them; times.go: the five fields of a line;
//     clocks.go: what a line does when the clocks change; command.go: the command of a line;
//     words.go: the words of a shell's command line; names.go: what lines are called;
//   - recurring.go: recurring actions as TOML;
//   - kubernetes.go: manifests; cronjob.go: a CronJob as a job; rest.go: what of one is left over.
package importing

import (
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/shell/jobfile"
)

// A Source is a text that is imported.
type Source struct {
	Name string // of the file, for errors and notes
	// FileName is what the file that is made of it is called, without its ending. Empty: as the source.
	FileName string
	Text     []byte
	// System: a crontab has a user between the times and the command, as /etc/crontab and the
	// files of /etc/cron.d have.
	System bool
}

// A File is what was made.
type File struct {
	Name string // without a folder
	Text []byte
}

// A Note says what is not the same here.
type Note struct {
	Source string
	Line   int    // from 1; 0: all of the source
	About  string // the command, the field or the thing; may be empty
	Text   string
}

// String is source:line: about: text.
func (n Note) String() string {
	var b strings.Builder
	b.WriteString(n.Source)
	if n.Line > 0 {
		fmt.Fprintf(&b, ":%d", n.Line)
	}
	b.WriteString(": ")
	if n.About != "" {
		b.WriteString(n.About + ": ")
	}
	return b.String() + n.Text
}

// Result is what was made of sources.
type Result struct {
	Files []File
	Notes []Note
	Made  int // recurring actions or jobs
}

// Error is one thing that is wrong with a source, and where.
type Error = jobfile.Error

// Errors are all that is wrong with the sources, in order.
type Errors = jobfile.Errors

// MaxBytes bounds a source.
const MaxBytes = 4 << 20

// maxErrors bounds what is said of one source.
const maxErrors = 100

// check refuses a source that is larger than [MaxBytes].
func (s Source) check() error {
	if len(s.Text) > MaxBytes {
		return fmt.Errorf("%s: %d bytes are more than %d", s.Name, len(s.Text), MaxBytes)
	}
	return nil
}

// clip bounds how much of a source is quoted.
func clip(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
