package importing

import (
	"slices"
	"strings"
)

// A simple is one simple command of a shell's line: its words, without quotes, assignments and redirections.
type simple struct {
	words []string
	both  bool   // it has a redirection &>
	end   string // the operator behind it: "", "&&", "||", "|", "&", ";", "(", ")"
}

// simples takes a command line apart, roughly: enough to say what it runs. Expansions stay as they are.
func simples(line string) []simple {
	var all []simple
	var cmd simple
	var word strings.Builder
	inWord, quoted, skip := false, false, false
	endWord := func() {
		w := word.String()
		switch {
		case !inWord:
			return
		case skip: // the file of a redirection
			skip = false
		case len(cmd.words) == 0 && !quoted && isAssignment(w):
		case !quoted && slices.Contains([]string{"{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for"}, w):
			if len(cmd.words) > 0 {
				cmd.words = append(cmd.words, w)
			}
		default:
			cmd.words = append(cmd.words, w)
		}
		word.Reset()
		inWord, quoted = false, false
	}
	endCommand := func(op string) {
		endWord()
		if cmd.end = op; len(cmd.words) > 0 || op == "&" || cmd.both {
			all = append(all, cmd)
		}
		cmd, skip = simple{}, false
	}
	r := []rune(line)
	at := func(i int) rune {
		if i < len(r) {
			return r[i]
		}
		return 0
	}
	for i := 0; i < len(r); i++ {
		switch c := r[i]; c {
		case '\\':
			if i++; i < len(r) {
				word.WriteRune(r[i])
				inWord, quoted = true, true
			}
		case '\'', '"':
			inWord, quoted = true, true
			for i++; i < len(r) && r[i] != c; i++ {
				if c == '"' && r[i] == '\\' && i+1 < len(r) {
					i++
				}
				word.WriteRune(r[i])
			}
		case '#':
			if inWord {
				word.WriteRune(c)
				continue
			}
			i = len(r)
		case ' ', '\t':
			endWord()
		case '>', '<':
			if strings.Trim(word.String(), "0123456789") == "" { // the number of a file
				word.Reset()
				inWord = false
			}
			endWord()
			for strings.ContainsRune("<>&|", at(i+1)) && i+1 < len(r) {
				i++
			}
			skip = true
		case '&':
			switch at(i + 1) {
			case '&':
				i++
				endCommand("&&")
			case '>': // &>file
				endWord()
				cmd.both = true
			default:
				endCommand("&")
			}
		case '|':
			if at(i+1) == '|' {
				i++
				endCommand("||")
				continue
			}
			endCommand("|")
		case ';', '(', ')', '\n':
			if c == '(' && strings.HasSuffix(word.String(), "$") { // $(…): its text is part of the word
				depth := 0
				for ; i < len(r); i++ {
					word.WriteRune(r[i])
					if r[i] == '(' {
						depth++
					} else if r[i] == ')' {
						if depth--; depth == 0 {
							break
						}
					}
				}
				continue
			}
			endCommand(string(c))
		case '`':
			word.WriteRune(c)
			for i++; i < len(r) && r[i] != c; i++ {
				word.WriteRune(r[i])
			}
			word.WriteRune(c)
			inWord = true
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	endCommand("")
	return all
}

// isAssignment reports whether a word sets a variable for the command that follows it.
func isAssignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// leavesBehind reports whether a command line puts something into the background, and whether it has a redirection "&>", which does so
// in shells that do not know it.
func leavesBehind(line string) (background, both bool) {
	for _, s := range simples(line) {
		background = background || s.end == "&"
		both = both || s.both
	}
	return background, both
}

// relative reports whether a command line names a path from the folder in which it begins.
func relative(line string) bool {
	for _, s := range simples(line) {
		if len(s.words) == 0 {
			continue
		}
		if p := s.words[0]; p == "cd" || p == "pushd" {
			if len(s.words) > 1 && strings.ContainsAny(s.words[1][:min(1, len(s.words[1]))], "/~$") {
				return false // from there on the folder is another one
			}
			return len(s.words) > 1
		}
		for _, w := range s.words {
			if strings.HasPrefix(w, "./") || strings.HasPrefix(w, "../") {
				return true
			}
		}
		if p := s.words[0]; strings.Contains(p, "/") && !strings.ContainsAny(p[:1], "/~$`") {
			return true
		}
	}
	return false
}
