package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
)

func TestAPodSpecMayBeTextInYAML(t *testing.T) {
	a := start(t, setup{engine: withCluster, api: withJobs})
	text := `"# of the night\ncontainers:\n  - name: main\n    image: busybox\n    command: [echo, hi]\n"`
	r := a.do("PUT", "/v1/jobs/j", `{"pod_spec":`+text+`}`)
	require.Equal(t, http.StatusCreated, r.status, r.body)
	j, err := a.engine.Jobs().Get(t.Context(), shell.Scope{Namespace: "default", Tenant: "default"}, "j")
	require.NoError(t, err)
	assert.JSONEq(t, `{"containers":[{"name":"main","image":"busybox","command":["echo","hi"],"resources":{}}],"restartPolicy":"Never"}`, string(j.PodSpec))

	r = a.do("PUT", "/v1/jobs/j?dry_run=true", `{"pod_spec":`+text+`}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	assert.Contains(t, r.body, `"would":"keep"`, "the same text is the same job")
}
