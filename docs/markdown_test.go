package docs_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fence is a fenced code block of a Markdown document.
type fence struct {
	lang, text string
	line       int    // of the opening fence
	before     string // the last line above it that is not blank
}

// splitMarkdown gives the prose of a document, with code taken out and the line
// numbers kept, and its fenced blocks.
func splitMarkdown(doc string) (prose []string, fences []fence) {
	var open string
	var before string
	for i, line := range strings.Split(doc, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != "" && strings.HasPrefix(trimmed, open) && strings.Trim(trimmed, open[:1]) == "":
			open = ""
			line = ""
		case open != "":
			fences[len(fences)-1].text += line + "\n"
			line = ""
		case strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~"):
			info := strings.TrimLeft(trimmed, trimmed[:1])
			open = trimmed[:len(trimmed)-len(info)]
			fences = append(fences, fence{lang: strings.TrimSpace(info), line: i + 1, before: before})
			line = ""
		case trimmed != "":
			before = trimmed
		}
		prose = append(prose, line)
	}
	return prose, fences
}

var (
	inlineLink    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	referenceLink = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s*(\S+)`)
	htmlLink      = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	hasScheme     = regexp.MustCompile(`^([a-z][a-z0-9+.-]*:|//)`)
)

// linksOf gives the link targets on a line of prose.
func linksOf(line string) []string {
	line = codeSpan.ReplaceAllString(line, "")
	var targets []string
	for _, re := range []*regexp.Regexp{inlineLink, referenceLink, htmlLink} {
		for _, m := range re.FindAllStringSubmatch(line, -1) {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// anchors gives the fragments that a document's headings can be reached by, as
// GitHub makes them.
func anchors(doc string) []string {
	var found []string
	prose, _ := splitMarkdown(doc)
	for _, line := range prose {
		text := strings.TrimLeft(line, "#")
		if depth := len(line) - len(text); depth == 0 || depth > 6 || !strings.HasPrefix(text, " ") {
			continue
		}
		text = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(text))
		unique := slug
		for n := 1; slices.Contains(found, unique); n++ {
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
		found = append(found, unique)
	}
	return found
}

// brokenLinks gives the relative links of a document at the slash path file
// that lead nowhere. read gives a file of the repository, or a folder's empty
// text.
func brokenLinks(file, doc string, read func(path string) (string, error)) []string {
	var broken []string
	prose, _ := splitMarkdown(doc)
	for i, line := range prose {
		for _, link := range linksOf(line) {
			if hasScheme.MatchString(link) {
				continue
			}
			target, fragment, _ := strings.Cut(link, "#")
			to, text := file, doc
			if target != "" {
				to = path.Join(path.Dir(file), target)
				var err error
				if text, err = read(to); err != nil {
					broken = append(broken, fmt.Sprintf("%s:%d: %s: %v", file, i+1, link, err))
					continue
				}
			}
			if fragment != "" && strings.HasSuffix(to, ".md") && !slices.Contains(anchors(text), fragment) {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: no such heading", file, i+1, link))
			}
		}
	}
	return broken
}

// readInside reads a file of the repository and refuses what stands outside.
func readInside(p string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(p)) {
		return "", fmt.Errorf("leads out of the repository")
	}
	name := filepath.Join(root, filepath.FromSlash(p))
	info, err := os.Stat(name)
	if err != nil || info.IsDir() {
		return "", err
	}
	b, err := os.ReadFile(name)
	return string(b), err
}

func markdownFiles(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(projectFiles(t), func(f string) bool { return !strings.HasSuffix(f, ".md") })
}

func TestEveryRelativeLinkLeadsSomewhere(t *testing.T) {
	for _, f := range markdownFiles(t) {
		for _, broken := range brokenLinks(f, readFile(t, f), readInside) {
			t.Error(broken)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	doc := "# Über `Apply`, a [link](b.md)\n## Twice\n## Twice\n" +
		"[ok](b.md) ![ok](../x.png \"title\") [ok](#twice-1) [ok](b.md#one) [ok](#über-apply-a-link) [out](https://e.org/x)\n" +
		"[bad](gone.md) [bad](#nowhere) [bad](b.md#two) <a href=\"gone.html\">\n" +
		"`[code](gone.md)`\n```md\n[code](gone.md)\n# not a heading\n```\n" +
		"[ref]: gone.txt\n[bad](../../etc/passwd) [bad](#not-a-heading)\n"
	files := map[string]string{"docs/b.md": "# One", "x.png": ""}
	got := brokenLinks("docs/a.md", doc, func(p string) (string, error) {
		if text, ok := files[p]; ok {
			return text, nil
		}
		return "", fmt.Errorf("not there")
	})
	assert.Equal(t, []string{
		"docs/a.md:5: gone.md: not there",
		"docs/a.md:5: #nowhere: no such heading",
		"docs/a.md:5: b.md#two: no such heading",
		"docs/a.md:5: gone.html: not there",
		"docs/a.md:11: gone.txt: not there",
		"docs/a.md:12: ../../etc/passwd: not there",
		"docs/a.md:12: #not-a-heading: no such heading",
	}, got)
	_, err := readInside("../go.mod")
	assert.ErrorContains(t, err, "out of the repository")
}

// packagePath finds the package arguments of the go command.
var packagePath = regexp.MustCompile(`(?:^|\s)(?:github\.com/orrery-go/orrery|\.)(/[^\s@;|&)"']*)`)

// missingPackages gives the package paths in shell commands that do not exist.
func missingPackages(commands string, exists func(dir string) bool) []string {
	var missing []string
	for line := range strings.Lines(commands) {
		if !regexp.MustCompile(`\bgo (run|build|test|install|get|vet|list)\b`).MatchString(line) {
			continue
		}
		for _, m := range packagePath.FindAllStringSubmatch(line, -1) {
			dir := strings.Trim(strings.TrimSuffix(m[1], "..."), "/")
			if dir != "" && !exists(dir) {
				missing = append(missing, dir)
			}
		}
	}
	return missing
}

func TestTheCommandsThatTheDocumentsShowNamePackagesThatExist(t *testing.T) {
	exists := func(dir string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir)))
		return err == nil
	}
	for _, f := range markdownFiles(t) {
		_, fences := splitMarkdown(readFile(t, f))
		for _, block := range fences {
			if slices.Contains([]string{"", "sh", "bash", "shell", "console"}, block.lang) {
				assert.Empty(t, missingPackages(block.text, exists), "%s:%d", f, block.line)
			}
		}
	}
	commands := "go run ./gone/x --db ./a.db\ngo install github.com/orrery-go/orrery/there/y@latest; go test ./... ./old/...\n./not/go\n"
	assert.Equal(t, []string{"gone/x", "a.db", "old"}, missingPackages(commands, func(dir string) bool { return dir == "there/y" }))
}

// marks stand in the README above the blocks with the two commands of F6: one
// shows the daemon at work, one passes the tests. The gate runs those very
// blocks, so the README is a promise.
var marks = []string{"<!-- ci:demo -->", "<!-- ci:test -->"}

func TestTheReadmeMarksTheTwoCommandsThatTheGateRuns(t *testing.T) {
	_, fences := splitMarkdown(readFile(t, "README.md"))
	for _, mark := range marks {
		var marked []fence
		for _, f := range fences {
			if f.before == mark {
				marked = append(marked, f)
			}
		}
		require.Len(t, marked, 1, "README.md needs one fenced block below a line %s", mark)
		lines := strings.Split(strings.TrimSpace(marked[0].text), "\n")
		assert.Len(t, lines, 1, "F6: one command below %s", mark)
		assert.Contains(t, lines[0], "go ", "F6: a machine with Go needs nothing else below %s", mark)
	}
}

func TestTheReadmeShowsTheSmallExampleAsItIs(t *testing.T) {
	assert.Contains(t, readFile(t, "README.md"), "```go\n"+readFile(t, "examples/embed/main.go")+"```\n")
}
