package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobfile"
)

// applied says what became of a job, for programs.
type applied struct {
	File   string          `json:"file"`
	ID     string          `json:"id"`
	Action string          `json:"action"` // created, updated; with --dry-run: would be
	Job    json.RawMessage `json:"job,omitempty"`
}

func (j *jobCommands) apply() *cobra.Command {
	var files []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the jobs of a file, or give them the configuration that stands there",
		Long: `Make the jobs that stand in a file, or give those that exist the configuration that
stands there; runs that wait for their time take it too. All files are checked before
anything is applied. FILE may be a folder, whose .yaml, .yml and .json files are taken,
or - for stdin; -f may be repeated. A job without namespace and tenant belongs to those
of --namespace and --tenant.`,
		Example: "  orreryd job apply -f nightly.yaml\n  orreryd job apply -f jobs/ --dry-run",
		Args:    noArgs,
	}
	cmd.RunE = j.a.withClient(func(ctx context.Context, c *client, _ []string) error {
		read, err := j.read(cmd, files)
		if err != nil {
			return err
		}
		done := []applied{}
		for _, r := range read {
			a, err := j.applyOne(ctx, c, r, dryRun)
			if err != nil {
				return fmt.Errorf("%s: job %q: %w", r.file, r.spec.ID, err)
			}
			done = append(done, a)
			if !j.a.json {
				sayf(j.a.out, "job %s %s\n", clean(a.ID), a.Action)
			}
		}
		if j.a.json {
			return j.a.printJSON(map[string]any{"jobs": done})
		}
		return nil
	})
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`file` with jobs, a folder, or - for stdin; may be repeated")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the daemon check the jobs, and change nothing")
	return cmd
}

func (j *jobCommands) check() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check job files without a daemon, and say all that is wrong with them",
		Long: `Check job files without a daemon: every key, the schedule, the pod spec and the
constraints. Each error stands on a line of its own, as FILE:LINE:COLUMN: FIELD:
PROBLEM, which editors can follow. What only the daemon knows, such as which runners
there are, "orreryd job apply --dry-run" checks.`,
		Example: "  orreryd job check -f nightly.yaml",
		Args:    noArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		read, err := j.read(cmd, files)
		if err != nil {
			return err
		}
		var count []string
		for n, r := range read {
			if n == 0 || read[n-1].file != r.file {
				count = append(count, r.file)
			}
		}
		for _, file := range count {
			var ids []string
			for _, r := range read {
				if r.file == file {
					ids = append(ids, clean(r.spec.ID))
				}
			}
			if !j.a.json {
				sayf(j.a.out, "%s: ok: %s\n", clean(file), strings.Join(ids, ", "))
			}
		}
		if j.a.json {
			return j.a.printJSON(map[string]any{"files": count, "jobs": len(read)})
		}
		return nil
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`file` with jobs, a folder, or - for stdin; may be repeated")
	return cmd
}

// readJob is a job with the file in which it stands.
type readJob struct {
	file string
	spec core.JobSpec
}

// read reads all files, or says all that is wrong with them.
func (j *jobCommands) read(cmd *cobra.Command, files []string) ([]readJob, error) {
	if len(files) == 0 {
		return nil, usagef("-f is missing: name the file with the jobs, as in: %s -f nightly.yaml", cmd.CommandPath())
	}
	checker, err := constraints.New(constraints.Options{})
	if err != nil {
		return nil, err
	}
	o := jobfile.Options{Validate: checker.Validate}
	var read []readJob
	var wrong jobfile.Errors
	for _, name := range files {
		paths, err := jobFiles(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			specs, err := j.readOne(path, o)
			if all := jobfile.All(err); len(all) > 0 {
				wrong = append(wrong, all...)
			} else if err != nil {
				return nil, usagef("-f: %w", err)
			}
			for _, s := range specs {
				if s.Namespace, s.Tenant, err = j.scopeOf(cmd, s); err != nil {
					return nil, fmt.Errorf("%s: job %q: %w", path, s.ID, err)
				}
				read = append(read, readJob{path, s})
			}
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return read, nil
}

func (j *jobCommands) readOne(path string, o jobfile.Options) ([]core.JobSpec, error) {
	if path != "-" {
		return jobfile.Load(path, o)
	}
	data, err := io.ReadAll(io.LimitReader(j.a.in, jobfile.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	return jobfile.Parse("stdin", data, o)
}

// jobFiles gives the files that a name stands for.
func jobFiles(name string) ([]string, error) {
	if name == "-" || !isFolder(name) {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, usagef("-f: %w", err)
	}
	var paths []string
	for _, e := range entries { // in the order of their names
		if ext := strings.ToLower(filepath.Ext(e.Name())); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			paths = append(paths, filepath.Join(name, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, usagef("-f: the folder %s has no .yaml, .yml or .json file", name)
	}
	return paths, nil
}

// scopeOf gives the tenant of a job: what stands in the file must not be another
// one than a flag says.
func (j *jobCommands) scopeOf(cmd *cobra.Command, s core.JobSpec) (namespace, tenant string, err error) {
	pick := func(flag, inFile, inFlag string) string {
		if inFile == "" {
			return inFlag
		}
		if cmd.Flags().Changed(flag) && inFile != inFlag && err == nil {
			err = usagef("--%s is %q, and the file says %q", flag, short(inFlag, 60), short(inFile, 60))
		}
		return inFile
	}
	return pick("namespace", s.Namespace, j.scope.namespace), pick("tenant", s.Tenant, j.scope.tenant), err
}

// applyOne sends one job.
func (j *jobCommands) applyOne(ctx context.Context, c *client, r readJob, dryRun bool) (applied, error) {
	a := applied{File: r.file, ID: r.spec.ID}
	body, err := jobBody(r.spec)
	if err != nil {
		return a, err
	}
	q := url.Values{"namespace": {r.spec.Namespace}, "tenant": {r.spec.Tenant}}
	prefix := ""
	if dryRun {
		q.Set("dry_run", "true")
		prefix = "would be "
	}
	resp, err := c.do(ctx, request{method: http.MethodPut, path: j.jobs.of(r.spec.ID), query: q, body: body})
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	if a.Job, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return a, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	if !isJSON(resp) {
		return a, fmt.Errorf("%s does not answer as orreryd does: is --server right?", c.base)
	}
	a.Action = prefix + "updated"
	if resp.StatusCode == http.StatusCreated {
		a.Action = prefix + "created"
	}
	return a, nil
}

// jobBody is the body of PUT /v1/jobs/{id}: the spec without what the request says
// elsewhere.
func jobBody(s core.JobSpec) (map[string]json.RawMessage, error) {
	b, err := plainJSON(s)
	if err != nil {
		return nil, err
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(b, &body); err != nil {
		return nil, err
	}
	for _, k := range []string{"id", "namespace", "tenant"} {
		delete(body, k)
	}
	return body, nil
}
