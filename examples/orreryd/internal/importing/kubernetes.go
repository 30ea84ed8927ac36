package importing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// KubernetesOptions say what manifests do not.
type KubernetesOptions struct {
	// Zone is the one of CronJobs without a timeZone: that of the cluster's controller manager. Empty: UTC.
	Zone string
	// Runner is the runner of the jobs. Empty: the daemon's default one.
	Runner string
	// Now is the time from which changes of the clocks are looked for, and impossible dates.
	Now time.Time
}

// Kubernetes makes job files of the CronJobs of manifests, one file of each: several documents, and lists, as kubectl prints them.
// Other manifests are named in the notes. If one is wrong, nothing is made, and the error is [Errors].
func Kubernetes(sources []Source, o KubernetesOptions) (Result, error) {
	zone, err := schedule.LoadZone(cmp.Or(o.Zone, "UTC"))
	if err != nil {
		return Result{}, err
	}
	o.Zone = zone.Name()
	m := &manifests{o: o, now: effects.TimeOf(o.Now), ids: map[string]bool{}, files: map[string]bool{}}
	for _, s := range sources {
		if err := s.check(); err != nil {
			return Result{}, err
		}
		notes, errs := len(m.result.Notes), len(m.errs)
		m.read(s)
		slices.SortStableFunc(m.result.Notes[notes:], func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
		slices.SortStableFunc(m.errs[errs:], func(a, b Error) int { return cmp.Compare(a.Line, b.Line) })
	}
	if len(m.errs) > 0 {
		return Result{}, m.errs
	}
	return m.result, nil
}

// manifests are manifests that are imported together.
type manifests struct {
	o          KubernetesOptions
	now        effects.Time
	errs       Errors
	result     Result
	ids, files map[string]bool
}

// A manifest is an object in a source.
type manifest struct {
	source string
	line   int            // of its first line
	node   *yamlnode.Node // for the lines of its fields
	tree   map[string]any
	raw    []byte // JSON
}

var separator = regexp.MustCompile(`^---(\s|$)`)

// read reads all documents of a source.
func (m *manifests) read(s Source) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(s.Text), "\ufeff"), "\r\n", "\n")
	var doc []string
	first := 1
	end := func(next int) {
		if strings.TrimSpace(strings.Join(doc, "")) != "" {
			m.document(s.Name, strings.Join(doc, "\n"), first)
		}
		doc, first = nil, next
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if separator.MatchString(line) {
			end(i + 1)
			line = line[len("---"):]
		}
		doc = append(doc, line)
	}
	end(0)
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// document reads one document, whose first line is the line first of the source.
func (m *manifests) document(source, text string, first int) {
	say := func(err error) {
		problem := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
		line := first
		if at := yamlLine.FindStringSubmatchIndex(problem); at != nil {
			n, _ := strconv.Atoi(problem[at[2]:at[3]])
			line += n - 1
			problem = problem[:at[0]] + problem[at[1]:]
		}
		if strings.Contains(text, "{{") {
			problem += ": this is a template: import what it renders, as by helm template"
		}
		m.say(source, line, "", "it is no YAML: %s", strings.TrimSpace(strings.ReplaceAll(problem, "\n", " ")))
	}
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		say(err)
		return
	}
	var node yamlnode.Node
	if err := yamlnode.Unmarshal([]byte(text), &node); err != nil {
		say(err)
		return
	}
	if string(raw) == "null" || len(node.Content) == 0 {
		return // comments alone
	}
	shift(&node, first-1)
	m.object(&manifest{source: source, node: node.Content[0], raw: raw})
}

// shift moves the lines of a tree.
func shift(n *yamlnode.Node, by int) {
	n.Line += by
	for _, c := range n.Content {
		shift(c, by)
	}
}

// object reads an object: a CronJob, or a list of objects.
func (m *manifests) object(o *manifest) {
	o.line = o.node.Line
	if err := json.Unmarshal(o.raw, &o.tree); err != nil || o.tree == nil {
		m.say(o.source, o.line, "", "it is no object: want a manifest with apiVersion, kind, metadata and spec")
		return
	}
	kind, _ := o.tree["kind"].(string)
	version, _ := o.tree["apiVersion"].(string)
	switch {
	case kind == "":
		m.say(o.source, o.line, "kind", "it is missing: want a manifest of kind CronJob")
	case strings.HasSuffix(kind, "List"):
		items, _ := o.tree["items"].([]any)
		node := o.at("items")
		if len(items) == 0 || node.Kind != yamlnode.SequenceNode {
			m.note(o, 0, kind, "it is empty")
			return
		}
		for i, item := range items {
			raw, err := json.Marshal(item)
			if err != nil {
				m.say(o.source, node.Content[i].Line, "", "%s", err)
				continue
			}
			m.object(&manifest{source: o.source, node: node.Content[i], raw: raw})
		}
	case kind != "CronJob":
		text := "it is no CronJob: it is left out"
		if kind == "Job" {
			text = "a Job has no schedule: it is left out. A job without a schedule is triggered by hand (orreryd job trigger)"
		}
		m.note(o, 0, kind+" "+o.name(), "%s", text)
	case !slices.Contains([]string{"batch/v1", "batch/v1beta1", "batch/v2alpha1"}, version):
		m.say(o.source, o.at("apiVersion").Line, "apiVersion", "%q is none of a CronJob: want batch/v1", clip(version))
	default:
		m.cronJob(o)
	}
}

// name is that of an object, with its namespace if it has one.
func (o *manifest) name() string {
	meta, _ := o.tree["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// at finds the value of a field, or the deepest one on the way to it.
func (o *manifest) at(path string) *yamlnode.Node {
	n := o.node
	for path != "" {
		for n.Kind == yamlnode.AliasNode {
			n = n.Alias
		}
		next, rest := step(n, strings.TrimPrefix(path, "."))
		if next == nil {
			return n
		}
		n, path = next, rest
	}
	return n
}

// step goes one step of a path such as containers[0].image; nil: there is no such field.
func step(n *yamlnode.Node, path string) (next *yamlnode.Node, rest string) {
	if inner, after, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok && path[0] == '[' {
		if i, err := strconv.Atoi(inner); err == nil && n.Kind == yamlnode.SequenceNode && i < len(n.Content) {
			return n.Content[i], after
		}
		return nil, ""
	}
	if n.Kind != yamlnode.MappingNode {
		return nil, ""
	}
	end := len(path)
	if i := strings.IndexAny(path, ".["); i >= 0 {
		end = i
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Value == path[:end] {
			v := *n.Content[i+1]
			v.Line = k.Line // where the field begins
			return &v, path[end:]
		}
	}
	return nil, ""
}

func (m *manifests) say(source string, line int, field, format string, args ...any) {
	if len(m.errs) <= maxErrors {
		m.errs = append(m.errs, Error{File: source, Line: max(line, 1), Column: 1, Field: field, Problem: fmt.Sprintf(format, args...)})
	}
}

// note notes what is not the same; line 0: that of the object.
func (m *manifests) note(o *manifest, line int, about, format string, args ...any) {
	m.result.Notes = append(m.result.Notes, Note{Source: o.source, Line: cmp.Or(line, o.line), About: about, Text: fmt.Sprintf(format, args...)})
}

// write adds the file of a job.
func (m *manifests) write(o *manifest, id string, comments []string, text []byte) {
	var b bytes.Buffer
	for _, c := range append([]string{fmt.Sprintf("%s:%d: CronJob %s", o.source, o.line, o.name())}, comments...) {
		fmt.Fprintf(&b, "# %s\n", comment(c))
	}
	b.Write(text)
	m.result.Files = append(m.result.Files, File{Name: unique(cmp.Or(plainName(id), "job"), m.files) + ".yaml", Text: b.Bytes()})
	m.result.Made++
}
