package importing

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
)

// read-only: commands that say little about what a line is for.
var asides = []string{
	"cd", "pushd", "test", "[", "[[", "export", "set", "sleep", "umask", "ulimit", ".", "source", "true", ":", "mkdir", "date", "exit", "wait",
}

// A wrapper is a command that runs another one, or a script.
type wrapper struct {
	valued   string // short options that have a word of their own behind them
	operands int    // words before what it runs, beside options
	line     bool   // what follows -c is a line for a shell
	code     string // short options whose word is a program, in a language that is none of a shell
}

// read-only: the wrappers that crontabs use.
var wrappers = map[string]wrapper{
	"sudo": {valued: "ugpCh"}, "nice": {valued: "n"}, "ionice": {valued: "cnp"}, "nohup": {}, "setsid": {}, "env": {valued: "uS"}, "exec": {valued: "a"},
	"command": {}, "time": {valued: "fo"}, "timeout": {valued: "sk", operands: 1}, "flock": {valued: "wE", operands: 1, line: true}, "chronic": {}, "cronic": {},
	"systemd-cat": {valued: "tp"}, "stdbuf": {valued: "ioe"}, "su": {valued: "sg", line: true}, "runuser": {valued: "ug", line: true},
	"bash": {valued: "O", line: true}, "sh": {line: true}, "dash": {line: true}, "zsh": {line: true}, "ksh": {line: true},
	"python": {code: "c"}, "python2": {code: "c"}, "python3": {code: "c"}, "perl": {valued: "I", code: "eE"}, "php": {valued: "dc", code: "r"},
	"ruby": {valued: "I", code: "e"}, "node": {valued: "r", code: "e"}, "java": {}, "Rscript": {code: "e"},
}

// read-only: endings of programs that say nothing more.
var suffixes = []string{".sh", ".bash", ".py", ".php", ".pl", ".rb", ".jar"}

// called says what a command line is called: the program that it is about, and what tells it from another line with
// the same program.
func called(line string) (program, detail string) {
	for _, aside := range []bool{false, true} {
		for _, s := range simples(line) {
			if program, detail = s.called(aside); program != "" {
				return program, detail
			}
		}
	}
	return "line", ""
}

// called is empty for what is an aside, unless asked for.
func (s simple) called(aside bool) (program, detail string) {
	words := s.words
	for len(words) > 0 {
		if !aside && slices.Contains(asides, words[0]) {
			return "", ""
		}
		w, wraps := wrappers[path.Base(words[0])]
		if !wraps {
			break
		}
		rest, line, code := w.unwrap(words[1:])
		if code && !aside {
			return "", ""
		}
		if line != "" {
			if program, detail = called(line); program != "line" {
				return program, detail
			}
		}
		if len(rest) == 0 {
			break
		}
		words = rest
	}
	if len(words) == 0 {
		return "", ""
	}
	return plainName(words[0]), detailOf(words)
}

// detailOf is the last argument of a command, else its last option, else the folder of the program.
func detailOf(words []string) string {
	option := ""
	for _, w := range slices.Backward(words[1:]) {
		name := clipName(plainName(w), 24)
		switch {
		case name == "":
		case !strings.HasPrefix(w, "-"):
			return name
		case option == "":
			option = name
		}
	}
	if option != "" {
		return option
	}
	if dir := plainName(path.Dir(words[0])); dir != "bin" && dir != "sbin" {
		return dir
	}
	return ""
}

// unwrap leaves out the options and the first operands of a wrapper. line is a command line that is a word of it; code tells
// that a program is.
func (w wrapper) unwrap(words []string) (rest []string, line string, code bool) {
	operands := w.operands
	for len(words) > 0 {
		word := words[0]
		short := ""
		if len(word) > 1 && word[0] == '-' && word[1] != '-' {
			short = word[len(word)-1:]
		}
		switch {
		case short != "" && strings.Contains(w.code, short):
			return nil, "", true
		case w.line && short == "c" && len(words) > 1:
			return nil, words[1], false
		case len(word) == 2 && short != "" && strings.Contains(w.valued, short) && len(words) > 1:
			words = words[1:]
		case strings.HasPrefix(word, "-") || isAssignment(word): // the name follows, also that of -m and -jar
		case operands > 0:
			operands--
		default:
			return words, "", false
		}
		words = words[1:]
	}
	return nil, "", false
}

// plainName makes a name of the last part of a path; empty if nothing of it may stand in one.
func plainName(s string) string {
	s = path.Base(strings.TrimRight(s, "/"))
	for _, suffix := range suffixes {
		s = strings.TrimSuffix(s, suffix)
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.' || r == '_':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return clipName(strings.TrimLeft(b.String(), "._-"), 40)
}

func clipName(s string, most int) string { return strings.TrimRight(s[:min(len(s), most)], "._-") }

// nameAll gives each line a name that no other has: that of its program, with what tells it from others, and with a
// number if that is not enough. taken are names that are there already.
func nameAll(commands []string, taken map[string]bool) []string {
	programs, details := make([]string, len(commands)), make([]string, len(commands))
	count := map[string]int{}
	for i, c := range commands {
		programs[i], details[i] = called(c)
		count[programs[i]]++
	}
	names := make([]string, len(commands))
	for i, p := range programs {
		if count[p] > 1 && details[i] != "" {
			p += "-" + details[i]
		}
		names[i] = unique(p, taken)
	}
	return names
}

// unique adds a number to a name that is taken, and takes it.
func unique(name string, taken map[string]bool) string {
	made := name
	for n := 2; taken[made] || !core.IsGivenName(made); n++ { // a name that is an id is none
		made = fmt.Sprintf("%s-%d", name, n)
	}
	taken[made] = true
	return made
}
