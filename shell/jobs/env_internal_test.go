package jobs

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestTheVariablesOfARunStandInAllContainersInsteadOfTheJobs(t *testing.T) {
	job := core.JobSpec{PodSpec: json.RawMessage(`{"initContainers":[{"name":"i"}],"containers":[` +
		`{"name":"a","env":[{"name":"DAY","value":"sunday"},{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}],"priority":9007199254740993}`)}
	got := withEnv(job, map[string]string{"DAY": "monday", "A": "1"})
	assert.JSONEq(t, `{"initContainers":[{"name":"i","env":[{"name":"A","value":"1"},{"name":"DAY","value":"monday"}]}],"containers":[`+
		`{"name":"a","env":[{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}},{"name":"A","value":"1"},{"name":"DAY","value":"monday"}]}],"priority":9007199254740993}`, string(got.PodSpec))
	assert.Contains(t, string(got.PodSpec), "9007199254740993")
	assert.Equal(t, job, withEnv(job, nil))
}
