package core_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listed is what the rules need to know of a package from `go list`.
type listed struct {
	ImportPath, Dir, Export                            string
	GoFiles, CgoFiles, SFiles, CFiles                  []string
	IgnoredGoFiles, Imports, TestImports, XTestImports []string
	Standard                                           bool
	Module                                             *struct{ Path string }
}

// goList runs `go list -json` with the arguments at the module's root.
func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	// go test takes a result from its cache when nothing changed that the test
	// itself has read; reading the folders makes it see what `go list` sees.
	require.NoError(t, filepath.WalkDir("..", func(_ string, d os.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return filepath.SkipDir
		}
		return err
	}))
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json"}, args...)...)
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list %s: %s", strings.Join(args, " "), stderr.String())
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		}
		require.NoError(t, err)
		pkgs = append(pkgs, p)
	}
}

// exports gives an importer that reads the compiler's export data.
func exports(fset *token.FileSet, pkgs []listed) types.Importer {
	files := map[string]string{}
	for _, p := range pkgs {
		files[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(files[path])
	})
}

// typeCheck makes a source of parsed files.
func typeCheck(t *testing.T, path string, fset *token.FileSet, files []*ast.File, imp types.Importer) *source {
	t.Helper()
	info := &types.Info{
		Types:      map[ast.Expr]types.TypeAndValue{},
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	_, err := (&types.Config{Importer: imp}).Check(path, fset, files, info)
	require.NoError(t, err)
	return &source{fset, files, info}
}

func TestCoreAndEffectsArePure(t *testing.T) {
	pkgs := goList(t, "-export", "-deps", "./core/...", "./effects/...")
	fset := token.NewFileSet()
	imp := exports(fset, pkgs)
	checked := 0
	for _, p := range pkgs {
		if !slices.Contains(layers["core"], layerOf(p.ImportPath)) || len(p.GoFiles) == 0 || isTestKit(p) {
			continue
		}
		checked++
		assert.Empty(t, slices.Concat(p.CgoFiles, p.SFiles, p.CFiles), "%s: only Go is portable enough for a replay", p.ImportPath)
		for _, name := range p.IgnoredGoFiles {
			assert.True(t, strings.HasSuffix(name, "_test.go"), "%s/%s: no build constraint may make the machines differ between platforms", p.ImportPath, name)
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
		s := typeCheck(t, p.ImportPath, fset, files, imp)
		for _, rule := range slices.Sorted(maps.Keys(purityRules)) {
			for _, f := range findings(s, purityRules[rule]) {
				t.Errorf("%s, rule %q: %s", p.ImportPath, rule, f)
			}
		}
	}
	assert.GreaterOrEqual(t, checked, 3, "packages checked: core, effects and effects/texts at least")
}

func TestEachPurityRuleFindsWhatItForbidsAndNothingElse(t *testing.T) {
	const imported = "time os math math/rand sync fmt maps slices sort regexp " + "github.com/google/uuid"
	std := goList(t, append([]string{"-export", "-deps"}, strings.Fields(imported)...)...)
	tests := []struct {
		rule, src string
		want      string // what the one finding says; empty: there is none
	}{
		{"imports", `import "os"; var _ = os.Args`, "imports os"},
		{"imports", `import "math/rand"; var _ = rand.Int`, "imports math/rand"},
		{"imports", `import _ "github.com/orrery-go/orrery/shell"`, "imports github.com/orrery-go/orrery/shell"},
		{"imports", `import _ "github.com/orrery-go/orrery/corex"`, "imports github.com/orrery-go/orrery/corex"},
		{"imports", `import "time"; var _ = time.Second`, ""},
		{"imports", `import _ "github.com/orrery-go/orrery/core/schedule"`, ""},

		{"impurity", `import "time"; var f = time.Now`, "time.Now reads the clock"},
		{"impurity", `import . "time"; var f = Now`, "time.Now reads the clock"},
		{"impurity", `import t "time"; func f(a t.Time) bool { return t.Since(a) > 0 }`, "time.Since reads the clock"},
		{"impurity", `import "time"; func f() { time.Sleep(1) }`, "time.Sleep reads the clock"},
		{"impurity", `import "time"; type s struct{ t *time.Timer }`, "time.Timer reads the clock"},
		{"impurity", `import "time"; func f() { time.LoadLocation("Europe/Berlin") }`, "time.LoadLocation depends on the machine's zone"},
		{"impurity", `import "time"; func f(a time.Time) time.Time { return a.Local() }`, "time.Time.Local depends on the machine's zone"},
		{"impurity", `import "time"; func f() time.Time { return time.UnixMilli(0) }`, "call .UTC() on it"},
		{"impurity", `import "time"; func f() time.Time { return time.UnixMilli(0).UTC() }`, ""},
		{"impurity", `import "time"; func Now() {}; func f() { Now(); _ = time.Unix(0, 0).In(time.UTC) }`, ""},
		{"impurity", `import "fmt"; func f() { fmt.Println() }`, "fmt.Println does input or output"},
		{"impurity", `import "fmt"; func f() string { return fmt.Sprint() }`, ""},
		{"impurity", `func f() { println() }`, "println does input or output"},
		{"impurity", `import "github.com/google/uuid"; var id = uuid.New()`, "uuid.New is not one of the pure names"},
		{"impurity", `import "github.com/google/uuid"; func f(id uuid.UUID) string { return uuid.NewSHA1(id, nil).String() }`, ""},
		{"impurity", `import "sync"; type s struct{ mu sync.Mutex }`, "sync.Mutex is not one of the pure names"},
		{"impurity", `import "sync"; var table = sync.OnceValue(func() int { return 1 })`, ""},

		{"concurrency", `func f() { go f() }`, "starts a goroutine"},
		{"concurrency", `func f() { select {} }`, "selects on channels"},
		{"concurrency", `type s struct{ c chan int }`, "uses a channel"},
		{"concurrency", `type done <-chan struct{}`, "uses a channel"},
		{"concurrency", `func f() {}`, ""},

		{"globals", `var n int; func f() { n = 1 }`, "assigns to package variable n"},
		{"globals", `var n int; func f() { n++ }`, "assigns to package variable n"},
		{"globals", `var n int; func f() { for n = range 3 {} }`, "assigns to package variable n"},
		{"globals", `var m = map[int]int{}; func f() { m[1] = 2 }`, "assigns to package variable m"},
		{"globals", `var s struct{ a [2]int }; func f() { (s.a)[0] += 2 }`, "assigns to package variable s"},
		{"globals", `var m = map[int]int{}; func f() { delete(m, 1) }`, "lets delete write to package variable m"},
		{"globals", `import "slices"; var s = []int{2, 1}; func f() { slices.Sort(s[:]) }`, "lets slices.Sort write to package variable s"},
		{"globals", `var n int; func f() *int { return &n }`, "takes the address of package variable n"},
		{"globals", `type c int; func (p *c) up() {}; var n c; func f() { n.up() }`, "calls the pointer method up of package variable n"},
		{"globals", `import "time"; func f() { time.UTC = nil }`, "assigns to package variable UTC"},
		{"globals", `var p = new(int)`, "package variable p is a pointer"},
		{"globals", `import "sync"; var mu sync.Mutex`, "package variable mu is a sync.Mutex"},
		{"globals", `var s struct{ p *int }`, "package variable s holds p, which is a pointer"},
		{"globals", `import ("errors"; "regexp"); var err, re, m = errors.New("x"), regexp.MustCompile("x"), map[int]int{1: 2}; func f() int { n := m[1]; n++; return n }`, ""},
		{"globals", "// read-only: no method writes\nvar p = new(int); func f() { *p = 1 }", "assigns to package variable p"},
		{"globals", "var n, p = 1, new(int) // read-only: a table\nfunc f() (*int, *int) { return &n, p }", ""},
		{"globals", `var m map[int]int; func init() { m = map[int]int{1: 2} }`, ""},

		{"floats", `type s struct{ a float64 }`, "uses float64"},
		{"floats", `import "math"; func f() int { return int(math.Pow(2, 3)) }`, "uses float64"},
		{"floats", `type s struct{ a map[string]any }`, "field of type map[string]any"},
		{"floats", `import "time"; const half = 0.5; var d = time.Duration(half * 1e9)`, ""},
		{"floats", `type s struct{ a error; b []int }; func f(v ...any) {}`, ""},

		{"map order", `func f(m map[int]int) { for range m {} ; for k := range m { _ = k } }`, "ranges over a map"},
		{"map order", `type t map[int]int; func f(m t) { for _, v := range m { _ = v } }`, "ranges over a map"},
		{"map order", "func f(m map[int]int) {\n// order-free:\nfor k := range m { _ = k }\n}", "ranges over a map"},
		{"map order", `import "maps"; func f(m map[int]int) { for k := range maps.Keys(m) { _ = k } }`, "maps.Keys gives a random order"},
		{"map order", "func f(m map[int]int) {\nfor k := range m { // order-free: only counts\n_ = k }\n}", ""},
		{"map order", "func f(m map[int]int) {\n// order-free: only counts\nfor k := range m { _ = k }\n}", ""},
		{"map order", `import ("maps"; "slices"); func f(m map[int]int) { for range m {}; for _, k := range slices.Sorted(maps.Keys(m)) { _ = k } }`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule+"/"+tt.src, func(t *testing.T) {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, "bad.go", "package bad; "+tt.src, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			var got []string
			if tt.rule == "imports" { // it needs no types, and what it imports need not exist
				got = findings(&source{fset: fset, files: []*ast.File{f}}, checkImports)
			} else {
				got = findings(typeCheck(t, "bad", fset, []*ast.File{f}, exports(fset, std)), purityRules[tt.rule])
			}
			if tt.want == "" {
				assert.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			assert.Contains(t, got[0], tt.want)
		})
	}
}

// layers says which layers each may import: an arrow points down only. The
// tests in docs look at everything.
var layers = map[string][]string{
	"effects":  {"effects"},
	"core":     {"core", "effects"},
	"store":    {"store", "core", "effects"},
	"shell":    {"shell", "store", "core", "effects"},
	"examples": {"examples", "shell", "store", "core", "effects"},
	"docs":     {"docs", "examples", "shell", "store", "core", "effects"},
}

// testOnly are modules that no program may be linked with.
var testOnly = []string{
	"testing", "github.com/stretchr/testify", "pgregory.net/rapid",
	"go.uber.org/goleak", "github.com/cockroachdb/datadriven",
}

// layerOf gives the top-level folder of a package of this module, else "".
func layerOf(importPath string) string {
	rest, own := strings.CutPrefix(importPath, module+"/")
	if !own {
		return ""
	}
	top, _, _ := strings.Cut(rest, "/")
	return top
}

// isTestKit reports whether only tests import the package, as store/storetest.
func isTestKit(p listed) bool { return strings.HasSuffix(p.ImportPath, "test") }

func layerBreaches(pkgs []listed) []string {
	var found []string
	for _, p := range pkgs {
		layer := layerOf(p.ImportPath)
		below, known := layers[layer]
		if !known {
			found = append(found, fmt.Sprintf("%s stands in none of the layers", p.ImportPath))
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if to := layerOf(imp); to != "" && !slices.Contains(below, to) {
				found = append(found, fmt.Sprintf("%s imports %s: %s may import only %s", p.ImportPath, imp, layer, strings.Join(below, ", ")))
			}
		}
		if isTestKit(p) {
			continue
		}
		for _, imp := range p.Imports {
			if slices.ContainsFunc(testOnly, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") }) {
				found = append(found, fmt.Sprintf("%s imports %s outside its tests", p.ImportPath, imp))
			}
		}
	}
	return found
}

func TestEveryPackageImportsOnlyLayersBelowIt(t *testing.T) {
	pkgs := goList(t, "./...")
	require.NotEmpty(t, pkgs)
	for _, breach := range layerBreaches(pkgs) {
		t.Error(breach)
	}
}

// seedless gives the packages whose tests draw with rapid from seeds that nobody
// has fixed.
func seedless(pkgs []listed) []string {
	var found []string
	for _, p := range pkgs {
		imports := slices.Concat(p.TestImports, p.XTestImports)
		draws := slices.Contains(imports, "pgregory.net/rapid") || slices.Contains(imports, module+"/store/storetest")
		if draws && !slices.Contains(imports, module+"/effects/seedtest") {
			found = append(found, p.ImportPath)
		}
	}
	return found
}

func TestPropertiesDrawFromFixedSeeds(t *testing.T) {
	assert.Empty(t, seedless(goList(t, "./...")), "import effects/seedtest in their tests")
	rapid, kit, seed := "pgregory.net/rapid", module+"/store/storetest", module+"/effects/seedtest"
	assert.Equal(t, []string{"a", "b"}, seedless([]listed{
		{ImportPath: "a", TestImports: []string{rapid}}, {ImportPath: "b", XTestImports: []string{kit}},
		{ImportPath: "c", TestImports: []string{seed}, XTestImports: []string{rapid}}, {ImportPath: "d", Imports: []string{rapid}},
	}))
}

func TestTheLayerRuleFindsImportsThatPointUp(t *testing.T) {
	tests := []struct {
		pkg  listed
		want []string
	}{
		{listed{ImportPath: module + "/core", Imports: []string{module + "/store"}}, []string{"core may import only core, effects"}},
		{listed{ImportPath: module + "/core/schedule", XTestImports: []string{module + "/shell"}}, []string{"core may import only"}},
		{listed{ImportPath: module + "/store/bolt", TestImports: []string{module + "/shell/sim"}}, []string{"store may import only"}},
		{listed{ImportPath: module + "/shell", Imports: []string{module + "/examples/orreryd"}}, []string{"shell may import only"}},
		{listed{ImportPath: module + "/store/bolt", Imports: []string{"testing", "github.com/stretchr/testify/require"}}, []string{"imports testing", "imports github.com/stretchr/testify/require"}},
		{listed{ImportPath: module + "/helpers"}, []string{"none of the layers"}},
		{listed{ImportPath: module + "/store/storetest", Imports: []string{"testing", module + "/store"}}, nil},
		{listed{ImportPath: module + "/shell", Imports: []string{"os", module + "/store", module + "/core"}}, nil},
	}
	for _, tt := range tests {
		got := layerBreaches([]listed{tt.pkg})
		require.Len(t, got, len(tt.want), "%+v", tt.pkg)
		for i, want := range tt.want {
			assert.Contains(t, got[i], want)
		}
	}
}

// embedderModules is all that an embedder of the kernel with its embedded
// store compiles. A heavy dependency belongs in a leaf package of its own.
var embedderModules = []string{
	module, "github.com/google/uuid", "github.com/klauspost/compress", "github.com/tidwall/btree",
	"go.etcd.io/bbolt", "golang.org/x/sys",
}

func TestAnEmbedderCompilesOnlyWhatItImports(t *testing.T) {
	for _, p := range goList(t, "-deps", "./core", "./shell", "./store/bolt") {
		if p.Module != nil {
			assert.Contains(t, embedderModules, p.Module.Path, "%s is linked into every embedder", p.ImportPath)
		}
	}
}
