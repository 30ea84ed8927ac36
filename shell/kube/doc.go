// Package kube runs the pods of jobs in a Kubernetes cluster (004 Kubernetes
// Integration): a [Runner] for package jobs.
//
// Each attempt of a run is one batch/v1 Job of one pod. Whose it is its labels say; its name
// begins with the job's id and is derived from the attempt, so that creating it twice makes
// one. A Job that a build before named otherwise is found by its labels. Kubernetes
// never starts a pod again: restartPolicy is Never and backoffLimit 0, because Orrery
// alone counts attempts. All that the runner knows of the cluster comes from one watch
// of Jobs and one of pods, by the label of its instance, whatever the number of runs.
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
//
// A Job is read (get) only where its name is taken already, and those of an attempt are
// listed where it is created before the watch knows what there is; pods are deleted only
// where their Job is gone without them, or their node is lost.
//
// # What is told of a pod
//
// A pod that waits is told as created, with the reason: Unschedulable,
// SchedulingGated, ErrImagePull, ImagePullBackOff, InvalidImageName,
// ErrImageNeverPull, CreateContainerConfigError and the like as Kubernetes has them,
// ContainerCreating, Initializing; PodNotCreated where there is a Job and 10 seconds
// later still no pod (a quota, an admission policy or a missing service account;
// the events of the Job say which), and CreateRetried where the API has not taken
// the Job yet. None of these ends an attempt, not even a name of an image that can
// never be right: somebody may mend it, and the job's limit of the start decides.
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
//   - watch.go: the two watches; track.go: what is known of one attempt; cause.go: a pod
//     as what is told of it; trim.go: what of an object is kept;
//   - delete.go, logs.go: deletion and logs;
//   - errors.go, counter.go, klog.go: repeated calls, their number, what client-go logs.
package kube
