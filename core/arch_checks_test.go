package core_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is one package, parsed and type-checked, as the purity rules see it.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// finding is one breach of a rule.
type finding struct {
	pos token.Position
	msg string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s", filepath.Base(f.pos.Filename), f.pos.Line, f.msg)
}

// purityRules are what "core is pure" (F2) means, one rule per way to break it.
var purityRules = map[string]func(*source, func(ast.Node, string)){
	"imports":     checkImports,
	"impurity":    checkImpureUses,
	"concurrency": checkConcurrency,
	"globals":     checkGlobals,
	"floats":      checkFloats,
	"map order":   checkMapOrder,
}

// findings runs one rule over a package, in the order of the source.
func findings(s *source, rule func(*source, func(ast.Node, string))) []string {
	var found []finding
	rule(s, func(n ast.Node, msg string) {
		found = append(found, finding{s.fset.Position(n.Pos()), msg})
	})
	slices.SortFunc(found, func(a, b finding) int {
		if c := strings.Compare(a.pos.Filename, b.pos.Filename); c != 0 {
			return c
		}
		return a.pos.Offset - b.pos.Offset
	})
	var lines []string
	for _, f := range found {
		lines = append(lines, f.String())
	}
	return slices.Compact(lines)
}

const module = "github.com/orrery-go/orrery"

// pureImports is what core and effects may import beside one another: packages
// whose results depend on their arguments alone.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "container/list", "crypto/hmac", "crypto/sha1", "crypto/sha256",
	"embed", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
	"hash/crc32", "hash/fnv", "io", "iter", "maps", "math", "math/big", "math/bits", "regexp", "slices",
	"sort", "strconv", "strings", "sync", "time", "unicode", "unicode/utf16", "unicode/utf8",
	"github.com/google/uuid",
}

func checkImports(s *source, report func(ast.Node, string)) {
	for _, f := range s.files {
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			own := slices.Contains(layers["core"], layerOf(path)) // which layer imports which, the layer rule holds
			if !own && !slices.Contains(pureImports, path) {
				report(spec, "imports "+path+", which is not on the list of pure packages")
			}
		}
	}
}

// impureNames are the impure parts of packages that are allowed otherwise.
var impureNames = map[string]string{
	"time.Now": clockReason, "time.Since": clockReason, "time.Until": clockReason,
	"time.Sleep": clockReason, "time.After": clockReason, "time.AfterFunc": clockReason,
	"time.Tick": clockReason, "time.NewTimer": clockReason, "time.NewTicker": clockReason,
	"time.Timer": clockReason, "time.Ticker": clockReason,
	"time.LoadLocation": zoneReason, "time.Local": zoneReason, "time.Time.Local": zoneReason,
	"fmt.Print": outputReason, "fmt.Printf": outputReason, "fmt.Println": outputReason,
	"fmt.Scan": outputReason, "fmt.Scanf": outputReason, "fmt.Scanln": outputReason,
	"print": outputReason, "println": outputReason,
}

const (
	clockReason  = "reads the clock: time comes with the event"
	zoneReason   = "depends on the machine's zone: use UTC or the embedded zones"
	outputReason = "does input or output: ask for an effect"
)

// onlyNames restricts packages of which only a few names are pure: most of
// uuid's constructors draw random bytes, and only OnceValue makes a table that
// nobody can change afterwards.
var onlyNames = map[string]*regexp.Regexp{
	"github.com/google/uuid": regexp.MustCompile(`^(UUID|UUIDs|NullUUID|Nil|Max|Parse|ParseBytes|MustParse|Must|FromBytes|NewSHA1|NewMD5|NewHash|Validate|IsInvalidLengthError|Name[Ss]pace\w+|Version|Variant|UUID\.\w+)$`),
	"sync":                   regexp.MustCompile(`^OnceValues?$`),
}

func checkImpureUses(s *source, report func(ast.Node, string)) {
	for id, obj := range s.info.Uses {
		name := qualifiedName(obj)
		if why, bad := impureNames[name]; bad {
			report(id, name+" "+why)
		}
		if obj.Pkg() == nil || name == "" {
			continue
		}
		short := strings.TrimPrefix(name, obj.Pkg().Path()+".")
		if only := onlyNames[obj.Pkg().Path()]; only != nil && !only.MatchString(short) {
			report(id, name+" is not one of the pure names of its package")
		}
	}
	// time.Unix and its like give a time in the machine's zone until they are
	// told another.
	s.inspect(func(n ast.Node, parents []ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || !slices.Contains([]string{"time.Unix", "time.UnixMilli", "time.UnixMicro"}, s.callee(call)) {
			return
		}
		if sel, ok := parents[len(parents)-1].(*ast.SelectorExpr); !ok || (sel.Sel.Name != "UTC" && sel.Sel.Name != "In") {
			report(call, s.callee(call)+" "+zoneReason+": call .UTC() on it at once")
		}
	})
}

func checkConcurrency(s *source, report func(ast.Node, string)) {
	s.inspect(func(n ast.Node, _ []ast.Node) {
		switch n.(type) {
		case *ast.GoStmt:
			report(n, "starts a goroutine")
		case *ast.SelectStmt:
			report(n, "selects on channels")
		}
	})
	for expr, tv := range s.info.Types {
		if tv.Type == nil {
			continue
		}
		if _, isChan := tv.Type.Underlying().(*types.Chan); isChan {
			report(expr, "uses a channel")
		}
	}
}

// immutablePointers are the pointer types that a package variable may have.
var immutablePointers = []string{"*regexp.Regexp", "*time.Location"}

// mutators write to their first argument.
var mutators = regexp.MustCompile(`^(sort\.\w+|slices\.(Sort\w*|Reverse|Insert|Delete\w*|Replace|Compact\w*)|maps\.(Copy|DeleteFunc|Insert)|copy|clear|delete)$`)

// readOnly is the remark at a package variable that allows to point to it, since
// nothing writes through the pointer.
var readOnly = regexp.MustCompile(`^// read-only: \S`)

// checkGlobals finds package variables that can change after initialisation.
// It follows assignments, addresses, mutating calls and pointer methods on the
// variable itself; an alias in a local variable escapes it.
func checkGlobals(s *source, report func(ast.Node, string)) {
	hasRemark := s.remarks(readOnly)
	for id, obj := range s.info.Defs {
		if v, ok := obj.(*types.Var); ok && isGlobal(v) && !hasRemark(v.Pos()) {
			if why := mutableType(v.Type()); why != "" {
				report(id, "package variable "+v.Name()+" "+why+readOnlyHint)
			}
		}
	}
	written := func(n ast.Node, x ast.Expr, how string) {
		if v := s.globalRoot(x); v != nil {
			report(n, how+" package variable "+v.Name())
		}
	}
	s.inspect(func(n ast.Node, parents []ast.Node) {
		if inInit(parents) {
			return
		}
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, lhs := range n.Lhs {
				written(n, lhs, "assigns to")
			}
		case *ast.IncDecStmt:
			written(n, n.X, "assigns to")
		case *ast.RangeStmt:
			written(n, n.Key, "assigns to")
			written(n, n.Value, "assigns to")
		case *ast.UnaryExpr:
			if v := s.globalRoot(n.X); n.Op == token.AND && v != nil && !hasRemark(v.Pos()) {
				report(n, "takes the address of package variable "+v.Name()+readOnlyHint)
			}
		case *ast.CallExpr:
			if len(n.Args) > 0 && mutators.MatchString(s.callee(n)) {
				written(n, n.Args[0], "lets "+s.callee(n)+" write to")
			}
		case *ast.SelectorExpr:
			if s.takesAddress(n) {
				written(n, n.X, "calls the pointer method "+n.Sel.Name+" of")
			}
		}
	})
}

const readOnlyHint = ": make it a value, or say at its declaration why nothing writes to it with // read-only: reason"

// mutableType says why a package variable of that type could change although
// nothing assigns to it; empty where it could not.
func mutableType(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		if !slices.Contains(immutablePointers, types.TypeString(t, (*types.Package).Name)) {
			return "is a pointer to what anyone can change"
		}
	case *types.Struct:
		if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil {
			if p := named.Obj().Pkg().Path(); p == "sync" || p == "sync/atomic" {
				return "is a " + named.Obj().Pkg().Name() + "." + named.Obj().Name()
			}
		}
		for f := range u.Fields() {
			if why := mutableType(f.Type()); why != "" {
				return "holds " + f.Name() + ", which " + why
			}
		}
	}
	return ""
}

func checkFloats(s *source, report func(ast.Node, string)) {
	for expr, tv := range s.info.Types {
		if tv.Type == nil || (tv.Value != nil && tv.Value.Kind() != constant.Unknown) {
			continue
		}
		if b, ok := tv.Type.Underlying().(*types.Basic); ok && b.Info()&(types.IsFloat|types.IsComplex) != 0 {
			report(expr, "uses "+b.Name()+": results differ between architectures (R8)")
		}
	}
	s.inspect(func(n ast.Node, _ []ast.Node) {
		st, ok := n.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range st.Fields.List {
			if tv := s.info.Types[f.Type]; tv.Type != nil && holdsAny(tv.Type) {
				report(f, "field of type "+types.TypeString(tv.Type, (*types.Package).Name)+": JSON numbers in it become floats (R8), use json.RawMessage")
			}
		}
	})
}

// holdsAny tells whether decoding JSON into t can make an untyped value.
func holdsAny(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Interface:
		return u.Empty()
	case *types.Slice:
		return holdsAny(u.Elem())
	case *types.Array:
		return holdsAny(u.Elem())
	case *types.Map:
		return holdsAny(u.Elem())
	case *types.Pointer:
		return holdsAny(u.Elem())
	}
	return false
}

// orderFree is the remark that a loop over a map carries when its order cannot
// be seen in the result.
var orderFree = regexp.MustCompile(`^// order-free: \S`)

func checkMapOrder(s *source, report func(ast.Node, string)) {
	excused := s.remarks(orderFree)
	check := func(n ast.Node, msg string) {
		if !excused(n.Pos()) {
			report(n, msg+": sort the keys, or say why the order cannot matter with // order-free: reason")
		}
	}
	s.inspect(func(n ast.Node, parents []ast.Node) {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if tv := s.info.Types[n.X]; tv.Type != nil && n.Key != nil {
				if _, isMap := tv.Type.Underlying().(*types.Map); isMap {
					check(n, "ranges over a map")
				}
			}
		case *ast.CallExpr:
			name := s.callee(n)
			if name != "maps.Keys" && name != "maps.Values" && name != "maps.All" {
				return
			}
			outer, _ := parents[len(parents)-1].(*ast.CallExpr)
			if outer == nil || !strings.HasPrefix(s.callee(outer), "slices.Sorted") {
				check(n, name+" gives a random order")
			}
		}
	})
}

// remarks tells whether a place has a remark on its line or on the line above.
func (s *source) remarks(remark *regexp.Regexp) func(token.Pos) bool {
	type line struct {
		file string
		n    int
	}
	marked := map[line]bool{}
	for _, f := range s.files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if remark.MatchString(c.Text) {
					p := s.fset.Position(c.Pos())
					marked[line{p.Filename, p.Line}] = true
					marked[line{p.Filename, p.Line + 1}] = true
				}
			}
		}
	}
	return func(pos token.Pos) bool {
		p := s.fset.Position(pos)
		return marked[line{p.Filename, p.Line}]
	}
}

// inspect walks every file and passes each node with its parents, outermost
// first. The first parent is the file.
func (s *source) inspect(visit func(n ast.Node, parents []ast.Node)) {
	for _, f := range s.files {
		var stack []ast.Node
		ast.Inspect(f, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			if len(stack) > 0 {
				visit(n, stack)
			}
			stack = append(stack, n)
			return true
		})
	}
}

// callee names the function that is called, or gives "".
func (s *source) callee(call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if ix, ok := fun.(*ast.IndexExpr); ok { // explicit instantiation
		fun = ix.X
	}
	var id *ast.Ident
	switch fun := fun.(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return ""
	}
	if obj := s.info.Uses[id]; obj != nil {
		return qualifiedName(obj)
	}
	return ""
}

// qualifiedName gives "time.Now", "time.Time.Local" or, of a builtin, "copy".
func qualifiedName(obj types.Object) string {
	if obj.Pkg() == nil {
		if _, ok := obj.(*types.Builtin); ok {
			return obj.Name()
		}
		return ""
	}
	if fn, ok := obj.(*types.Func); ok {
		if recv := fn.Signature().Recv(); recv != nil {
			t := recv.Type()
			if p, ok := t.(*types.Pointer); ok {
				t = p.Elem()
			}
			if named, ok := t.(*types.Named); ok {
				return obj.Pkg().Path() + "." + named.Obj().Name() + "." + obj.Name()
			}
			return ""
		}
	}
	if obj.Parent() != obj.Pkg().Scope() {
		return "" // a local, a field or an import's own name
	}
	return obj.Pkg().Path() + "." + obj.Name()
}

// globalRoot gives the package variable that x is, or is a part of.
func (s *source) globalRoot(x ast.Expr) *types.Var {
	for x != nil {
		switch e := x.(type) {
		case *ast.ParenExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.SelectorExpr:
			if v, ok := s.info.Uses[e.Sel].(*types.Var); ok && isGlobal(v) {
				return v // of another package
			}
			x = e.X
		case *ast.Ident:
			if v, ok := s.info.Uses[e].(*types.Var); ok && isGlobal(v) {
				return v
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// takesAddress tells whether sel calls a pointer method on a variable that is
// not a pointer itself.
func (s *source) takesAddress(sel *ast.SelectorExpr) bool {
	selection := s.info.Selections[sel]
	if selection == nil || selection.Kind() != types.MethodVal {
		return false
	}
	fn, ok := selection.Obj().(*types.Func)
	if !ok || fn.Signature().Recv() == nil {
		return false
	}
	_, wantsPointer := fn.Signature().Recv().Type().(*types.Pointer)
	_, isPointer := selection.Recv().(*types.Pointer)
	return wantsPointer && !isPointer
}

func isGlobal(v *types.Var) bool {
	return !v.IsField() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() && v.Name() != "_"
}

// inInit tells whether the node stands in an init function.
func inInit(parents []ast.Node) bool {
	return slices.ContainsFunc(parents, func(n ast.Node) bool {
		fn, ok := n.(*ast.FuncDecl)
		return ok && fn.Recv == nil && fn.Name.Name == "init"
	})
}
