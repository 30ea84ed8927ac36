package httpapi

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMachinesThatTheCallerHasNotNamedLoseTheirIDs(t *testing.T) {
	const id = "0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10"
	for text, want := range map[string]string{
		`lock "x" is held by "pipeline:` + id + `#3" until it is released`: `lock "x" is held by "another pipeline" until it is released`,
		"run:" + id: "another run",
		`dedup_key: "k" is held by action ` + id + ", which has not ended": `dedup_key: "k" is held by another action, which has not ended`,
		"action " + id + " holds the dedup key":                            "another action holds the dedup key",
		"pipeline " + id + " not found":                                    "pipeline " + id + " not found",
		"id: " + id + " exists already":                                    "id: " + id + " exists already",
		"ci-1":                                                             "ci-1",
	} {
		assert.Equal(t, want, withoutIDs(text))
	}
}
