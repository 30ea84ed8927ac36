// Package kube runs the pods of jobs in a Kubernetes cluster (004 Kubernetes
// Integration): a [Runner] for package jobs.
package kube

import (
	"errors"
	"log/slog"

	"k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/tools/clientcmd" // the skeleton's: keeps the dependency
)

// Options configure a [Runner].
type Options struct {
	// Kubeconfig is the path of a kubeconfig file; empty: as kubectl has it
	// (KUBECONFIG, ~/.kube/config), or the service account where the process runs in
	// a cluster. Context picks one of its contexts; empty: the current one.
	Kubeconfig string
	Context    string
	// Namespace is where the Jobs are made; empty: that of the context or of the
	// service account.
	Namespace string
	// QPS and Burst bound the calls of the API (defaults 20 and 40).
	QPS   float32
	Burst int
	// Instance tells apart several Orrerys in one namespace: each cares for its own
	// only. Default "orrery".
	Instance string
	// Client is used instead of a kubeconfig: for tests.
	Client kubernetes.Interface
	Logger *slog.Logger // default slog.Default()
}

// Runner runs pods in a cluster. It is safe for concurrent use.
type Runner struct{ client kubernetes.Interface }

// New makes a Runner. The error names the option that cannot be right.
func New(o Options) (*Runner, error) { return nil, errors.New("not written yet") }
