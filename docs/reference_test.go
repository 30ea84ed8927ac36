package docs_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const configPage = "docs/configuration.md"

// buildDir holds what the tests of this package build; TestMain removes it.
var buildDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if buildDir != "" {
		if err := os.RemoveAll(buildDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// buildDaemon builds as go test does for this package, and so compiles little anew.
var buildDaemon = sync.OnceValues(func() (string, error) {
	var err error
	if buildDir, err = os.MkdirTemp("", "orrery-docs-"); err != nil {
		return "", err
	}
	bin := filepath.Join(buildDir, "orreryd")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	return bin, build(bin)
})

// build builds the daemon's program with more in the environment.
func build(bin string, env ...string) error {
	// Without a stamp of the clone the version is the same everywhere.
	cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", bin, "./examples/orreryd")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the daemon: %w: %s", err, out)
	}
	return nil
}

// daemonBinary gives the built daemon.
func daemonBinary(t *testing.T) string {
	t.Helper()
	_ = projectFiles(t) // so that go test's cache notices a change of what is built
	bin, err := buildDaemon()
	require.NoError(t, err)
	return bin
}

// plainEnv is the environment without what would change the daemon's settings.
func plainEnv(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ORRERY_") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})
	return append(env, more...)
}

// orreryd runs the daemon's program to its end.
func orreryd(t *testing.T, dir string, env []string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), daemonBinary(t), args...)
	cmd.Dir = dir
	cmd.Env = plainEnv(env...)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// table is a table of a Markdown document.
type table struct {
	heading string // under which it stands
	header  []string
	rows    [][]string
}

// tablesOf gives the tables whose first column is called first.
func tablesOf(doc, first string) []table {
	var all []table
	heading, inTable := "", false
	prose, _ := splitMarkdown(doc)
	for _, line := range prose {
		if text := strings.TrimLeft(line, "#"); text != line && strings.HasPrefix(text, " ") {
			heading = strings.TrimSpace(text)
		}
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !inTable:
			all = append(all, table{heading: heading, header: cells})
			inTable = true
		case strings.Trim(cells[0], "-:") != "":
			all[len(all)-1].rows = append(all[len(all)-1].rows, cells)
		}
	}
	return slices.DeleteFunc(all, func(tb table) bool { return tb.header[0] != first })
}

// spans gives the code spans of a cell.
func spans(cell string) []string {
	var out []string
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// daemonSource parses the daemon's program without its tests.
func daemonSource(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "examples", "orreryd", "internal", "*", "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	require.NotEmpty(t, files)
	return files
}

// tomlKeys gives the keys of the configuration with their Go types, from the
// tags of the struct of that name and of those that it holds. NAME stands for a
// name that the user chooses, [] for an element of a list.
func tomlKeys(files []*ast.File, top string) (map[string]string, error) {
	structs := map[string]*ast.StructType{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if st, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = st
				}
			}
			return true
		})
	}
	tag := regexp.MustCompile("toml:\"([^\",]+)")
	keys := map[string]string{}
	var walk func(name, prefix string) error
	walk = func(name, prefix string) error {
		if structs[name] == nil {
			return fmt.Errorf("no struct %s", name)
		}
		for _, field := range structs[name].Fields.List {
			if len(field.Names) == 1 && !field.Names[0].IsExported() { // no file can set it
				continue
			}
			typ := strings.TrimPrefix(types.ExprString(field.Type), "*")
			if field.Tag == nil || tag.FindStringSubmatch(field.Tag.Value) == nil {
				return fmt.Errorf("%s has a field of type %s without a toml tag: it would be a key by its Go name", name, typ)
			}
			key := prefix + tag.FindStringSubmatch(field.Tag.Value)[1]
			element, sep := typ, "."
			if v, ok := strings.CutPrefix(typ, "map[string]"); ok {
				element, sep = v, ".NAME."
			} else if v, ok := strings.CutPrefix(typ, "[]"); ok {
				element, sep = v, "[]."
			}
			if structs[element] == nil {
				keys[key] = typ
			} else if err := walk(element, key+sep); err != nil {
				return err
			}
		}
		return nil
	}
	return keys, walk(top, "")
}

// typeWords says what the page calls a Go type.
var typeWords = map[string]string{
	"string": "text", "float64": "number", "int": "whole number", "int64": "whole number", "uint32": "whole number",
	"bool": "true or false", "[]string": "list of text", "map[string]any": "table", "map[string]string": "table of text", "any": "time",
}

// documentedKeys gives the rows of the page by key. The heading of a table says
// where its keys stand: [engine], [tools.NAME], [[tokens]].
func documentedKeys(t *testing.T, doc string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, tb := range tablesOf(doc, "key") {
		require.Equal(t, []string{"key", "type", "default", "meaning"}, tb.header, tb.heading)
		prefix := ""
		for _, s := range spans(tb.heading) {
			if name, ok := strings.CutPrefix(s, "[["); ok {
				prefix = strings.TrimSuffix(name, "]]") + "[]."
			} else if name, ok := strings.CutPrefix(s, "["); ok {
				prefix = strings.TrimSuffix(name, "]") + "."
			}
		}
		for _, row := range tb.rows {
			require.Len(t, row, 4, "%s: %v", tb.heading, row)
			require.Len(t, spans(row[0]), 1, "%s: %v", tb.heading, row)
			key := prefix + spans(row[0])[0]
			require.NotContains(t, rows, key, "has two rows")
			rows[key] = row
		}
	}
	return rows
}

func TestTheConfigurationPageHasEveryKeyWithItsTypeAndDefault(t *testing.T) {
	keys, err := tomlKeys(daemonSource(t), "Config")
	require.NoError(t, err)
	rows := documentedKeys(t, readFile(t, configPage))
	assert.Equal(t, slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(rows)))
	for key, row := range rows {
		require.Contains(t, typeWords, keys[key], key)
		assert.Equal(t, typeWords[keys[key]], row[1], "the type of %s", key)
		assert.NotEmpty(t, row[3], "the meaning of %s", key)
	}

	shown, code := orreryd(t, t.TempDir(), nil, "config", "show")
	require.Zero(t, code, shown)
	var defaults map[string]any
	require.NoError(t, toml.Unmarshal([]byte(shown), &defaults))
	for key, want := range flatten(defaults, keys) {
		if strings.Contains(key, "NAME") || rows[key] == nil {
			continue // what a tool does with a key that is not given is its own affair
		}
		require.Len(t, spans(rows[key][2]), 1, "the default of %s", key)
		var got map[string]any
		require.NoError(t, toml.Unmarshal([]byte("v = "+spans(rows[key][2])[0]), &got), "the default of %s", key)
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(got["v"]), "the default of %s", key)
	}
}

// flatten gives the values of a decoded file by key, as [tomlKeys] names them.
func flatten(v any, keys map[string]string) map[string]any {
	flat := map[string]any{}
	var walk func(key string, v any)
	walk = func(key string, v any) {
		if _, known := keys[key]; known {
			flat[key] = v
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for name, below := range v {
				if key == "tools" || key == "webhooks" || key == "notify.channels" || key == "runners" || key == "secrets" || key == "jobs.secrets" {
					name = "NAME"
				}
				walk(strings.TrimPrefix(key+"."+name, "."), below)
			}
		case []any:
			for _, below := range v {
				walk(key+"[]", below)
			}
		default:
			flat[key] = v
		}
	}
	walk("", v)
	return flat
}

func TestKeysWithoutARowAreFound(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "c.go", `package c
type config struct {
	A string           `+"`toml:\"a\"`"+`
	B inner            `+"`toml:\"b,omitempty\"`"+`
	C map[string]inner `+"`toml:\"c\"`"+`
	D []inner          `+"`json:\"x\" toml:\"d\"`"+`
}
type inner struct { E *[]string `+"`toml:\"e\"`"+` }
type bad struct { F int }`, 0)
	require.NoError(t, err)
	keys, err := tomlKeys([]*ast.File{f}, "config")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "string", "b.e": "[]string", "c.NAME.e": "[]string", "d[].e": "[]string"}, keys)
	_, err = tomlKeys([]*ast.File{f}, "bad")
	require.ErrorContains(t, err, "without a toml tag")
	rows := documentedKeys(t, "## Top\n| key |type|default|meaning|\n|-|-|-|-|\n| `a` | text | | m |\n## `[b]`\n| key | type | default | meaning |\n|-|-|-|-|\n| `e` | | | |\n"+
		"## Each `[[d]]`\ntext\n\n| key | type | default | meaning |\n|---|---|---|---|\n| `e` | | | |\n\n| other |\n|-|\n")
	assert.Equal(t, []string{"a", "b.e", "d[].e"}, slices.Sorted(maps.Keys(rows)))
}

// markedBlock is a fenced block with a mark, and the block that follows it.
type markedBlock struct{ fence, next fence }

// lineAbove gives the line above a block that is not blank; it may belong to
// another block.
func lineAbove(doc string, f fence) string {
	lines := strings.Split(doc, "\n")[:f.line-1]
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// marked gives the fenced blocks right below a line with that mark.
func marked(doc, mark string) (blocks []markedBlock) {
	_, fences := splitMarkdown(doc)
	for i, f := range fences {
		if lineAbove(doc, f) == mark {
			b := markedBlock{fence: f}
			if i+1 < len(fences) {
				b.next = fences[i+1]
			}
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// settled puts the secrets that a configuration reads where it reads them, and
// gives it with paths that exist here. What stands as "…" or "whsec_…" is a secret of one's own.
func settled(t *testing.T, text string) (settled string, env []string) {
	t.Helper()
	dir := t.TempDir()
	for i, m := range regexp.MustCompile(`(?m)^(\w+_(?:file|env)|base_dir) = "([^"]+)"`).FindAllStringSubmatch(text, -1) {
		value := "whsec_" + base64.StdEncoding.EncodeToString([]byte(rand.Text()))
		if strings.HasPrefix(m[1], "token") {
			value = fmt.Sprintf("0123456789abcdef-%d", i) // each its own
		}
		if strings.HasPrefix(m[1], "url") {
			value = "https://example.com/hook"
		}
		path := filepath.Join(dir, strconv.Itoa(i))
		switch {
		case strings.HasSuffix(m[1], "_env"):
			env = append(env, m[2]+"="+value)
			continue
		case m[1] == "ca_file":
			require.NoError(t, os.WriteFile(path, authority(t), 0o600))
		case m[1] == "base_dir":
			require.NoError(t, os.Mkdir(path, 0o700))
		default:
			require.NoError(t, os.WriteFile(path, []byte(value+"\n"), 0o600))
		}
		text = strings.ReplaceAll(text, strconv.Quote(m[2]), strconv.Quote(path))
	}
	text = regexp.MustCompile(`(?m)^token_sha256 = "…"`).ReplaceAllStringFunc(text, func(string) string {
		return fmt.Sprintf("token_sha256 = %q", hex.EncodeToString([]byte(rand.Text()[:16]+rand.Text()[:16])))
	})
	text = regexp.MustCompile(`(?m)^token = "…"`).ReplaceAllStringFunc(text, func(string) string { return "token = " + strconv.Quote(rand.Text()) })
	return regexp.MustCompile(`(?m)^secret = "whsec_…"`).ReplaceAllStringFunc(text, func(string) string {
		return "secret = " + strconv.Quote("whsec_"+base64.StdEncoding.EncodeToString([]byte(rand.Text())))
	}), env
}

// authority gives a certificate in PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestEverySecretOfTheDocumentsAndExamplesIsRefusedOrNone(t *testing.T) {
	given := regexp.MustCompile(`(?m)^[#\s]*(secret|token|token_sha256) = ["']([^"'…]+)["']`)
	sent := regexp.MustCompile(`Authorization: Bearer ([a-z0-9][\w-]+)`)
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	files := []string{"README.md", "examples/orreryd/orrery.toml"}
	for _, p := range pages {
		files = append(files, "docs/"+p)
	}
	for _, file := range files {
		text := readFile(t, file)
		for _, m := range sent.FindAllStringSubmatch(text, -1) {
			assert.Fail(t, "a token to copy", "%s: %s: write a variable", file, m[0])
		}
		for _, m := range given.FindAllStringSubmatch(text, -1) {
			config := "[webhooks.a]\ntool = 'http'\ntool_input = { url = 'https://example.com' }\nsecret = " + strconv.Quote(m[2])
			if m[1] != "secret" {
				config = "[[tokens]]\nname = 'a'\n" + m[1] + " = " + strconv.Quote(m[2])
			}
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "orrery.toml"), []byte(config), 0o600))
			out, code := orreryd(t, dir, nil, "config", "check", "orrery.toml")
			assert.Equal(t, 2, code, "%s: %s: add it to published: %s", file, m[0], out)
		}
	}
}

func TestTheExampleConfigurationIsRightAndShowsEveryKey(t *testing.T) {
	keys, err := tomlKeys(daemonSource(t), "Config")
	require.NoError(t, err)
	blocks := marked(readFile(t, configPage), "<!-- config check -->")
	require.Len(t, blocks, 1)
	text, env := settled(t, blocks[0].fence.text)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orrery.toml"), []byte(text), 0o600))
	out, code := orreryd(t, dir, env, "config", "check", "orrery.toml")
	assert.Zero(t, code, out)
	var v map[string]any
	require.NoError(t, toml.Unmarshal([]byte(text), &v))
	assert.Equal(t, slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(flatten(v, keys))))
}

func TestTheWrongConfigurationsAreRefusedInTheseWords(t *testing.T) {
	blocks := marked(readFile(t, configPage), "<!-- config wrong -->")
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "orrery.toml"), []byte(b.fence.text), 0o600))
		out, code := orreryd(t, dir, nil, "config", "check", "orrery.toml")
		assert.Equal(t, 2, code, "%s:%d", configPage, b.fence.line)
		assert.Equal(t, "text", b.next.lang, "%s:%d: what the daemon says must follow", configPage, b.fence.line)
		assert.Equal(t, b.next.text, out, "%s:%d", configPage, b.fence.line)
	}
}
