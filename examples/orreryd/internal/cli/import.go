package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/examples/orreryd/internal/importing"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// importCommand groups what makes files of what other programs have. No daemon is asked.
func (a *app) importCommand() *cobra.Command {
	return group("import", "Make files of the schedules of cron or Kubernetes",
		"Make files of the schedules that another program has. They are printed, or written into a\nfolder; what is not the same here is said on stderr. No daemon is asked.",
		a.importCrontab(), a.importKubernetes())
}

// importingTo are the flags of all imports, and what they do.
type importingTo struct {
	a     *app
	dir   string // --out
	force bool
	what  string // what is made: one of it
	apart string // stands between two files on standard output
}

func (i *importingTo) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&i.dir, "out", "o", "", "write the files into that `folder`, instead of printing them; it is made if it is not there")
	cmd.Flags().BoolVar(&i.force, "force", false, "with --out: write over files that are there already")
}

func (a *app) importCrontab() *cobra.Command {
	to := &importingTo{a: a, what: "recurring action"}
	var system, user bool
	var o importing.CrontabOptions
	var runAs []string
	cmd := &cobra.Command{
		Use:   "crontab FILE...",
		Short: "Make recurring actions of the lines of crontabs",
		Long: `Make recurring actions of the lines of crontabs, as TOML: one table for each line, named
after its command. FILE is what crontab -l prints, or a system crontab, whose lines have
a user before the command: /etc/crontab and the files of /etc/cron.d are taken for such.
- is stdin. Commands run by the shell that cron would take, with the variables of the file.
What is not the same here stands on stderr, each with its line. If cron itself would not take
a line, nothing is made, and all such lines are named.`,
		Example: "  crontab -l | orreryd import crontab -\n  orreryd import crontab /etc/crontab /etc/cron.d/* --run-as root=as-root -o schedules",
		Args:    someFiles,
	}
	to.addFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&system, "system", false, "the lines have a user before the command")
	f.BoolVar(&user, "user", false, "the lines have no user, wherever the file is")
	f.StringVar(&o.Zone, "tz", "", "time `zone` of the lines (default that of this machine)")
	f.StringVar(&o.Dir, "dir", "", "absolute path of the `folder` in which commands begin, as in cron in the home of the user")
	f.StringArrayVar(&runAs, "run-as", nil, "tool for the lines of a user, as `USER=TOOL`: one of the type command, with run_as; may be repeated")
	completeZone(cmd)
	cmd.RunE = func(_ *cobra.Command, files []string) error {
		tools, err := parsePairs("run-as", runAs)
		switch {
		case err != nil:
			return err
		case system && user:
			return usagef("--system and --user contradict each other: give one of them, or none")
		case o.Dir != "" && !filepath.IsAbs(o.Dir):
			return usagef("--dir: %q is no absolute path", text.Clip(o.Dir, 80))
		}
		o.Tools, o.Now = tools, time.Now()
		if err := checkZone(o.Zone); err != nil {
			return err
		}
		if o.Zone == "" {
			zone, from := localZone(a.env, os.Readlink)
			text.Sayf(a.err, "times are read in %s, %s\n", zone, from)
			o.Zone = zone
		}
		sources, err := a.sources(files, "crontab")
		if err != nil {
			return err
		}
		for i, s := range sources {
			sources[i].System = system || !user && isSystemCrontab(s.Name)
		}
		r, err := importing.Crontab(sources, o)
		return to.finish(r, err)
	}
	return cmd
}

func (a *app) importKubernetes() *cobra.Command {
	to := &importingTo{a: a, what: "job", apart: "---\n"}
	var o importing.KubernetesOptions
	cmd := &cobra.Command{
		Use:   "kubernetes FILE...",
		Short: "Make job files of the CronJobs of Kubernetes manifests",
		Long: `Make job files of the CronJobs of Kubernetes manifests, as YAML, one for each: what
"orreryd job apply" takes. FILE may have several documents, or lists as kubectl prints
them; - is stdin. Whatever of a CronJob has no place in a job stands on stderr, with its
line, and so does each manifest of another kind, which is left out. If a CronJob is wrong,
nothing is made, and all that is wrong is named.`,
		Example: "  kubectl get cronjobs -o yaml | orreryd import kubernetes - -o jobs\n  helm template . | orreryd import kubernetes - --runner cluster | orreryd job apply -f -",
		Args:    someFiles,
	}
	to.addFlags(cmd)
	cmd.Flags().StringVar(&o.Zone, "tz", "", "time `zone` of CronJobs that say none (default UTC)")
	cmd.Flags().StringVar(&o.Runner, "runner", "", "`name` of the runner of the jobs (default that of the daemon)")
	completeZone(cmd)
	cmd.RunE = func(_ *cobra.Command, files []string) error {
		if err := checkZone(o.Zone); err != nil {
			return err
		}
		sources, err := a.sources(files, "jobs")
		if err != nil {
			return err
		}
		o.Now = time.Now()
		r, err := importing.Kubernetes(sources, o)
		return to.finish(r, err)
	}
	return cmd
}

// isSystemCrontab reports whether a file is one of cron's own, by its place.
func isSystemCrontab(name string) bool {
	path, err := filepath.Abs(name)
	return err == nil && (path == "/etc/crontab" || filepath.Dir(path) == "/etc/cron.d")
}

// localZone is the time zone of this machine, and how it is known.
func localZone(env func(string) string, readlink func(string) (string, error)) (zone, from string) {
	const file, folder = "/etc/localtime", "/zoneinfo/"
	zone, from = strings.TrimPrefix(env("TZ"), ":"), "the value of TZ; --tz gives another one"
	if zone == "" {
		from = "the zone of this machine; --tz gives another one"
		if target, err := readlink(file); err == nil {
			_, zone, _ = strings.Cut(target, folder)
		}
	}
	loaded, err := schedule.LoadZone(zone)
	switch {
	case zone == "" || err != nil:
		return "UTC", "since that of this machine is not known; --tz gives another one"
	case loaded.Name() == "Etc/UTC":
		return "UTC", from
	}
	return loaded.Name(), from
}

// sources reads files; - is stdin, and called is what a file that is made of it is called.
func (a *app) sources(files []string, called string) ([]importing.Source, error) {
	var list []importing.Source
	for _, name := range files {
		s := importing.Source{Name: name}
		var err error
		if name == "-" {
			s.Name, s.FileName = "stdin", called
			s.Text, err = readSource(a.in)
		} else {
			s.Text, err = readSourceFile(name) // whose errors name the file
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func readSourceFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	return readSource(f)
}

// readSource reads no more than shows that a source is too large.
func readSource(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, importing.MaxBytes+1))
}

// finish prints or writes what was made, and says what is not the same.
func (i *importingTo) finish(r importing.Result, err error) error {
	if wrong, ok := errors.AsType[importing.Errors](err); ok {
		for _, e := range wrong {
			text.Sayf(i.a.err, "%s\n", text.Clean(e.Error()))
		}
		return fmt.Errorf("%s: nothing is made", counted(len(wrong), "error"))
	}
	if err != nil {
		return err
	}
	for _, n := range r.Notes {
		text.Sayf(i.a.err, "%s\n", text.Clean(n.String()))
	}
	if i.dir == "" {
		for n, f := range r.Files {
			if n > 0 {
				text.Sayf(i.a.out, "%s", i.apart)
			}
			text.Sayf(i.a.out, "%s", f.Text)
		}
	} else if err := i.write(r.Files); err != nil {
		return err
	}
	text.Sayf(i.a.err, "%s, %s about what is not the same\n", counted(r.Made, i.what), counted(len(r.Notes), "note"))
	return nil
}

// write writes the files: none if one is there already.
func (i *importingTo) write(files []importing.File) error {
	if err := os.MkdirAll(i.dir, 0o750); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(i.dir, f.Name)
		present, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist), err == nil && (i.force || bytes.Equal(present, f.Text)):
		case err != nil:
			return fmt.Errorf("--out: %w", err)
		default:
			return fmt.Errorf("--out: %s is there already, and is another one: nothing is written; --force writes over it", path)
		}
	}
	for _, f := range files {
		path := filepath.Join(i.dir, f.Name)
		if err := os.WriteFile(path, f.Text, 0o600); err != nil { // variables may be secrets
			return fmt.Errorf("--out: %w", err)
		}
		text.Sayf(i.a.out, "wrote %s\n", text.Clean(path))
	}
	return nil
}
