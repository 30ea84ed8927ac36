// Command cross type-checks all packages of the module for other systems, and all that
// they import: what "go build" would say of them, without the machine code, which takes a
// cold machine minutes for each system. Of what the module imports it reads the
// declarations only.
//
//	go run .ci/cross.go GOOS/GOARCH...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	code := 0
	for _, target := range os.Args[1:] {
		goos, goarch, _ := strings.Cut(target, "/")
		own, all, err := check(goos, goarch)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, err)
			code = 1
			continue
		}
		fmt.Printf("    %s: %d packages, of %d that they need\n", target, own, all)
	}
	os.Exit(code)
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
	Error           *struct{ Err string }
}

// check checks the packages in the order of their imports.
func check(goos, goarch string) (own, all int, err error) {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := list.Start(); err != nil {
		return 0, 0, err
	}
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	var errs []error
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, 0, err
		}
		if p.Error != nil {
			errs = append(errs, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err))
			continue
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		ours := p.Module != nil && p.Module.Main
		if ours {
			own++
		}
		all++
		pkg, err := p.check(goarch, ours, checked)
		checked[p.ImportPath], errs = pkg, append(errs, err)
	}
	if err := list.Wait(); err != nil {
		errs = append(errs, fmt.Errorf("go list: %w", err))
	}
	if own == 0 {
		errs = append(errs, errors.New("no package of the module was found"))
	}
	return own, all, errors.Join(errs...)
}

// check checks one package. Those that it imports were checked before.
func (p listed) check(goarch string, ours bool, checked map[string]*types.Package) (*types.Package, error) {
	set := token.NewFileSet()
	files := make([]*ast.File, len(p.GoFiles))
	errs := make([]error, len(p.GoFiles))
	var wg sync.WaitGroup
	for i, name := range p.GoFiles {
		wg.Go(func() {
			files[i], errs[i] = parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var found []error
	config := types.Config{
		IgnoreFuncBodies: !ours,
		FakeImportC:      true,
		Sizes:            types.SizesFor("gc", goarch),
		Error:            func(err error) { found = append(found, err) },
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if pkg := checked[path]; pkg != nil {
				return pkg, nil
			}
			return nil, fmt.Errorf("%s was not checked", path)
		}),
	}
	pkg, _ := config.Check(p.ImportPath, set, files, nil)
	return pkg, errors.Join(found...)
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
