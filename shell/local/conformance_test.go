//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/shell/local"
)

func TestTheRunnerKeepsItsContract(t *testing.T) {
	var dir string
	runnertest.Run(t, func(t *testing.T) jobs.Runner {
		dir = t.TempDir()
		r, err := local.New(local.Options{Dir: dir})
		require.NoError(t, err)
		return r
	}, runnertest.Scripts{
		Prints: func(exit int, lines ...string) json.RawMessage {
			return script(fmt.Sprintf("cat <<'EOF'\n%s\nEOF\nexit %d", strings.Join(lines, "\n"), exit)).Spec.PodSpec
		},
		Waits: func() json.RawMessage {
			return script("echo begun; exec sleep 600", `"terminationGracePeriodSeconds":1`).Spec.PodSpec
		},
		LastWords: func() json.RawMessage {
			return script(`exec 2>/dev/null; trap 'sleep 1; echo saved; exit 0' TERM; echo begun; while :; do sleep 0.1; done`, `"terminationGracePeriodSeconds":60`).Spec.PodSpec
		},
		Bad:      json.RawMessage(`{"containers":[{"name":"m","command":["true"],"volumeMounts":[{"name":"v","mountPath":"/v"}]}]}`),
		BadField: "containers[0].volumeMounts",
		Lose: func(t *testing.T, a jobs.Attempt) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, a.Name())))
		},
	})
}
