// Package kube runs the pods of jobs in a Kubernetes cluster (004 Kubernetes
// Integration): a [Runner] for package jobs.
//
// Each attempt of a run is one batch/v1 Job of one pod. Whose it is its labels say; its name
// begins with the job's id and is derived from the attempt, so that creating it twice makes
// one. A Job that a build before named otherwise is found by its labels. Kubernetes
// never starts a pod again: restartPolicy is Never and backoffLimit 0, because Orrery
// alone counts attempts. All that the runner knows of the cluster comes from one watch
// of Jobs and one of pods, by the label of its instance, and one of the namespace's warnings,
// whatever the number of runs.
// A run that goes well costs three calls of the API: its creation, its logs (one for
// each container) and its deletion.
//
// # Rights
//
// The runner needs these, in its own namespace and nowhere else:
//
//	apiGroups  resources  verbs
//	batch      jobs       create, get, list, watch, delete
//	""         pods       list, watch, delete
//	""         pods/log   get
//	""         events     list, watch
//
// A Job is read (get) only where its name is taken already, and those of an attempt are
// listed where it is created before the watch knows what there is; pods are deleted only
// where their Job is gone without them, or their node is lost. Without the right to events
// all else goes on, and [Runner.Health] says so.
//
// # What is told of a pod
//
// A pod that waits is told as created, with the reason: Unschedulable,
// SchedulingGated, ErrImagePull, ImagePullBackOff, InvalidImageName,
// ErrImageNeverPull, CreateContainerConfigError and the like as Kubernetes has them,
// ContainerCreating, Initializing; FailedCreate where the cluster refuses the pod, and
// FailedMount and the like, as its events have them; PodNotCreated where there is a Job and
// 10 seconds later still no pod and no event that says why; and CreateRetried where the API
// has not taken the Job yet. Most may pass, and the job's limit of the start decides. What
// cannot pass is told as refused: a pod that a policy refuses and InvalidImageName for good,
// CreateContainerConfigError until the next attempt.
//
// A pod that has ended is told with its exit code, where there is one: that of the
// container that failed first, init containers included and sidecars not. The reason
// is that of the pod where it has one, else that of the container: OOMKilled, Error,
// DeadlineExceeded (also that of the Job, see below), Evicted, Preempted, NodeLost,
// NodeShutdown, Deleted (by hand, while it ran), UnexpectedAdmissionError, and others
// as Kubernetes has them.
//
// An attempt is lost where its pod or its Job is gone and nobody saw the pod end, and
// where a pod has been terminating for a minute longer than its grace period, because
// nobody confirms that it ended. Where the pod is gone and its Job has an end all the
// same, that counts.
//
// # Deletion
//
// A Job is deleted in the foreground: its pod ends within its grace period, then the
// Job goes. [Runner.Delete] waits for that in what the watches say. Where the cluster
// has given up the pod's node (taint manager), and the pod is still there a minute
// after its grace period, it is deleted by force: its process may still run on a node
// that is cut off. In no other case: a node that is slow is waited for.
//
// # If Orrery is gone
//
// A run with maxAllowedRunTime has an activeDeadlineSeconds: that time, the limit of
// the start and 5 minutes. A Job that has ended is deleted by the cluster after a day
// ([Options.KeepFinished]), with its logs.
//
// # Files
//
//   - kube.go: options, the [Runner], creation; job.go: the Job of an attempt; profile.go: what
//     pods may have; placement.go: where they may run, and before whom;
//   - feed.go, reflect.go: the watches; pool.go: runners that have them in common; watch.go: what one runner knows by them;
//     place.go, foreign.go: whose a pod is; events.go: the warnings; track.go: what is known of
//     one attempt; cause.go: a pod as what is told of it; trim.go: what of an object is kept;
//   - delete.go, logs.go: deletion and logs;
//   - errors.go, health.go, dial.go: repeated calls, how the runner stands with the cluster,
//     connections; counter.go, klog.go: the number of calls, what client-go logs.
package kube
