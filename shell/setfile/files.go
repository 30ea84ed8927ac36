package setfile

import (
	"cmp"
	"errors"

	"github.com/orrery-go/orrery/shell"
)

// Files are the declarations of files, and where each of them stands.
type Files struct{ l *loader }

// Read is [Load], for who is to say later where a declaration stands that is refused.
func Read(paths []string, o Options) (*Files, error) {
	l, err := load(paths, o)
	if err != nil {
		return nil, err
	}
	return &Files{l}, nil
}

// Entries are the declarations.
func (f *Files) Entries() []shell.SetEntry { return f.l.entries }

// Explain says of declarations that are refused where they stand, and calls their fields as the files do, as [CheckFiles]
// does: it turns a [*shell.SetError] and a [shell.SetErrors] into an [Errors]. What is refused that stands in none of the files,
// such as what would be removed, follows as it was said. Every other error is given back.
func (f *Files) Explain(err error) error {
	all, ok := errors.AsType[shell.SetErrors](err)
	if of, one := errors.AsType[*shell.SetError](err); !ok && one {
		all = shell.SetErrors{of}
	}
	here := &loader{o: f.l.o, files: f.l.files, entries: f.l.entries, tables: f.l.tables, docs: f.l.docs}
	index := f.index()
	var said []error
	for _, of := range all {
		if i, known := index[declaration{of.File, of.Kind, of.Name}]; known {
			here.refused(i, reasonOf(of.Err))
		} else {
			said = append(said, of)
		}
	}
	switch {
	case len(here.errs) == 0:
		return err
	case len(said) == 0:
		return here.sorted()
	}
	return errors.Join(append([]error{here.sorted()}, said...)...)
}

// declaration is how a set calls one of its declarations.
type declaration struct{ file, kind, name string }

// index gives the place of each declaration in the list of the entries.
func (f *Files) index() map[declaration]int {
	index := make(map[declaration]int, len(f.l.entries))
	for i, e := range f.l.entries {
		kind, _, name := e.About()
		of := declaration{e.File, kind, cmp.Or(name, "?")}
		if _, twice := index[of]; !twice {
			index[of] = i
		}
	}
	return index
}

// reasonOf is the reason of a refusal, without what was asked for.
func reasonOf(err error) string {
	if r, ok := errors.AsType[*shell.Refusal](err); ok {
		return r.Reason
	}
	return err.Error()
}
