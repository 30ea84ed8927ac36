package text

import (
	"slices"
	"strings"
)

// ShellWord writes a text as one word of a POSIX shell's command line: as it is if a shell takes it so, else in
// single quotes.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// CommandLine writes a command about what the names say, as a shell reads it. A name that looks like a flag is none:
// whoever may name a thing must not choose the server that a pasted command talks to.
func CommandLine(command string, names []string, flags ...string) string {
	words := slices.Concat(names, flags)
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }) {
		words = slices.Concat(flags, []string{"--"}, names)
	}
	for _, w := range words {
		command += " " + ShellWord(w)
	}
	return command
}
