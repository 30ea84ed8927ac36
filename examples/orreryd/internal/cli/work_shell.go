package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// shellWord is a word of its own that a shell gives a meaning: a pipe, a list, a redirection, a pattern for all files.
var shellWord = regexp.MustCompile(`^(\|\|?|&&?|;|\*|[0-9]?(>>?|<<?)(&[0-9-])?.*|&>.*)$`)

// shellIn gives the words of a command by which somebody seems to want a shell, which no tool "command" runs: those that
// have a meaning for one, or the only word, if it is a whole line.
func shellIn(argv []string) (words []string) {
	switch filepath.Base(argv[0]) {
	case "ssh", "watch", "parallel": // they have a shell read their arguments
		return nil
	}
	if len(argv) == 1 && strings.ContainsAny(strings.TrimSpace(argv[0]), " \t\n") {
		return argv
	}
	executes := slices.ContainsFunc(argv, func(w string) bool { return strings.HasPrefix(w, "-exec") || strings.HasPrefix(w, "-ok") })
	for _, w := range argv[1:] {
		if shellWord.MatchString(w) && (w != ";" || !executes) { // which find ends a command with
			words = append(words, w)
		}
	}
	return words
}

// throughShell writes a command so that a shell runs it.
func throughShell(argv []string) string {
	line := argv[0]
	if len(argv) > 1 {
		words := make([]string, len(argv))
		for i, w := range argv {
			if words[i] = w; i == 0 || !shellWord.MatchString(w) {
				words[i] = text.ShellWord(w)
			}
		}
		line = strings.Join(words, " ")
	}
	return "-- /bin/sh -c " + text.ShellWord(line)
}

// warnOfShell says on stderr that a command has what only a shell understands.
func (a *app) warnOfShell(argv []string) {
	words := shellIn(argv)
	if len(words) == 0 {
		return
	}
	what := fmt.Sprintf("%q is passed to %s as it is", text.Clip(words[0], 60), text.Clip(argv[0], 60))
	if len(argv) == 1 {
		what = fmt.Sprintf("%q is taken for the name of a program", text.Clip(argv[0], 60))
	}
	text.Sayf(a.err, "orreryd: warning: no shell runs a command after --: %s. For a shell write: %s\n", what, text.Clean(throughShell(argv)))
}
