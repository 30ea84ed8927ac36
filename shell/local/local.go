// Package local runs the pods of jobs as processes of this machine (RunnerLocal): a
// [Runner] for package jobs, so that jobs run on a laptop without a cluster.
//
// # What a pod is here
//
// A directory below [Options].Dir with the attempt's name, and a supervisor: a
// process of its own that starts the containers' commands, takes their output,
// stops them, and writes down how they ended. The supervisor is this same program,
// started once more: a program that imports this package turns into one when it is
// started as such, before its main function. It belongs to no terminal and to no
// parent, so that pods go on when the daemon ends, be it by kill -9, and are found
// again when it is back. (A systemd unit needs KillMode=process for that; in a
// container its first process ought to be one that reaps, such as docker --init.)
//
// Containers run as Kubernetes runs them: init containers one after the other, then
// all others at once, each in a session of its own; the pod ends when all have, and
// the first that failed gives it its exit code. Nothing is ever started a second
// time: the supervisor leaves a mark on the disk before it starts anything.
//
// What a container starts ends with the pod, wherever it went (Linux; elsewhere what
// is in its process group does). If the supervisor itself is killed, its containers
// are too (Linux), and the pod is lost; deleting it ends what is left.
//
// # What a pod spec means here
//
//	containers, initContainers      run, without an image; command must be there
//	  name command args env           as in Kubernetes, $(VAR) included
//	  env.valueFrom.fieldRef          metadata.name, .namespace, .uid, .labels['KEY'] and spec.nodeName
//	  workingDir                      an absolute path; default: a directory of the pod's own, deleted with it
//	  image imagePullPolicy ports     ignored: there is no image, and no network of its own
//	  resources resizePolicy          ignored: [Options].Limits alone limits
//	  readinessProbe                  ignored: nothing sends it requests
//	  terminationMessagePath/-Policy  ignored
//	  securityContext                 see below
//	  volumeMounts volumeDevices envFrom livenessProbe startupProbe lifecycle stdin tty
//	                                  refused
//	  restartPolicy                   Never, or nothing: sidecars are refused
//	restartPolicy                   Never, or nothing
//	terminationGracePeriodSeconds   as in Kubernetes, default 30
//	activeDeadlineSeconds           as in Kubernetes
//	nodeName nodeSelector affinity tolerations schedulerName topologySpreadConstraints
//	priority priorityClassName preemptionPolicy imagePullSecrets dnsPolicy overhead os
//	readinessGates resources hostNetwork hostPID hostIPC shareProcessNamespace
//	enableServiceLinks              ignored: there is one node, and nothing is kept apart on it
//	securityContext                 allowPrivilegeEscalation, readOnlyRootFilesystem, capabilities.drop, procMount,
//	                                  seccompProfile, appArmorProfile: ignored, and NOT enforced
//	                                runAsUser, runAsGroup: those of the daemon, else refused
//	                                runAsNonRoot: refused where the daemon is root
//	everything else                 refused: volumes, service accounts, host names, …
//
// A container's environment has [command.DefaultInheritEnv] of the daemon's own, what
// its env says, and ORRERY_RUN_ID, ORRERY_JOB_ID, ORRERY_SCHEDULED_AT (RFC 3339),
// ORRERY_ATTEMPT (0: the first) and ORRERY_POD_DIR; and, unless its env says otherwise,
// ORRERY_NAMESPACE, ORRERY_TENANT, ORRERY_LABELS (a JSON object) and ORRERY_OCCURRENCE. It can reach all that the
// daemon's user can: a pod here is no jail. With [Options].RunAs it can reach what that user
// can.
//
// # Logs
//
// What a container writes to stdout and stderr is kept in the pod's directory, as
// one stream. Of more than [Options].MaxLogBytes the middle is dropped, and the log
// says how much.
//
// On Windows there is no such runner: [New] says so.
//
// # Files
//
//   - local.go: options; runner.go: the [Runner]; watch.go: how it hears of its pods;
//   - plan.go, fields.go: a pod spec as what a supervisor is told;
//   - files.go: the directory of a pod;
//   - launch.go, supervisor.go, reaper.go: the supervisor, its start and its children;
//   - group.go: the control group of a pod;
//   - logfile.go, logs.go: logs, written and read;
//   - process_*.go, notify_*.go: what depends on the system.
//
// # Duties of the caller
//
// The program that imports this package is started once more as the supervisor of each
// pod: what its packages do as they are initialized is done there too.
package local

import (
	"fmt"
	"log/slog"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/confine"
)

// Options configure a [Runner].
type Options struct {
	// Dir is where the runs keep their files: logs, exit codes. Required; it is made
	// where it is missing. Two runners must not share it.
	Dir string
	// Home is what this process is called among those that share the database, which each pod tells as its home. Empty: there is one process.
	Home string
	// MaxLogBytes is about how much is kept of what one container writes: half of it
	// from the start, half from the end. Default 64 MiB, at least 64 KiB.
	MaxLogBytes int64
	// RunAs, if not nil, is the user that the programs of pods run as, with its HOME, USER and
	// LOGNAME; supervisors and files stay this process's, which must be root. The user must be
	// able to enter the folders above Dir.
	RunAs *confine.User
	// Cgroups, if not nil, is where each pod has a control group while it lives: what is left
	// in it, wherever it went, ends with the pod. Limits, which need it, are what all programs of
	// one pod may have together.
	Cgroups *confine.Tree
	Limits  confine.Limits
	Logger  *slog.Logger // default slog.Default()
}

const (
	defaultMaxLog = 64 << 20
	leastMaxLog   = 64 << 10
)

func permanent(format string, args ...any) error { return shell.Permanent(fmt.Errorf(format, args...)) }
