package jobs

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/orrery-go/orrery/core"
)

// envVar is a variable of a container that was given with its value.
type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// withEnv gives a job with variables in all containers of its pod spec, beside those that they
// have or instead of them. A spec that cannot be read stays as it is: its runner refuses it.
func withEnv(job core.JobSpec, env map[string]string) core.JobSpec {
	if len(env) == 0 {
		return job
	}
	var pod map[string]json.RawMessage
	if err := json.Unmarshal(job.PodSpec, &pod); err != nil {
		return job
	}
	for _, field := range []string{"initContainers", "containers"} {
		var containers []map[string]json.RawMessage
		if err := json.Unmarshal(pod[field], &containers); err != nil {
			continue // there are none
		}
		for _, c := range containers {
			c["env"] = mergedEnv(c["env"], env)
		}
		pod[field] = encoded(containers)
	}
	job.PodSpec = encoded(pod)
	return job
}

// mergedEnv gives a container's variables: those given, and of its own the others.
func mergedEnv(own json.RawMessage, env map[string]string) json.RawMessage {
	var vars []json.RawMessage
	if err := json.Unmarshal(own, &vars); err != nil {
		vars = nil // it has none
	}
	vars = slices.DeleteFunc(vars, func(v json.RawMessage) bool {
		var named envVar
		_ = json.Unmarshal(v, &named) // a value that is no text stands beside the name
		_, replaced := env[named.Name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(env)) {
		vars = append(vars, encoded(envVar{Name: name, Value: env[name]}))
	}
	return encoded(vars)
}

// encoded is JSON of what always encodes: texts, and JSON that was read.
func encoded(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
