package docs_test

import (
	"go/ast"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheConfigurationPageHasEveryEnvironmentVariable(t *testing.T) {
	name := regexp.MustCompile(`^"((?:ORRERY|NOTIFY)_[A-Z_]+)"$`)
	used := map[string]bool{}
	for _, f := range daemonSource(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && name.MatchString(lit.Value) {
				used[name.FindStringSubmatch(lit.Value)[1]] = true
			}
			return true
		})
	}
	var rows []string
	for _, tb := range tablesOf(readFile(t, configPage), "variable") {
		for _, row := range tb.rows {
			rows = append(rows, spans(row[0])...)
		}
	}
	assert.ElementsMatch(t, slices.Sorted(maps.Keys(used)), rows)
}

func TestTheConfigurationPageHasEveryExitCode(t *testing.T) {
	var codes []string
	for _, f := range daemonSource(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "exit") && len(spec.Values) == 1 {
				codes = append(codes, types.ExprString(spec.Values[0]))
			}
			return true
		})
	}
	require.NotEmpty(t, codes)
	rows := []string{}
	for _, tb := range tablesOf(readFile(t, configPage), "code") {
		for _, row := range tb.rows {
			rows = append(rows, strings.TrimSuffix(row[0], " + n"))
		}
	}
	assert.ElementsMatch(t, append(codes, "0"), rows)

	for _, tt := range []struct {
		code int
		args []string
	}{
		{0, []string{"version"}},
		{1, []string{"backup", "--to", "."}},
		{2, []string{"orchestrate", "--tick-rate", "soon"}},
		{3, []string{"actions", "list", "--server", "http://127.0.0.1:1"}},
		{4, []string{"check", "--db", "none.db"}},
	} {
		out, code := orreryd(t, t.TempDir(), nil, tt.args...)
		assert.Equal(t, tt.code, code, "%v: %s", tt.args, out)
	}
}

// helpText is what a command says of itself.
type helpText struct{ subcommands, flags []string }

func parseHelp(text string) helpText {
	var h helpText
	section := ""
	_, text, _ = strings.Cut(text, "\nUsage:\n")
	command := regexp.MustCompile(`^  ([a-z]\S*)\s+\S`)
	flag := regexp.MustCompile(`^ +(?:-\w, )?(--[\w-]+)`)
	for line := range strings.Lines("Usage:\n" + text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "):
			section = line
		case section == "Usage:" || section == "Aliases:" || section == "Examples:" || section == "Global Flags:":
		case section == "Flags:":
			if m := flag.FindStringSubmatch(line); m != nil && m[1] != "--help" {
				h.flags = append(h.flags, m[1])
			}
		default:
			if m := command.FindStringSubmatch(line); m != nil && m[1] != "help" {
				h.subcommands = append(h.subcommands, m[1])
			}
		}
	}
	return h
}

func TestTheConfigurationPageHasEveryCommandAndFlag(t *testing.T) {
	doc := readFile(t, configPage)
	commands := map[string][]string{}
	for _, tb := range tablesOf(doc, "command") {
		for _, row := range tb.rows {
			require.Len(t, spans(row[0]), 1, "%v", row)
			commands[spans(row[0])[0]] = spans(row[len(row)-1])
		}
	}
	var documented []string
	for _, tb := range tablesOf(doc, "flag") {
		for _, row := range tb.rows {
			require.Len(t, spans(row[0]), 1, "%v", row)
			documented = append(documented, strings.Fields(spans(row[0])[0])[0])
		}
	}
	found, flags := map[string]bool{}, map[string]bool{}
	var walk func(path ...string)
	walk = func(path ...string) {
		out, code := orreryd(t, root, nil, append(path, "--help")...)
		require.Zero(t, code, out)
		h := parseHelp(out)
		name := strings.Join(path, " ")
		if name != "" {
			found[name] = true
			assert.ElementsMatch(t, h.flags, commands[name], "the flags of %s", name)
		}
		for _, f := range h.flags {
			flags[f] = true
		}
		if name == "completion" { // one for each shell
			return
		}
		for _, sub := range h.subcommands {
			walk(append(slices.Clone(path), sub)...)
		}
	}
	walk()
	assert.Equal(t, slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(commands)))
	slices.Sort(documented)
	assert.Equal(t, slices.Sorted(maps.Keys(flags)), documented)
}

func TestTheUnitOnTheConfigurationPageIsTheOneThatIsGivenAway(t *testing.T) {
	_, fences := splitMarkdown(readFile(t, configPage))
	i := slices.IndexFunc(fences, func(f fence) bool { return f.lang == "ini" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, readFile(t, "examples/orreryd/orreryd.service"), fences[i].text)
}
