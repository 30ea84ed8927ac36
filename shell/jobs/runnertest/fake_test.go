package runnertest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is the Fake's own kind of pod spec.
type script struct {
	Lines []string `json:"lines"`
	Last  string   `json:"last"`
	Exit  *int32   `json:"exit"`
}

func spec(t *testing.T, s script) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(s)
	assert.NoError(t, err)
	return b
}

func TestTheFakeIsARunner(t *testing.T) {
	var fake *runnertest.Fake
	runnertest.Run(t, func(t *testing.T) jobs.Runner {
		t.Helper()
		fake = &runnertest.Fake{
			Script: func(r jobs.Run) runnertest.Script {
				var s script
				assert.NoError(t, json.Unmarshal(r.Spec.PodSpec, &s))
				out := runnertest.Script{Starts: true, LastWords: s.Last}
				for _, l := range s.Lines {
					out.Output += l + "\n"
				}
				if out.Ends = s.Exit != nil; out.Ends {
					out.Exit = *s.Exit
				}
				return out
			},
			OnCheck: func(s core.JobSpec) error {
				if strings.Contains(string(s.PodSpec), "volumes") {
					return errors.New("pod_spec.volumes: none here")
				}
				return nil
			},
		}
		return fake
	}, runnertest.Scripts{
		Prints: func(exit int, lines ...string) json.RawMessage {
			code := int32(exit)
			return spec(t, script{Lines: lines, Exit: &code})
		},
		Waits: func() json.RawMessage { return spec(t, script{Lines: []string{"begun"}}) },
		LastWords: func() json.RawMessage {
			return spec(t, script{Lines: []string{"begun"}, Last: "saved\n"})
		},
		Lose:     func(_ *testing.T, a jobs.Attempt) { fake.Lose(a, "deleted by hand") },
		Bad:      json.RawMessage(`{"volumes":[]}`),
		BadField: "pod_spec.volumes",
	})
}
