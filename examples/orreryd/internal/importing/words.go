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
	l := &lexer{in: []rune(line)}
	for l.i < len(l.in) {
		l.next()
	}
	l.endCommand("")
	return l.all
}

// A lexer reads a command line.
type lexer struct {
	in     []rune
	i      int // the next to read
	all    []simple
	cmd    simple
	word   strings.Builder
	inWord bool // also an empty word is one, if it is quoted
	quoted bool // a part of the word is: it is no word of the shell itself
	target bool // the next word is the file of a redirection
}

// read-only: words of the shell itself, before which a command begins.
var shellWords = []string{"{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for"}

// take gives the next character, and goes on; 0 at the end.
func (l *lexer) take() rune {
	c := l.peek()
	l.i++
	return c
}

// peek gives the next character.
func (l *lexer) peek() rune {
	if l.i < len(l.in) {
		return l.in[l.i]
	}
	return 0
}

func (l *lexer) add(c rune) {
	l.word.WriteRune(c)
	l.inWord = true
}

// next reads a character, and what belongs to it.
func (l *lexer) next() {
	switch c := l.take(); c {
	case '\\':
		if l.i < len(l.in) {
			l.add(l.take())
			l.quoted = true
		}
	case '\'', '"':
		l.quotation(c)
	case '`':
		l.add(c)
		for l.i < len(l.in) && l.peek() != c {
			l.add(l.take())
		}
		if l.i < len(l.in) { // else nothing closes it
			l.add(l.take())
		}
	case '#':
		if l.inWord {
			l.add(c)
		} else {
			l.i = len(l.in) // a comment
		}
	case ' ', '\t':
		l.endWord()
	case '>', '<':
		l.redirection()
	case '&', '|':
		l.operator(c)
	case '(':
		if strings.HasSuffix(l.word.String(), "$") {
			l.substitution()
		} else {
			l.endCommand("(")
		}
	case ';', ')', '\n':
		l.endCommand(string(c))
	default:
		l.add(c)
	}
}

// quotation reads what stands in quotes, the first of which was read.
func (l *lexer) quotation(quote rune) {
	l.inWord, l.quoted = true, true
	for l.i < len(l.in) {
		c := l.take()
		if c == quote {
			return
		}
		if quote == '"' && c == '\\' && l.i < len(l.in) {
			c = l.take()
		}
		l.add(c)
	}
}

// substitution reads $(…), up to its end, as a part of the word.
func (l *lexer) substitution() {
	l.add('(')
	for depth := 1; depth > 0 && l.i < len(l.in); {
		c := l.take()
		l.add(c)
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
	}
}

// redirection reads an operator such as >>, <&, >|; a number right before it is that of a file.
func (l *lexer) redirection() {
	if strings.Trim(l.word.String(), "0123456789") == "" {
		l.word.Reset()
		l.inWord = false
	}
	l.endWord()
	for l.i < len(l.in) && strings.ContainsRune("<>&|", l.peek()) {
		l.i++
	}
	l.target = true
}

// operator reads &, &&, &>, | or ||.
func (l *lexer) operator(c rune) {
	switch {
	case l.peek() == c:
		l.i++
		l.endCommand(string(c) + string(c))
	case c == '&' && l.peek() == '>': // a redirection of both
		l.endWord()
		l.cmd.both = true
	default:
		l.endCommand(string(c))
	}
}

func (l *lexer) endWord() {
	w := l.word.String()
	switch {
	case !l.inWord:
		return
	case l.target:
		l.target = false
	case len(l.cmd.words) == 0 && !l.quoted && (isAssignment(w) || slices.Contains(shellWords, w)):
	default:
		l.cmd.words = append(l.cmd.words, w)
	}
	l.word.Reset()
	l.inWord, l.quoted = false, false
}

func (l *lexer) endCommand(operator string) {
	l.endWord()
	if l.cmd.end = operator; len(l.cmd.words) > 0 || operator == "&" || l.cmd.both {
		l.all = append(l.all, l.cmd)
	}
	l.cmd, l.target = simple{}, false
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
