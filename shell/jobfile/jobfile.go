// Package jobfile reads and writes job files: jobs as people write them down (004
// Job), in YAML or JSON, several in one file between lines of three dashes. Names
// are written as Kubernetes writes them, in camelCase.
//
//	id: nightly-report
//	schedule: "0 2 * * *"
//	timezone: Europe/Berlin
//	podSpec:
//	  containers:
//	    - name: report
//	      image: example.com/report:1.4
//	retry:
//	  maxRetries: 3
//	  initialDelay: 30s
//	constraints:
//	  - maxAllowedRunTime:
//	      config: {limit: 30m}
//	      onViolation: [fail]
//
// Reading is strict: an unknown key, one that is there twice and a value of
// another type are errors, and all that is wrong is said at once, with line and
// column.
//
// jobfile.go has the two directions, tree.go documents with lines and columns,
// values.go typed values of them, job.go the fields of a job, and write.go writes one.
package jobfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/fileerr"
	"github.com/orrery-go/orrery/shell/podspec"
)

// MaxBytes bounds a job file.
const MaxBytes = 4 << 20

// Options say what is checked besides the file itself. The zero value is sound.
type Options struct {
	// Validate is asked about each job that is right by itself, as package constraints can.
	// Its error has a line for each wrong field, named as in the spec or as in the file.
	Validate func(job *core.JobSpec) error
	// ReadFile reads what podSpecFile names; nil: the key is refused. [Load] sets it.
	ReadFile func(name string) ([]byte, error)
	// ParsePodSpec reads a pod spec and gives it as JSON; nil: [podspec.Parse].
	ParsePodSpec func(b []byte) (json.RawMessage, error)
}

// Error is one thing that is wrong with a file, and where: line and column, from 1.
type Error = fileerr.Error

// Errors are all that is wrong with a file, in the order of the file.
type Errors = fileerr.Errors

// All gives the errors that an error of [Load] or [Parse] holds, if it has any.
func All(err error) []Error { return fileerr.All(err) }

// Load reads the jobs of a file. What podSpecFile names lies in its folder.
func Load(path string, o Options) ([]core.JobSpec, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the job file: %w", err)
	}
	if o.ReadFile == nil {
		o.ReadFile = func(name string) ([]byte, error) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(path), name)
			}
			return readFile(name)
		}
	}
	return Parse(path, data, o)
}

// readFile reads no more than shows that a file is too large.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// Parse reads the jobs in data; errors call the file by name, and are [Errors] if the
// file is wrong. What a job leaves out is left out in its spec too: the core fills it.
func Parse(name string, data []byte, o Options) ([]core.JobSpec, error) {
	if o.ParsePodSpec == nil {
		o.ParsePodSpec = func(b []byte) (json.RawMessage, error) {
			_, canonical, err := podspec.Parse(b)
			return canonical, err
		}
	}
	f := &file{name: name, o: o}
	var specs []core.JobSpec
	first := map[string]int{}
	for _, doc := range f.documents(data) {
		if len(f.errs) > maxErrors {
			break
		}
		before := len(f.errs)
		spec := f.job(doc)
		key := spec.Namespace + "/" + spec.Tenant + "/" + spec.ID
		if line, twice := first[key]; twice && spec.ID != "" {
			f.say(doc, "id", "the job %q is in this file already, at line %d", clip.Text(spec.ID, maxQuoted), line)
		} else {
			first[key] = doc.Line
		}
		// What is wrong elsewhere need not keep constraints from being looked at.
		if o.Validate != nil && (len(f.errs) == before || len(spec.ConstraintConfig)+len(spec.ActionConfig) > 0) {
			f.add(before, doc, o.Validate(&spec))
		}
		specs = append(specs, spec)
	}
	if len(specs) == 0 && len(f.errs) == 0 {
		f.errs = append(f.errs, Error{File: name, Line: 1, Column: 1, Problem: "there is no job in it"})
	}
	if len(f.errs) > 0 {
		slices.SortStableFunc(f.errs, func(a, b Error) int {
			if a.File != b.File {
				return 0
			}
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, f.errs
	}
	return specs, nil
}

// file is a file that is being read.
type file struct {
	name  string
	o     Options
	errs  Errors
	nodes int // values that were read
}

// maxErrors bounds what is said of one file.
const maxErrors = 200

// say notes what is wrong at a place.
func (f *file) say(at *yaml.Node, field, format string, args ...any) {
	switch n := len(f.errs); {
	case n > maxErrors:
		return
	case n == maxErrors:
		field, format, args = "", "there is more that is wrong: it is not said any more", nil
	}
	e := Error{File: f.name, Line: 1, Column: 1, Field: field, Problem: fmt.Sprintf(format, args...)}
	if at != nil {
		e.Line, e.Column = max(at.Line, 1), max(at.Column, 1)
	}
	f.errs = append(f.errs, e)
}

// maxQuoted is how much of what the user wrote is quoted in an error.
const maxQuoted = 80
