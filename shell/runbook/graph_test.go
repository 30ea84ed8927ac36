package runbook_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/runbook"
)

func TestPicturesOfGoodFilesStayAsTheyAre(t *testing.T) {
	for _, file := range goodFiles(t) {
		book, err := runbook.Load(file)
		require.NoError(t, err)
		base := strings.TrimSuffix(file, ".toml")
		for _, pipeline := range append([]string{""}, pipelineNames(book)...) {
			t.Run(filepath.Base(base)+" "+pipeline, func(t *testing.T) {
				name := base
				if pipeline != "" {
					name += "." + pipeline
				}
				mermaid, err := book.Mermaid(pipeline)
				require.NoError(t, err)
				golden(t, name+".mmd", []byte(mermaid))
				dot, err := book.DOT(pipeline)
				require.NoError(t, err)
				golden(t, name+".dot", []byte(dot))
				assertWellFormed(t, mermaid, dot)
				assertGraphviz(t, dot)
			})
		}
	}
}

func pipelineNames(book *runbook.Runbook) (names []string) {
	for _, p := range book.Pipelines {
		names = append(names, p.Name)
	}
	return names
}

// assertGraphviz lets Graphviz read the text, where there is one.
func assertGraphviz(t *testing.T, dot string) {
	t.Helper()
	program, err := exec.LookPath("dot")
	if err != nil {
		t.Log("no dot (graphviz) here: its grammar is checked by the shape of the lines alone")
		return
	}
	cmd := exec.CommandContext(t.Context(), program, "-Tcanon")
	cmd.Stdin = strings.NewReader(dot)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Every line of a picture is one of these: whatever a name holds, it cannot
// leave its quotes.
var (
	mermaidLine = regexp.MustCompile(`^(flowchart TD|  end|  subgraph g\d+\[LABEL\]| +n(\d+)(\(\[LABEL\]\)|\[LABEL\]|\[\[LABEL\]\]|\{\{LABEL\}\}|\{LABEL\}|\(LABEL\)|\[\(LABEL\)\]|\[/LABEL\\\]|>LABEL\])|  n(\d+) (?:-->|-\.->|==>)(?:\|LABEL\|)? n(\d+))$`)
	dotLabel    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	dotLine     = regexp.MustCompile(`^(digraph LABEL \{|  compound=true;|  (node|edge) \[fontname=LABEL\];|  subgraph cluster_\d+ \{|    label=LABEL;|  \}|\}| +n\d+ \[label=LABEL, [a-z0-9=, ]+\];|  n\d+ -> n\d+( \[(label=LABEL)?(, )?(style=[a-z]+)?\])?;)$`)
	quoted      = regexp.MustCompile(`"[^"]*"`)
)

func assertWellFormed(t require.TestingT, mermaid, dot string) {
	nodes := map[string]bool{}
	for l := range strings.Lines(mermaid) {
		l = strings.TrimSuffix(l, "\n")
		for _, label := range quoted.FindAllString(l, -1) {
			inner := strings.ReplaceAll(strings.Trim(label, `"`), "<br/>", "")
			inner = regexp.MustCompile(`#\d+;`).ReplaceAllString(inner, "")
			require.NotRegexp(t, "[][<>{}()|%`;&#\\\\]", inner, "%s", l)
		}
		m := mermaidLine.FindStringSubmatch(quoted.ReplaceAllString(l, "LABEL"))
		require.NotNil(t, m, "%q", l)
		if m[2] != "" {
			nodes[m[2]] = true
		}
		if m[4] != "" {
			require.True(t, nodes[m[4]] && nodes[m[5]], "%s: both ends are drawn", l)
		}
	}
	for l := range strings.Lines(dot) {
		l = strings.TrimSuffix(l, "\n")
		require.Regexp(t, dotLine, dotLabel.ReplaceAllString(l, "LABEL"))
	}
}

func TestNamesCannotBreakOutOfAPicture(t *testing.T) {
	for _, name := range []string{
		`"]; click n0 "javascript:alert(1)"`, `a"b`, `a\`, `\"`, "`x`", `<script>alert(1)</script>`, `%%{init: {}}%%`, "a --> b", `#quot;`,
		"end", "a\u2028b\u202e", `}}]])|`, "&quot;", strings.Repeat("x", 200),
	} {
		book, err := runbook.Parse("b.toml", []byte(hostileBook(name)))
		require.NoError(t, err, name)
		mermaid, err := book.Mermaid("")
		require.NoError(t, err)
		dot, err := book.DOT("")
		require.NoError(t, err)
		assertWellFormed(t, mermaid, dot)
		assertGraphviz(t, dot)
	}
}

// hostileBook has a name wherever one is drawn.
func hostileBook(name string) string {
	q := tomlString(name)
	return fmt.Sprintf(`
[queues.%[1]s]
[workers.%[1]s]
queue = %[1]s
pipeline = %[1]s
[[pipelines.%[1]s.phases]]
name = "a"
push = %[1]s
[[pipelines.%[1]s.phases]]
name = "b"
strategy = [{ name = %[1]s, command = [%[1]s], fallback_on = [{ error = %[2]s }] }, { name = "last", command = ["x"] }]
when = { ref = "a", equals = %[1]s }
[[pipelines.%[1]s.phases]]
name = "c"
approval = %[1]s
[[subscribers]]
name = %[1]s
match = "x:y"
wake = %[1]s
`, q, tomlString(regexp.QuoteMeta(name)))
}

// tomlString quotes as TOML does.
func tomlString(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '"' || r == '\\' || r < 0x20 || r == 0x7f {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

func TestNoNameBreaksOutOfAPicture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringN(1, 20, 60), rapid.StringOfN(rapid.SampledFrom([]rune("\"\\<>[]{}()|#;%&`\n-= ${}éx")), 1, 20, 60)).Draw(t, "name")
		book, err := runbook.Parse("b.toml", []byte(hostileBook(name)))
		if err != nil {
			t.Skip("not a name that core takes: " + strconv.Quote(name))
		}
		mermaid, err := book.Mermaid("")
		require.NoError(t, err)
		dot, err := book.DOT("")
		require.NoError(t, err)
		assertWellFormed(t, mermaid, dot)
	})
}

func TestAPictureOfAPipelineThatIsNotThereIsAnError(t *testing.T) {
	book, err := runbook.Load("testdata/good/release.toml")
	require.NoError(t, err)
	_, err = book.Mermaid("biuld")
	require.EqualError(t, err, `runbook "release" has no pipeline "biuld": did you mean "build"?`)
	_, err = book.DOT("x")
	require.EqualError(t, err, `runbook "release" has no pipeline "x": known are build, nightly`)
}
