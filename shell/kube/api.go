package kube

import (
	"context"
	"fmt"
	"net/http"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// API is what a [Runner] asks of the API of a cluster, with the methods of the typed clients of client-go. The Runner has a client
// of its own for it: client-go's knows all resources of Kubernetes, which is a third of what the daemon is compiled of.
type API interface {
	Jobs(namespace string) JobsAPI
	Pods(namespace string) PodsAPI
	Events(namespace string) EventsAPI
}

// JobsAPI are the calls about Jobs.
type JobsAPI interface {
	Create(context.Context, *batchv1.Job, metav1.CreateOptions) (*batchv1.Job, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (*batchv1.Job, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	List(context.Context, metav1.ListOptions) (*batchv1.JobList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// PodsAPI are the calls about pods.
type PodsAPI interface {
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	List(context.Context, metav1.ListOptions) (*corev1.PodList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	GetLogs(name string, o *corev1.PodLogOptions) *rest.Request
}

// EventsAPI are the calls about events.
type EventsAPI interface {
	List(context.Context, metav1.ListOptions) (*corev1.EventList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// clients speak with a cluster.
type clients struct {
	core, batch rest.Interface
	params      runtime.ParameterCodec
}

// newClients makes the clients; calls go through h.
func newClients(cfg *rest.Config, h *http.Client) (*clients, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // errors, and options of calls
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	of := func(path string, version schema.GroupVersion) (rest.Interface, error) {
		cfg := rest.CopyConfig(cfg)
		cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = path, &version, codecs
		return rest.RESTClientForConfigAndClient(cfg, h)
	}
	c := &clients{params: runtime.NewParameterCodec(scheme)}
	var err error
	if c.core, err = of("/api", corev1.SchemeGroupVersion); err != nil {
		return nil, fmt.Errorf("core/v1: %w", err)
	}
	if c.batch, err = of("/apis", batchv1.SchemeGroupVersion); err != nil {
		return nil, fmt.Errorf("batch/v1: %w", err)
	}
	return c, nil
}

// Jobs implements [API].
func (c *clients) Jobs(namespace string) JobsAPI {
	return resource[batchv1.Job, batchv1.JobList, *batchv1.Job, *batchv1.JobList]{c.batch, c.params, "jobs", namespace}
}

// Pods implements [API].
func (c *clients) Pods(namespace string) PodsAPI {
	return pods{resource[corev1.Pod, corev1.PodList, *corev1.Pod, *corev1.PodList]{c.core, c.params, "pods", namespace}}
}

// Events implements [API].
func (c *clients) Events(namespace string) EventsAPI {
	return resource[corev1.Event, corev1.EventList, *corev1.Event, *corev1.EventList]{c.core, c.params, "events", namespace}
}

// object is a pointer to an object of Kubernetes.
type object[T any] interface {
	*T
	runtime.Object
}

// resource has the calls about one kind of object in one namespace.
type resource[T, L any, PT object[T], PL object[L]] struct {
	client          rest.Interface
	params          runtime.ParameterCodec
	name, namespace string
}

func (r resource[T, L, PT, PL]) on(q *rest.Request) *rest.Request {
	return q.Namespace(r.namespace).Resource(r.name)
}

// Create makes an object, and gives it as the cluster has it.
func (r resource[T, L, PT, PL]) Create(ctx context.Context, is PT, o metav1.CreateOptions) (PT, error) {
	made := PT(new(T))
	err := r.on(r.client.Post()).VersionedParams(&o, r.params).Body(is).Do(ctx).Into(made)
	return made, err
}

// Get gives an object.
func (r resource[T, L, PT, PL]) Get(ctx context.Context, name string, o metav1.GetOptions) (PT, error) {
	is := PT(new(T))
	err := r.on(r.client.Get()).Name(name).VersionedParams(&o, r.params).Do(ctx).Into(is)
	return is, err
}

// Delete deletes an object.
func (r resource[T, L, PT, PL]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return r.on(r.client.Delete()).Name(name).Body(&o).Do(ctx).Error()
}

// List lists objects.
func (r resource[T, L, PT, PL]) List(ctx context.Context, o metav1.ListOptions) (PL, error) {
	list := PL(new(L))
	err := r.on(r.client.Get()).VersionedParams(&o, r.params).Timeout(seconds(o.TimeoutSeconds)).Do(ctx).Into(list)
	return list, err
}

// Watch tells what becomes of objects.
func (r resource[T, L, PT, PL]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.on(r.client.Get()).VersionedParams(&o, r.params).Timeout(seconds(o.TimeoutSeconds)).Watch(ctx)
}

// seconds is a number of seconds that may be left out.
func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

// pods also have logs.
type pods struct {
	resource[corev1.Pod, corev1.PodList, *corev1.Pod, *corev1.PodList]
}

// GetLogs implements [PodsAPI].
func (p pods) GetLogs(name string, o *corev1.PodLogOptions) *rest.Request {
	return p.on(p.client.Get()).Name(name).SubResource("log").VersionedParams(o, p.params)
}
