package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobfile"
)

// planned is what PUT /v1/jobs/{id}?dry_run=true answers, with the job as it came.
type planned struct {
	wire.JobPlanned
	Job json.RawMessage `json:"job"`
}

// applied says what became of a job, for programs.
type applied struct {
	File   string          `json:"file"`
	ID     string          `json:"id"`
	Action string          `json:"action"` // create, update or keep
	DryRun bool            `json:"dry_run"`
	Job    json.RawMessage `json:"job"`

	before, after []effects.Time // when it runs next
}

// moved says when the job runs next, if that was another time before.
func (a applied) moved() string {
	if a.Action != "update" || slices.Equal(a.before, a.after) {
		return ""
	}
	list := func(times []effects.Time) string {
		var texts []string
		for _, t := range times {
			texts = append(texts, shortTime(t))
		}
		return cmp.Or(strings.Join(texts, ", "), "none")
	}
	return fmt.Sprintf("  runs next (UTC): %s\n  before that:     %s\n", list(a.after), list(a.before))
}

// didWords say what was done.
var didWords = map[string]string{"create": "created", "update": "updated", "keep": "unchanged"}

func (j *jobCommands) apply() *cobra.Command {
	var files []string
	var dryRun, takeOver bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the jobs of a file, or give them the configuration that stands there",
		Long: `Make the jobs that stand in a file, or give those that exist the configuration that
stands there; runs that wait for their time take it too. All jobs are checked, also by
the daemon, before the first is applied; one that is so already is left alone. FILE may
be a folder, whose .yaml, .yml and .json files are taken, or - for stdin; -f may be
repeated. A job without namespace and tenant belongs to those of --namespace and --tenant.`,
		Example: "  orreryd job apply -f nightly.yaml\n  orreryd job apply -f jobs/ --dry-run",
		Args:    onlyFiles,
	}
	cmd.RunE = j.a.withClient(func(ctx context.Context, c *client, _ []string) error {
		read, wrong, err := j.read(cmd, files)
		if err != nil {
			return err
		}
		for _, e := range wrong {
			text.Sayf(j.a.err, "%s\n", text.Clean(e.Error()))
		}
		if err := unusable(wrong); err != nil {
			return err
		}
		// The daemon looks at all of them before the first is applied.
		plans := make([]applied, len(read))
		for i, r := range read {
			if plans[i], err = j.send(ctx, c, r, true, takeOver); err != nil {
				return refused(r, err)
			}
			j.warn(r)
		}
		for i, r := range read {
			if plans[i].DryRun = dryRun; !dryRun && plans[i].Action != "keep" {
				if plans[i], err = j.send(ctx, c, r, false, takeOver); err != nil {
					return refused(r, err)
				}
			}
			if j.a.json {
				continue
			}
			did := didWords[plans[i].Action]
			if dryRun && plans[i].Action != "keep" {
				did = "would be " + did
			}
			text.Sayf(j.a.out, "job %s %s\n%s", text.Clean(r.spec.ID), did, plans[i].moved())
		}
		if j.a.json {
			return j.a.printJSON(map[string]any{"jobs": plans})
		}
		return nil
	})
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`file` with jobs, a folder, or - for stdin; may be repeated")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the daemon check the jobs, and change nothing")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, takeOverUsage)
	return cmd
}

func (j *jobCommands) check() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check job files without a daemon, and say all that is wrong with them",
		Long: `Check job files without a daemon: every key, the schedule, the pod spec and the
constraints. Each error stands on a line of its own, as FILE:LINE:COLUMN: FIELD:
PROBLEM, which editors can follow; the exit code is 1 where there is one. What only
the daemon knows, such as which runners there are, "orreryd job apply --dry-run"
checks.`,
		Example: "  orreryd job check -f nightly.yaml",
		Args:    onlyFiles,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		read, wrong, err := j.read(cmd, files)
		if err != nil {
			return err
		}
		if err := j.printChecked(read, wrong); err != nil {
			return err
		}
		return unusable(wrong)
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`file` with jobs, a folder, or - for stdin; may be repeated")
	return cmd
}

// printChecked says what is wrong, and which jobs the files have that can be used.
func (j *jobCommands) printChecked(read []readJob, wrong jobfile.Errors) error {
	files := []string{}
	ids := map[string][]string{}
	for _, r := range read {
		if ids[r.file] == nil {
			files = append(files, r.file)
		}
		ids[r.file] = append(ids[r.file], text.Clean(r.spec.ID))
	}
	for _, r := range read {
		j.warn(r)
	}
	var says strings.Builder
	for _, e := range wrong {
		fmt.Fprintln(&says, text.Clean(e.Error()))
	}
	for _, file := range files {
		fmt.Fprintf(&says, "%s: ok: %s\n", text.Clean(file), strings.Join(ids[file], ", "))
	}
	return j.a.show(map[string]any{"files": files, "jobs": len(read), "errors": append(jobfile.Errors{}, wrong...)}, says.String())
}

// warn says on stderr what of a job's schedule means something else than it seems to.
func (j *jobCommands) warn(r readJob) {
	for _, w := range r.spec.Warnings() {
		text.Sayf(j.a.err, "%s: warning: job %q: schedule: %s\n", text.Clean(r.file), text.Clean(r.spec.ID), text.Clean(w))
	}
}

// unusable is the error where something is wrong with job files.
func unusable(wrong jobfile.Errors) error {
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s in the job files", counted(len(wrong), "error"))
}

// onlyFiles refuses arguments: files are named with -f.
func onlyFiles(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments: name the file with -f, as in: %s -f %s", cmd.CommandPath(), cmd.CommandPath(), text.Clip(args[0], 60))
	}
	return nil
}

// readJob is a job with the file in which it stands.
type readJob struct {
	file string
	spec core.JobSpec
}

// read reads all files, and says all that is wrong with them.
func (j *jobCommands) read(cmd *cobra.Command, files []string) (read []readJob, wrong jobfile.Errors, err error) {
	if len(files) == 0 {
		return nil, nil, usagef("-f is missing: name the file with the jobs, as in: %s -f nightly.yaml", cmd.CommandPath())
	}
	checker, err := constraints.New(constraints.Options{})
	if err != nil {
		return nil, nil, err
	}
	o := jobfile.Options{Validate: checker.ValidateAnywhere}
	for _, name := range files {
		paths, err := jobFiles(name)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range paths {
			specs, err := j.readOne(path, o)
			if path == "-" {
				path = "stdin"
			}
			if all := jobfile.All(err); len(all) > 0 {
				wrong = append(wrong, all...)
			} else if err != nil {
				return nil, nil, usagef("-f: %w", err)
			}
			for _, s := range specs {
				if s.Namespace, s.Tenant, err = j.scopeOf(cmd, s); err != nil {
					return nil, nil, fmt.Errorf("%s: job %q: %w", path, s.ID, err)
				}
				if n := slices.IndexFunc(read, func(r readJob) bool {
					return r.spec.Namespace == s.Namespace && r.spec.Tenant == s.Tenant && r.spec.ID == s.ID
				}); n >= 0 {
					wrong = append(wrong, jobfile.Error{File: path, Line: 1, Column: 1, Field: "id", Problem: fmt.Sprintf("the job %q is in %s already", text.Clip(s.ID, 80), read[n].file)})
					continue
				}
				read = append(read, readJob{path, s})
			}
		}
	}
	return read, wrong, nil
}

// refusedJob is what the daemon says of a job, with its fields named as in the file.
type refusedJob struct {
	job readJob
	err error
}

// refused names the job in the daemon's error; if no daemon answered, the error stays.
func refused(job readJob, err error) error {
	if isNoDaemon(err) {
		return err
	}
	return &refusedJob{job, err}
}

func (e *refusedJob) Error() string {
	return fmt.Sprintf("%s: job %q: %s", e.job.file, e.job.spec.ID, jobfile.InFile(e.err.Error()))
}

func (e *refusedJob) Unwrap() error { return e.err }

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
			err = usagef("--%s is %q, and the file says %q", flag, text.Clip(inFlag, 60), text.Clip(inFile, 60))
		}
		return inFile
	}
	return pick("namespace", s.Namespace, j.scope.namespace), pick("tenant", s.Tenant, j.scope.tenant), err
}

// send asks what applying a job would do, or does it.
func (j *jobCommands) send(ctx context.Context, c *client, r readJob, dryRun, takeOver bool) (applied, error) {
	a := applied{File: r.file, ID: r.spec.ID, DryRun: dryRun}
	body, err := jobBody(r.spec)
	if err != nil {
		return a, err
	}
	scope := scoped{r.spec.Namespace, r.spec.Tenant}
	q := scope.query()
	if dryRun {
		q.Set("dry_run", "true")
	}
	var p planned
	raw, err := c.json(ctx, request{method: http.MethodPut, path: j.jobs.of(r.spec.ID), query: q, body: body, header: takingOver(takeOver)}, &p)
	if err != nil {
		return a, err
	}
	a.Action, a.Job, a.before = p.Would, p.Job, p.NextTimesBefore
	if !dryRun {
		a.Action, a.Job = "update", raw
	}
	var job struct {
		CreatedAt effects.Time   `json:"created_at"`
		UpdatedAt effects.Time   `json:"updated_at"`
		NextTimes []effects.Time `json:"next_times"`
	}
	if err := json.Unmarshal(a.Job, &job); err != nil {
		return a, err
	}
	if a.after = job.NextTimes; !dryRun && job.CreatedAt == job.UpdatedAt {
		a.Action = "create"
	}
	return a, nil
}

// jobBody is the body of PUT /v1/jobs/{id}: the spec without what the request says
// elsewhere.
func jobBody(s core.JobSpec) (map[string]json.RawMessage, error) {
	b, err := text.PlainJSON(s)
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
