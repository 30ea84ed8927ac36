package setfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobfile"
)

// File is a file of a set, as [Marshal] writes it.
type File struct {
	// Name is such as "default-reports.toml", or "default-reports-nightly.yaml" of a job: letters, digits, ".", "_" and "-"
	// alone, whatever the tenant is called, and no two differ in upper and lower case only.
	Name string
	Data []byte
}

// Marshal writes declarations as files, which [Load] reads as the same ones: one in TOML for each namespace and tenant, and one
// for each job. What has its default is left out. Recurring actions without a name cannot be declared: the error names
// the first one.
func Marshal(entries []shell.SetEntry) ([]File, error) {
	bodies := map[core.Scope]*body{}
	var scopes []core.Scope
	var jobs []File
	names := fileNames{}
	for _, e := range entries {
		_, of, _ := e.About()
		if e.Job != nil {
			data, err := jobfile.Marshal(*e.Job)
			if err != nil {
				return nil, fmt.Errorf("job %q: %w", e.Job.ID, err)
			}
			jobs = append(jobs, File{Name: names.of(".yaml", of.Namespace, of.Tenant, e.Job.ID), Data: data})
			continue
		}
		if bodies[of] == nil {
			scopes = append(scopes, of)
			bodies[of] = &body{Namespace: of.Namespace, Tenant: of.Tenant}
		}
		if err := bodies[of].add(e); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(scopes, core.Scope.Compare)
	var files []File
	for _, of := range scopes {
		data, err := marshal(*bodies[of])
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: names.of(".toml", of.Namespace, of.Tenant), Data: data})
	}
	return append(files, jobs...), nil
}

// fileNames are the names that were given, in lower case.
type fileNames map[string]bool

// maxFileName bounds the name of a file, but for its ending.
const maxFileName = 120

// of gives the name of the file of a tenant or a job, which may be called what no file could be.
func (f fileNames) of(ending string, parts ...string) string {
	said := strings.Join(parts, "-")
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, said)
	name = name[:min(len(name), maxFileName)]
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") { // hidden files are not read, and "-" begins an option
		name = "_" + name[1:]
	}
	if name != said || f[strings.ToLower(name+ending)] {
		sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
		name += "-" + hex.EncodeToString(sum[:8])
	}
	f[strings.ToLower(name+ending)] = true
	return name + ending
}

// MarshalOne writes one declaration as it stands in a file: the table of a file in TOML, or a job file.
func MarshalOne(e shell.SetEntry) ([]byte, error) {
	if e.Job != nil {
		return jobfile.Marshal(*e.Job)
	}
	var b body
	if err := b.add(e); err != nil {
		return nil, err
	}
	return marshal(b)
}

// add puts a declaration into its table.
func (b *body) add(e shell.SetEntry) error {
	switch {
	case e.Recurring != nil && e.Recurring.Name == "":
		return fmt.Errorf("recurring action %s (%s) has no name, by which a file would declare it: give it one", e.Recurring.ID, cmp.Or(e.Recurring.Description, e.Recurring.CronExpr))
	case e.Recurring != nil:
		put(&b.Recurring, e.Recurring.Name, tableOf(*e.Recurring))
	case e.Queue != nil:
		put(&b.Queues, e.Queue.Name, tableOfQueue(e.Queue.Config))
	case e.Semaphore != nil:
		put(&b.Semaphores, e.Semaphore.Name, semaphoreTable{e.Semaphore.Slots})
	case e.Worker != nil:
		put(&b.Workers, e.Worker.Name, tableOfWorker(*e.Worker))
	case e.Calendar != nil:
		put(&b.Calendars, e.Calendar.Name, tableOfCalendar(*e.Calendar))
	case e.Subscriber != nil:
		put(&b.Subscribers, e.Subscriber.Name, tableOfSubscriber(*e.Subscriber))
	}
	return nil
}

func put[T any](into *map[string]T, name string, t T) {
	if *into == nil {
		*into = map[string]T{}
	}
	(*into)[name] = t
}

// header matches the header of a table that has no keys of its own.
var header = regexp.MustCompile(`(?m)^\[(?:calendars|queues|semaphores|workers|recurring|subscribers)\]\n`)

func marshal(b body) ([]byte, error) {
	var out bytes.Buffer
	enc := toml.NewEncoder(&out)
	enc.SetArraysMultiline(false)
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("write the file of the set: %w", err)
	}
	return bytes.TrimPrefix(header.ReplaceAll(out.Bytes(), nil), []byte("\n")), nil
}
