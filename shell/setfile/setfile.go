// Package setfile reads and writes the files of a set of declarations: schedules, queues, workers and all else that
// there shall be, as people write it down (G17). What it gives goes to [shell.Sets.Apply].
//
//	tenant = "reports"
//
//	[recurring.nightly]
//	cron     = "0 2 * * *"
//	tz       = "Europe/Berlin"
//	command  = ["/usr/local/bin/report", "--all"]
//	overlap  = "skip"
//
//	[queues.mail]
//	max_attempts = 5
//	backoff      = "10s"
//
// The files of a folder that end in .toml are of this form, those that end in .yaml, .yml or .json hold jobs, see
// package jobfile. What "runbooks" names are runbook files, see package runbook, whose queues, semaphores, workers and
// subscribers belong to the set.
//
// Reading is strict: an unknown key, a value of another type and one that is out of bounds are errors with file and line;
// all that is wrong is said at once. What is declared in one file may name what is declared in another one.
//
// A file that has a table "variables" may name them in its texts: "${region}" stands for the variable region. All other
// "${…}" stay as they are, and so do those of files that declare no variables.
//
//   - setfile.go: [Load]; files.go: [Read], and where stands what is refused; lines.go: where each key stands; wrong.go: what
//     the decoder refuses; variables.go; check.go: [CheckFiles]
//   - kinds.go: the tables of a file, each to and from its definition; values.go: durations, rates, JSON; days.go: dates
//     and weekly windows
//   - write.go: [Marshal]; schema.go: [Schema]
package setfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/fileerr"
	"github.com/orrery-go/orrery/shell/jobfile"
	"github.com/orrery-go/orrery/shell/runbook"
)

// Limits of the files of a set.
const (
	MaxFileBytes = 4 << 20
	MaxFiles     = 10_000
	maxErrors    = 50 // that are reported
)

// Error is one thing that is wrong with a file, and where: line and column, from 1.
type Error = fileerr.Error

// Errors are all that is wrong with the files, in their order.
type Errors = fileerr.Errors

// Options say how files are read. The zero value is sound.
type Options struct {
	// Namespace and Tenant are those of what says none; empty: "default".
	Namespace, Tenant string
	// Variables are the values of what the files declare as variables, instead of those that stand there.
	Variables map[string]string
	// Jobs are the options of job files.
	Jobs jobfile.Options
	// Paths lets errors name files by their paths, which editors find, instead of as they lie in their folder.
	Paths bool
}

// Load reads the files of a set: each path is a file, or a folder of which all files with a known ending are read, those of
// its folders too; names that begin with a dot are left out, links to files are followed, and links to folders are refused.
// Within the declarations a file is named as it lies in its folder, or by its path if several are called so. The error is an [Errors] where a file is wrong. No files are no error, and no declarations.
func Load(paths []string, o Options) ([]shell.SetEntry, error) {
	l, err := load(paths, o)
	if err != nil {
		return nil, err
	}
	return l.entries, nil
}

func load(paths []string, o Options) (*loader, error) {
	o.Namespace, o.Tenant = cmp.Or(o.Namespace, "default"), cmp.Or(o.Tenant, "default")
	l := &loader{o: o, used: map[string]bool{}, runbooks: map[string]bool{}, tables: map[int]table{}, docs: map[int]doc{}}
	for _, path := range paths {
		if err := l.find(path); err != nil {
			return nil, err
		}
	}
	l.distinguish()
	texts := make([][]byte, len(l.files))
	for i, f := range l.files {
		data, err := read(f.path)
		if err != nil {
			return nil, err
		}
		if texts[i] = data; filepath.Ext(f.path) != ".toml" {
			continue
		}
		if e := tooMuch(f.name, data); e != nil {
			l.errs = append(l.errs, *e)
			texts[i] = nil
			continue
		}
		l.runbooksOf(f, data)
	}
	for i, f := range l.files { // once it is known which files are runbooks
		switch {
		case filepath.Ext(f.path) != ".toml":
			if err := l.jobs(f, texts[i]); err != nil {
				return nil, err
			}
		case !l.runbooks[filepath.Clean(f.path)]:
			l.parse(f, texts[i])
		}
	}
	if len(l.errs) > 0 {
		return nil, l.sorted()
	}
	return l, l.unused()
}

// UnknownVariableError says that a value was given of a variable that no file declares.
type UnknownVariableError struct {
	Name  string
	Known []string // those that files declare, in their order
}

// Error names the variable, and what may have been meant.
func (e *UnknownVariableError) Error() string {
	switch meant := texts.Nearest(e.Name, e.Known); {
	case meant != "":
		return fmt.Sprintf("no file declares a variable %q: did you mean %q?", e.Name, meant)
	case len(e.Known) > 0:
		return fmt.Sprintf("no file declares a variable %q: use %s", e.Name, strings.Join(e.Known, ", "))
	}
	return fmt.Sprintf("no file declares a variable %q, nor any other: a table [variables] does", e.Name)
}

// unused refuses values of variables that no file declares.
func (l *loader) unused() error {
	for _, name := range slices.Sorted(maps.Keys(l.o.Variables)) {
		if !l.used[name] {
			return &UnknownVariableError{Name: name, Known: slices.Sorted(maps.Keys(l.used))}
		}
	}
	return nil
}

// file is a file of the set, and what it is called in declarations.
type file struct{ path, name string }

// loader collects the declarations of all files.
type loader struct {
	o        Options
	files    []file
	entries  []shell.SetEntry
	docs     map[int]doc   // where the entries stand that are of job files
	tables   map[int]table // where the entries stand that are tables of a file in TOML, by their index
	errs     Errors
	used     map[string]bool // variables that a file declares
	runbooks map[string]bool // paths of files that are runbooks
}

// find lists the files that a path stands for.
func (l *loader) find(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the files of the set: %w", err)
	}
	if !info.IsDir() {
		if !known(path) {
			return fmt.Errorf("read the files of the set: %s: files end in .toml, or in .yaml, .yml or .json where they hold jobs", path)
		}
		return l.add(file{path, filepath.Base(path)})
	}
	root, err := filepath.EvalSymlinks(path) // which may be a link itself: WalkDir follows none
	if err != nil {
		return fmt.Errorf("read the files of the set: %w", err)
	}
	return filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read the files of the set: %w", err)
		}
		name, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		hidden := at != root && strings.HasPrefix(d.Name(), ".")
		switch {
		case d.IsDir() && hidden:
			return fs.SkipDir
		case d.IsDir(), hidden:
			return nil
		}
		at = filepath.Join(path, name)
		if d.Type()&fs.ModeSymlink != 0 {
			if err := leadsToFile(at); err != nil {
				return err
			}
		}
		if !known(at) {
			return nil
		}
		return l.add(file{at, filepath.ToSlash(name)})
	})
}

// leadsToFile refuses a link to a folder, whose files would not be read, and one that leads nowhere: who takes files away
// by mistake would have what they declare removed.
func leadsToFile(link string) error {
	info, err := os.Stat(link)
	if err != nil {
		return fmt.Errorf("read the files of the set: a link leads nowhere: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("read the files of the set: %s is a link to a folder, which is not followed: name that folder too, or put it here", link)
	}
	return nil
}

// distinguish calls files by their paths whose names are the same in several folders.
func (l *loader) distinguish() {
	named := map[string]int{}
	for _, f := range l.files {
		named[f.name]++
	}
	for i, f := range l.files {
		if named[f.name] > 1 {
			l.files[i].name = filepath.ToSlash(f.path)
		}
	}
}

func (l *loader) add(f file) error {
	if len(l.files) == MaxFiles {
		return fmt.Errorf("read the files of the set: more than %d files: split the set", MaxFiles)
	}
	l.files = append(l.files, f)
	return nil
}

// known reports whether files with that ending belong to a set.
func known(path string) bool {
	return slices.Contains([]string{".toml", ".yaml", ".yml", ".json"}, filepath.Ext(path))
}

// table is a table of a file: such as "recurring.nightly".
type table struct {
	d   *document
	key string
}

// doc is a document of a job file.
type doc struct {
	file file
	data []byte
	n    int // from 0
}

// document is a file in TOML, as it was read.
type document struct {
	file  file
	body  body
	lines lines
}

// say notes what is wrong at a key.
func (l *loader) say(d *document, key, format string, args ...any) {
	l.errs = append(l.errs, d.lines.at(d.file.name, key, fmt.Sprintf(format, args...)))
}

// parse declares what a file in TOML says.
func (l *loader) parse(f file, data []byte) {
	d := &document{file: f, lines: linesOf(data)}
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := dec.Decode(&d.body); err != nil {
		l.wrong(d, data, err)
		return
	}
	l.declare(d)
}

// read reads no more than shows that a file is too large. What is no file, such as a pipe or a device, could keep the
// reader for ever.
func read(path string) ([]byte, error) {
	data, err := readRegular(path)
	if err != nil {
		return nil, fmt.Errorf("read the files of the set: %w", err)
	}
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("read the files of the set: %s has more than %d bytes, which is all that is read of a file: split it", path, MaxFileBytes)
	}
	return data, nil
}

func readRegular(path string) ([]byte, error) {
	if err := checkRegular(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // reading loses nothing
	return io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
}

// checkRegular refuses what is no file.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder, not a file", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file: it is a pipe, a device or the like", path)
	}
	return nil
}

// runbooksOf notes which files a file names as runbooks.
func (l *loader) runbooksOf(f file, data []byte) {
	var names struct {
		Runbooks []string `toml:"runbooks"`
	}
	if toml.Unmarshal(data, &names) != nil {
		return // what is wrong is said once it is read whole
	}
	for _, name := range names.Runbooks {
		l.runbooks[filepath.Clean(beside(f.path, name))] = true
	}
}

// beside gives the path of what a file names: it lies beside it.
func beside(path, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
}

// declare makes declarations of a file's tables.
func (l *loader) declare(d *document) {
	l.substitute(d)
	of := core.Scope{Namespace: cmp.Or(d.body.Namespace, l.o.Namespace), Tenant: cmp.Or(d.body.Tenant, l.o.Tenant)}
	for _, k := range kinds {
		k.declare(l, d, of)
	}
	for i, name := range d.body.Runbooks {
		key := fmt.Sprintf("runbooks[%d]", i)
		path := beside(d.file.path, name)
		if err := checkRegular(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.say(d, key, "read the runbook: %s", err)
			continue
		}
		book, err := runbook.Load(path)
		if all := fileerr.All(err); len(all) > 0 {
			l.errs = append(l.errs, all...)
			continue
		}
		if err != nil {
			l.say(d, key, "%s", err)
			continue
		}
		l.runbook(book, name, of)
	}
}

// runbook declares what a runbook declares.
func (l *loader) runbook(book *runbook.Runbook, name string, of core.Scope) {
	for _, q := range book.Queues {
		l.entries = append(l.entries, shell.SetEntry{File: name, Queue: &shell.QueueSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: q.Name, Config: q.Config}})
	}
	for _, s := range book.Semaphores {
		l.entries = append(l.entries, shell.SetEntry{File: name, Semaphore: &shell.SemaphoreSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: s.Name, Slots: s.Slots}})
	}
	for _, w := range book.Workers {
		spec := w.Spec(of.Namespace, of.Tenant)
		l.entries = append(l.entries, shell.SetEntry{File: name, Worker: &spec})
	}
	for _, s := range book.Subscriptions(of.Namespace, of.Tenant) {
		l.entries = append(l.entries, shell.SetEntry{File: name, Subscriber: &shell.SubscriberSpec{Namespace: of.Namespace, Tenant: of.Tenant, Subscription: s}})
	}
}

// jobs declares the jobs of a job file.
func (l *loader) jobs(f file, data []byte) error {
	o := l.o.Jobs
	if o.ReadFile == nil {
		o.ReadFile = func(name string) ([]byte, error) { return read(beside(f.path, name)) }
	}
	specs, err := jobfile.Parse(f.name, data, o)
	if all := fileerr.All(err); len(all) > 0 {
		l.errs = append(l.errs, all...)
		return nil
	}
	if err != nil {
		return err
	}
	for n, s := range specs {
		l.docs[len(l.entries)] = doc{f, data, n}
		s.Namespace, s.Tenant = cmp.Or(s.Namespace, l.o.Namespace), cmp.Or(s.Tenant, l.o.Tenant)
		l.entries = append(l.entries, shell.SetEntry{File: f.name, Job: &s})
	}
	return nil
}

// sorted gives the errors in the order of the files, and no more than are read.
func (l *loader) sorted() Errors {
	list := l.errs
	if l.o.Paths {
		for i, e := range list {
			if at := slices.IndexFunc(l.files, func(f file) bool { return f.name == e.File }); at >= 0 {
				list[i].File = l.files[at].path
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Field, b.Field))
	})
	if more := len(list) - maxErrors; more > 0 {
		list = list[:maxErrors]
		list[maxErrors-1].Problem += fmt.Sprintf(" (and %d more)", more)
	}
	return list
}
