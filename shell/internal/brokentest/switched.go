package brokentest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// number is the variable of each package with defects that has the number of the defect that a process has; 0: it has none.
const number = "orreryBrokenNumber"

// switched are the files of a module with all defects, each of which a process has by its number: a function in which a defect stands is there once more for it, under another name, and what has the function's own
// name chooses by the number.
type switched struct {
	files map[string]*brokenFile // by their names from the root
	read  func(name string) ([]byte, error)
}

// brokenFile is a file of which some functions are there more than once.
type brokenFile struct {
	name  string
	src   []byte
	tree  *ast.File
	base  int // position of the first byte
	funcs map[*ast.FuncDecl]*brokenFunc
}

// brokenFunc is a function with its defective copies, by the number of the defect.
type brokenFunc struct {
	decl   *ast.FuncDecl
	copies map[int]string // its text, with the name of the copy
}

// add adds a defect.
func (s *switched) add(n int, edits []Edit) error {
	for _, e := range edits {
		f, err := s.file(e.File)
		if err != nil {
			return err
		}
		if err := f.add(n, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *switched) file(name string) (*brokenFile, error) {
	if f, ok := s.files[name]; ok {
		return f, nil
	}
	src, err := s.read(name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &brokenFile{name: name, src: src, tree: tree, base: set.File(tree.Pos()).Base(), funcs: map[*ast.FuncDecl]*brokenFunc{}}
	s.files[name] = f
	return f, nil
}

// text gives what stands in the file between two positions.
func (f *brokenFile) text(from, to token.Pos) string {
	return string(f.src[int(from)-f.base : int(to)-f.base])
}

// around gives the function in which some bytes of the file stand; nil: none.
func (f *brokenFile) around(from, to int) *ast.FuncDecl {
	for _, d := range f.tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && int(fn.Pos())-f.base <= from && to <= int(fn.End())-f.base {
			return fn
		}
	}
	return nil
}

func (f *brokenFile) add(n int, e Edit) error {
	if bytes.Count(f.src, []byte(e.Is)) != 1 {
		return fmt.Errorf("%s has %d times, not once: %s", e.File, bytes.Count(f.src, []byte(e.Is)), e.Is)
	}
	at := bytes.Index(f.src, []byte(e.Is))
	decl := f.around(at, at+len(e.Is))
	switch {
	case decl == nil:
		return fmt.Errorf("%s: it must stand in one function: %s", e.File, e.Is)
	case decl.Type.TypeParams != nil:
		return fmt.Errorf("%s: %s: a function with type parameters cannot be broken", e.File, decl.Name.Name)
	}
	fn := f.funcs[decl]
	if fn == nil {
		fn = &brokenFunc{decl: decl, copies: map[int]string{}}
		f.funcs[decl] = fn
	}
	is, ok := fn.copies[n]
	if !ok {
		is = f.renamed(decl, fmt.Sprintf("%sBroken%d", decl.Name.Name, n))
	}
	if strings.Count(is, e.Is) != 1 {
		return fmt.Errorf("%s: %s: what was replaced before has made of it something else: %s", e.File, decl.Name.Name, e.Is)
	}
	fn.copies[n] = strings.Replace(is, e.Is, e.Becomes, 1)
	return nil
}

// renamed gives the text of a function under another name.
func (f *brokenFile) renamed(d *ast.FuncDecl, name string) string {
	return f.text(d.Pos(), d.Name.Pos()) + name + f.text(d.Name.End(), d.End())
}

// whole gives the text of the file.
func (f *brokenFile) whole() []byte {
	var out bytes.Buffer
	done := 0
	for _, d := range f.tree.Decls {
		fn := f.funcs[declOf(d)]
		if fn == nil {
			continue
		}
		out.Write(f.src[done : int(d.Pos())-f.base])
		out.WriteString(f.chooser(fn))
		done = int(d.End()) - f.base
	}
	out.Write(f.src[done:])
	return out.Bytes()
}

func declOf(d ast.Decl) *ast.FuncDecl {
	fn, _ := d.(*ast.FuncDecl)
	return fn
}

// chooser gives the function of the name, which chooses by the number, and those that it chooses from.
func (f *brokenFile) chooser(fn *brokenFunc) string {
	d := fn.decl
	var head, call strings.Builder
	head.WriteString("func ")
	if d.Recv != nil {
		fmt.Fprintf(&head, "(self %s) ", f.text(d.Recv.List[0].Type.Pos(), d.Recv.List[0].Type.End()))
		call.WriteString("self.")
	}
	var params, args []string
	for _, p := range d.Type.Params.List {
		of := f.text(p.Type.Pos(), p.Type.End())
		for range max(1, len(p.Names)) {
			name := fmt.Sprintf("p%d", len(params))
			params = append(params, name+" "+of)
			if _, many := p.Type.(*ast.Ellipsis); many {
				name += "..."
			}
			args = append(args, name)
		}
	}
	results := ""
	if d.Type.Results != nil {
		results = f.text(d.Type.Results.Pos(), d.Type.Results.End())
	}
	fmt.Fprintf(&head, "%s(%s) %s {\n\tswitch %s {\n", d.Name.Name, strings.Join(params, ", "), results, number)
	does := func(name string) string {
		one := fmt.Sprintf("%s%s(%s)", call.String(), name, strings.Join(args, ", "))
		if results != "" {
			return "return " + one
		}
		return one
	}
	copies := []string{f.renamed(d, d.Name.Name+"Whole")}
	for _, n := range sortedKeys(fn.copies) {
		fmt.Fprintf(&head, "\tcase %d:\n\t\t%s\n", n, does(fmt.Sprintf("%sBroken%d", d.Name.Name, n)))
		copies = append(copies, fn.copies[n])
	}
	fmt.Fprintf(&head, "\tdefault:\n\t\t%s\n\t}\n}\n\n%s", does(d.Name.Name+"Whole"), strings.Join(copies, "\n\n"))
	return head.String()
}

// texts gives all files that the module must have instead, by their names from the root: the broken ones, and one for each of their packages that reads the number.
func (s *switched) texts() map[string][]byte {
	all := map[string][]byte{}
	for name, f := range s.files {
		all[name] = f.whole()
		all[path.Join(path.Dir(name), "orrery_broken.go")] = fmt.Appendf(nil,
			"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar %s, _ = strconv.Atoi(os.Getenv(%q))\n", f.tree.Name.Name, number, inner)
	}
	return all
}

func sortedKeys[V any](m map[int]V) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
