//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// cluster is as much of the API of a cluster as daemons need that create Jobs: it makes no pods.
type cluster struct {
	t    *testing.T
	mu   sync.Mutex
	open map[string]int // watches that are open, by resource
	most map[string]int // that were open at a time
	jobs []*batchv1.Job
	came chan struct{} // closed when a Job comes
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	resource, kind := path.Base(q.URL.Path), map[string]string{"jobs": "Job", "pods": "Pod", "events": "Event"}[path.Base(q.URL.Path)]
	w.Header().Set("Content-Type", "application/json")
	switch {
	case q.Method == http.MethodPost && resource == "jobs":
		c.create(w, q)
	case q.URL.Query().Get("sendInitialEvents") != "": // as an older server does
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case q.URL.Query().Get("watch") != "":
		c.watch(w, q, resource)
	case q.Method == http.MethodGet && kind != "":
		group := map[string]string{"jobs": "batch/v1"}[resource]
		if group == "" {
			group = "v1"
		}
		_, _ = fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kind, group)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

func (c *cluster) create(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	assert.NoError(c.t, err)
	made, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	job, ok := made.(*batchv1.Job)
	if !assert.NoError(c.t, err) || !assert.True(c.t, ok) {
		return
	}
	job.TypeMeta.Kind, job.APIVersion = "Job", "batch/v1"
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, job)
	close(c.came)
	c.came = make(chan struct{})
	w.WriteHeader(http.StatusCreated)
	assert.NoError(c.t, json.NewEncoder(w).Encode(job))
}

func (c *cluster) watch(w http.ResponseWriter, q *http.Request, resource string) {
	count := func(by int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[resource] += by
		c.most[resource] = max(c.most[resource], c.open[resource])
	}
	count(1)
	defer count(-1)
	w.WriteHeader(http.StatusOK)
	assert.NoError(c.t, http.NewResponseController(w).Flush())
	<-q.Context().Done()
}

// has waits until that many Jobs were created.
func (c *cluster) has(n int) []*batchv1.Job {
	c.t.Helper()
	late := time.After(2 * patience)
	for {
		c.mu.Lock()
		is, came := c.jobs, c.came
		c.mu.Unlock()
		if len(is) >= n {
			return is
		}
		select {
		case <-came:
		case <-late:
			require.Failf(c.t, "Jobs are missing", "%d of %d", len(is), n)
		}
	}
}

func TestADaemonOfSixteenPartitionsWatchesTheClusterOnceAndMarksItsPods(t *testing.T) {
	t.Parallel()
	const partitions, tenants = 16, 6
	c := &cluster{t: t, open: map[string]int{}, most: map[string]int{}, came: make(chan struct{})}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	kubeconfig := write(t, "kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '"+server.URL+"'}}]\nusers: [{name: u, user: {token: x}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n")
	database := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", strconv.Itoa(partitions))
	require.Zero(t, r.code, r.err)
	file := write(t, "orrery.toml", "[cluster]\nname = 'only'\nlease_seconds = 2\n[runners.k]\ntype = 'kubernetes'\nkubeconfig = '"+kubeconfig+"'\nnamespace = 'jobs'\n")
	p := start(t, "--database", database, "--config", file)
	p.divides(partitions, "only")

	at := map[string]string{} // tenants by the partition that their pods are to say
	for n := range tenants {
		tenant := fmt.Sprint("t", n)
		at[tenant] = strconv.Itoa(core.Partition(core.Scope{Namespace: "n", Tenant: tenant}, partitions))
		job := write(t, "job.yaml", "id: nightly\nnamespace: n\ntenant: "+tenant+"\npodSpec: {containers: [{name: main, image: busybox}]}\n")
		p.ok("job", "apply", "-f", job)
		p.ok("job", "trigger", "nightly", "--namespace", "n", "--tenant", tenant)
	}
	cluster := ""
	for _, job := range c.has(tenants) {
		labels := job.Spec.Template.Labels
		assert.Equal(t, at[labels["orrery.dev/tenant"]], labels["orrery.dev/partition"], "%v", labels)
		if cluster == "" {
			cluster = labels["orrery.dev/cluster"]
		}
		assert.Regexp(t, "^[a-z2-7]{26}$", cluster)
		assert.Equal(t, cluster, labels["orrery.dev/cluster"], "all are of one cluster")
	}
	c.mu.Lock()
	assert.Equal(t, map[string]int{"jobs": 1, "pods": 1, "events": 1}, c.most)
	c.mu.Unlock()
	require.NoError(t, p.cmd.Process.Kill()) // its runs would be waited for
	<-p.exited
}
