//go:build unix

package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// refused is an answer of the API that is none of success.
type refused struct{ metav1.Status }

func (r *refused) Error() string { return r.Message }

func refusal(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return refusalOf(code, reason, format, args...)
}

func refusalOf(code int32, reason metav1.StatusReason, format string, args ...any) *refused {
	return &refused{metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}

// kinds of what is listed, by resource.
var podKinds = map[string]struct{ version, kind string }{"jobs": {"batch/v1", "Job"}, "pods": {"v1", "Pod"}, "events": {"v1", "Event"}}

// ServeHTTP answers as an API server does, in JSON.
func (a *podAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	before, path, _ := strings.Cut(r.URL.Path, "/namespaces/"+podsNamespace+"/")
	parts := append(strings.Split(path, "/"), "", "")
	resource, name := parts[0], parts[1]
	caller, _, _ := strings.Cut(strings.TrimPrefix(before, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var said any
	switch {
	case podKinds[resource].kind == "":
		err = refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "no such resource: %s", r.URL.Path)
	case r.Method == http.MethodPost && resource == "jobs":
		said, err = a.serveCreate(caller, body)
	case r.Method == http.MethodDelete && name != "":
		said, err = a.serveDelete(caller, resource, name, body)
	case r.Method == http.MethodGet && parts[2] == "log":
		_, _ = io.WriteString(w, "it ran\n")
		return
	case r.Method == http.MethodGet && name != "":
		said, err = a.serveGet(resource, name)
	case r.Method == http.MethodGet:
		if err = a.serveMany(w, r, resource); err == nil {
			return
		}
	default:
		err = refusal(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "%s of %s", r.Method, r.URL.Path)
	}
	code := http.StatusOK
	if no, ok := errors.AsType[*refused](err); ok {
		said, code = no.Status, int(no.Code)
	} else if err != nil {
		said, code = refusalOf(http.StatusInternalServerError, metav1.StatusReasonInternalError, "%v", err).Status, http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(said)
}

// decoded reads a body of a call, which is JSON or protobuf.
func decoded(body []byte, into runtime.Object) error {
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	if err != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	return nil
}

func (a *podAPI) serveCreate(caller string, body []byte) (any, error) {
	job := &batchv1.Job{}
	if err := decoded(body, job); err != nil {
		return nil, err
	}
	var made runtime.Object
	err := a.passing(caller, "create", job.Name, func(held bool) (err error) {
		made, err = a.create(caller, held, job)
		return err
	})
	if err != nil {
		return nil, err
	}
	return typed("jobs", made), nil
}

func (a *podAPI) serveDelete(caller, resource, name string, body []byte) (any, error) {
	o := &metav1.DeleteOptions{}
	if len(body) > 0 {
		if err := decoded(body, o); err != nil {
			return nil, err
		}
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess},
		a.passing(caller, "delete", name, func(bool) error { return a.remove(caller, resource, name, o) })
}

// passing carries a call out, which a hold may hold up before or afterwards.
func (a *podAPI) passing(caller, verb, name string, carryOut func(held bool) error) error {
	h := a.held(caller, verb, name)
	if h != nil && !h.answer {
		<-h.let
	}
	err := carryOut(h != nil && !h.answer)
	if h != nil {
		<-h.let
	}
	return err
}

func (a *podAPI) serveGet(resource, name string) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, there := a.objects[resource+"/"+name]
	if !there {
		return nil, refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "%s %q not found", resource, name)
	}
	return typed(resource, o.DeepCopyObject()), nil
}

// typed says in an object what it is.
func typed(resource string, o runtime.Object) runtime.Object {
	is := podKinds[resource]
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(is.version, is.kind))
	return o
}

// serveMany lists, or watches. A watch that is to begin with a list is refused, as by a server of old.
func (a *podAPI) serveMany(w http.ResponseWriter, r *http.Request, resource string) error {
	q := r.URL.Query()
	chosen, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, "labelSelector: %v", err)
	}
	if watches := q.Get("watch"); watches == "true" || watches == "1" {
		if q.Get("sendInitialEvents") == "true" {
			return refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		}
		a.serveWatch(w, r, resource, chosen)
		return nil
	}
	all, version := a.list(resource, chosen)
	items := make([]runtime.Object, 0, len(all))
	for _, o := range all {
		items = append(items, typed(resource, o))
	}
	w.Header().Set("Content-Type", "application/json")
	is := podKinds[resource]
	return json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": is.version, "kind": is.kind + "List", "metadata": map[string]string{"resourceVersion": strconv.Itoa(version)}, "items": items,
	})
}

// serveWatch tells of changes until the client goes, or its time is over.
func (a *podAPI) serveWatch(w http.ResponseWriter, r *http.Request, resource string, chosen labels.Selector) {
	ctx := r.Context()
	if seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); err == nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer stop()
	}
	w.Header().Set("Content-Type", "application/json")
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	for {
		news, more := a.since(seen)
		for _, c := range news {
			seen = c.version
			if c.resource != resource || !chosen.Matches(labels.Set(c.object.(metav1.Object).GetLabels())) {
				continue
			}
			err := json.NewEncoder(w).Encode(map[string]any{"type": c.kind, "object": typed(resource, c.object.DeepCopyObject())})
			if err != nil || out.Flush() != nil {
				return
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}
