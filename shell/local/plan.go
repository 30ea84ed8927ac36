package local

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/internal/inherit"
	"github.com/orrery-go/orrery/shell/jobs"
)

const (
	planVersion  = 1
	defaultGrace = 30        // seconds, as in Kubernetes
	maxGrace     = 24 * 3600 // a longer one is cut
	maxRunMS     = 1 << 40   // 35 years: what a timer can be set to
	// overrunSlackMS is how much later than Orrery the supervisor ends a pod that runs
	// for too long: it is there for the case that Orrery is gone.
	overrunSlackMS = 60_000
)

// workDir is the pod's own working directory, in its directory.
const workDir = "work"

// podDirVar marks all processes of a pod: it holds the pod's directory, which no
// other pod of this machine has.
const podDirVar = "ORRERY_POD_DIR"

// plan is all that a supervisor is told of its pod.
type plan struct {
	Version int    `json:"version"`
	RunID   string `json:"run_id"`
	UID     string `json:"uid"`
	// Database is that of the run; empty: nobody has said.
	Database string    `json:"database,omitempty"`
	Init     []program `json:"init,omitempty"`
	Main     []program `json:"main"`
	// GraceSeconds is the time between SIGTERM and SIGKILL.
	GraceSeconds int64 `json:"grace_seconds"`
	// DeadlineSeconds bounds the pod's life; 0: no bound.
	DeadlineSeconds int64 `json:"deadline_seconds,omitempty"`
	// MaxRunMS bounds its running state; 0: no bound.
	MaxRunMS    int64 `json:"max_run_ms,omitempty"`
	MaxLogBytes int64 `json:"max_log_bytes"`
	// User is who the programs run as; nil: the supervisor's user.
	User *confine.User `json:"user,omitempty"`
	// Group is the control group of the programs; nil: none.
	Group *groupPlan `json:"group,omitempty"`
}

// groupPlan is the control group that a pod is to have.
type groupPlan struct {
	Root   string         `json:"root"` // the directory in which it is made
	Limits confine.Limits `json:"limits"`
}

// runAs has the programs run as a user: its variables take the place of the daemon's.
func (p *plan) runAs(u *confine.User) {
	p.User = u
	daemon := inherited()
	for _, programs := range [][]program{p.Init, p.Main} {
		for i := range programs {
			env := slices.DeleteFunc(programs[i].Env, func(entry string) bool {
				name, value, _ := strings.Cut(entry, "=")
				return (name == "HOME" || name == "USER" || name == "LOGNAME") && value == daemon[name]
			})
			for _, entry := range u.Environ() {
				name, _, _ := strings.Cut(entry, "=")
				if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
					env = append(env, entry)
				}
			}
			slices.Sort(env)
			programs[i].Env = env
		}
	}
}

// program is a container as it is to be run.
type program struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// planOf makes the plan of an attempt whose files are in dir.
func planOf(r jobs.Run, dir, node, uid string, maxLog int64) (plan, error) {
	pod, err := checkedSpec(r.Spec)
	if err != nil {
		return plan{}, err
	}
	p := plan{
		Version:      planVersion,
		RunID:        r.RunID,
		UID:          uid,
		GraceSeconds: defaultGrace,
		MaxLogBytes:  maxLog,
	}
	if pod.TerminationGracePeriodSeconds != nil {
		p.GraceSeconds = min(*pod.TerminationGracePeriodSeconds, maxGrace)
	}
	if pod.ActiveDeadlineSeconds != nil {
		p.DeadlineSeconds = *pod.ActiveDeadlineSeconds
	}
	if r.MaxAllowedRunTimeMS > 0 {
		p.MaxRunMS = min(r.MaxAllowedRunTimeMS, maxRunMS) + overrunSlackMS
	}
	p.Init, p.Main, err = programsOf(pod, r, dir, fieldValues(r, node, uid))
	return p, err
}

// maxExpanded bounds what the commands, args and env of a pod are once their
// variables are written out: these may name one another, and so double with each
// line. It is about what the system lets one process begin with.
const maxExpanded = 2 << 20

// programsOf gives the programs of both lists of containers.
func programsOf(pod *corev1.PodSpec, r jobs.Run, dir string, fields func(path string) (string, bool)) (init, main []program, err error) {
	room := maxExpanded
	if init, err = programsIn("initContainers", pod.InitContainers, r, dir, fields, &room); err == nil {
		main, err = programsIn("containers", pod.Containers, r, dir, fields, &room)
	}
	return init, main, err
}

func programsIn(list string, all []corev1.Container, r jobs.Run, dir string, fields func(path string) (string, bool), room *int) ([]program, error) {
	var programs []program
	for i, c := range all {
		p := programOf(c, r, dir, fields, room)
		if *room < 0 {
			return nil, permanent("pod_spec.%s[%d]: up to here the commands, args and env have more than %d bytes, once $(NAME) is written out", list, i, maxExpanded)
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// programOf takes what is written out from room, and stops where that is below 0.
func programOf(c corev1.Container, r jobs.Run, dir string, fields func(path string) (string, bool), room *int) program {
	own := map[string]string{podDirVar: dir}
	for _, v := range r.Env() {
		own[v.Name] = v.Value
	}
	vars := maps.Clone(own)
	env := inherited()
	for _, e := range c.Env {
		value := expand(e.Value, vars)
		if e.ValueFrom != nil {
			value, _ = fields(e.ValueFrom.FieldRef.FieldPath) // checked: it is known
		}
		if *room -= len(e.Name) + len(value); *room < 0 {
			return program{}
		}
		vars[e.Name] = value
		env[e.Name] = value
	}
	for name, value := range own {
		if _, set := env[name]; !set || name == podDirVar || jobs.SetsEnv(name) {
			env[name] = value
		}
	}
	p := program{Name: c.Name, Dir: c.WorkingDir}
	if p.Dir == "" {
		p.Dir = filepath.Join(dir, workDir)
	}
	for _, word := range slices.Concat(c.Command, c.Args) {
		word = expand(word, vars)
		if *room -= len(word); *room < 0 {
			return program{}
		}
		p.Argv = append(p.Argv, word)
	}
	for name, value := range env {
		p.Env = append(p.Env, name+"="+value)
	}
	slices.Sort(p.Env)
	return p
}

// inherited gives what containers get of the daemon's own environment.
func inherited() map[string]string {
	env := map[string]string{}
	for _, entry := range inherit.Environ(command.DefaultInheritEnv()) {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// expand replaces $(NAME) by the variable's value, as Kubernetes does: what is
// unknown stays as it is, and $$ stands for a dollar sign. What is longer than
// maxExpanded is cut off somewhere after it.
func expand(s string, vars map[string]string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found || b.Len() > maxExpanded {
			return b.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := vars[name]
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			s = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			b.WriteString(value)
			s = rest
		case strings.HasPrefix(after, "(") && closed:
			// What is inside is not looked at once more.
			b.WriteString("$(" + name + ")")
			s = rest
		default:
			b.WriteByte('$')
			s = after
		}
	}
}

var labelField = regexp.MustCompile(`^metadata\.labels\['([^']+)'\]$`)

// fieldValues gives the values of the fields that a fieldRef can name.
func fieldValues(r jobs.Run, node, uid string) func(path string) (string, bool) {
	return func(path string) (string, bool) {
		switch path {
		case "metadata.name":
			return r.Name(), true
		case "metadata.namespace":
			return r.Namespace, true
		case "metadata.uid":
			return uid, true
		case "spec.nodeName":
			return node, true
		}
		if m := labelField.FindStringSubmatch(path); m != nil {
			return r.Spec.Labels[m[1]], true // empty where there is none, as in Kubernetes
		}
		return "", false
	}
}

// checkedSpec reads the pod spec of a job, and refuses what cannot be run here.
func checkedSpec(spec core.JobSpec) (*corev1.PodSpec, error) {
	pod, err := parsePod(spec.PodSpec)
	if err != nil {
		return nil, shell.Permanent(err)
	}
	if err := checkPod(pod); err != nil {
		return nil, shell.Permanent(err)
	}
	some := jobs.Run{Spec: spec}
	if _, _, err := programsOf(pod, some, "", fieldValues(some, "", "")); err != nil {
		return nil, err
	}
	return pod, nil
}

func checkPod(pod *corev1.PodSpec) error {
	if err := checkFields("pod_spec", pod, podFields); err != nil {
		return err
	}
	switch {
	case pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyNever:
		return fmt.Errorf("pod_spec.restartPolicy: %q: must be %q: Orrery tries again by itself", pod.RestartPolicy, corev1.RestartPolicyNever)
	case len(pod.Containers) == 0:
		return errors.New("pod_spec.containers: missing: give at least one")
	case pod.TerminationGracePeriodSeconds != nil && *pod.TerminationGracePeriodSeconds < 0:
		return fmt.Errorf("pod_spec.terminationGracePeriodSeconds: %d must not be negative", *pod.TerminationGracePeriodSeconds)
	case pod.ActiveDeadlineSeconds != nil && (*pod.ActiveDeadlineSeconds < 1 || *pod.ActiveDeadlineSeconds > 1<<31-1):
		return fmt.Errorf("pod_spec.activeDeadlineSeconds: %d is not between 1 and %d", *pod.ActiveDeadlineSeconds, 1<<31-1)
	}
	names := map[string]bool{}
	for _, list := range []struct {
		field string
		all   []corev1.Container
	}{{"initContainers", pod.InitContainers}, {"containers", pod.Containers}} {
		for i, c := range list.all {
			field := fmt.Sprintf("pod_spec.%s[%d]", list.field, i)
			if err := checkContainer(field, c); err != nil {
				return err
			}
			if names[c.Name] {
				return fmt.Errorf("%s.name: %q is the name of another container too", field, c.Name)
			}
			names[c.Name] = true
		}
	}
	return nil
}

// A container's name is a file's name too.
var goodName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func checkContainer(field string, c corev1.Container) error {
	if err := checkFields(field, c, containerFields); err != nil {
		return err
	}
	switch {
	case !goodName.MatchString(c.Name):
		return fmt.Errorf("%s.name: %q is no name of a container: use up to 63 of a-z, 0-9 and -, such as \"main\"", field, c.Name)
	case len(c.Command) == 0:
		return fmt.Errorf("%s.command: missing: what the image would run is not known here", field)
	case c.Command[0] == "":
		return fmt.Errorf("%s.command[0]: is empty: give the program to run", field)
	case c.WorkingDir != "" && !filepath.IsAbs(c.WorkingDir):
		return fmt.Errorf("%s.workingDir: %q is not an absolute path", field, c.WorkingDir)
	case strings.ContainsRune(c.WorkingDir, 0):
		return fmt.Errorf("%s.workingDir: has a NUL byte", field)
	case hasNUL(c.Command):
		return fmt.Errorf("%s.command: has a NUL byte", field)
	case hasNUL(c.Args):
		return fmt.Errorf("%s.args: has a NUL byte", field)
	}
	for i, e := range c.Env {
		field := fmt.Sprintf("%s.env[%d]", field, i)
		switch {
		case e.Name == "" || strings.ContainsAny(e.Name, "=\x00"):
			return fmt.Errorf("%s.name: %q is no name of a variable", field, e.Name)
		case e.Name == podDirVar || jobs.SetsEnv(e.Name):
			return fmt.Errorf("%s.name: %q is set by Orrery", field, e.Name)
		case strings.ContainsRune(e.Value, 0):
			return fmt.Errorf("%s.value: has a NUL byte", field)
		case e.ValueFrom == nil:
			continue
		case e.ValueFrom.FieldRef == nil:
			return fmt.Errorf("%s.valueFrom: of these, only fieldRef has a meaning here: use value", field)
		}
		if _, known := fieldValues(jobs.Run{}, "", "")(e.ValueFrom.FieldRef.FieldPath); !known {
			return fmt.Errorf("%s.valueFrom.fieldRef.fieldPath: %q is not known here: use metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'] or spec.nodeName", field, e.ValueFrom.FieldRef.FieldPath)
		}
	}
	return nil
}

func hasNUL(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.ContainsRune(word, 0) })
}
