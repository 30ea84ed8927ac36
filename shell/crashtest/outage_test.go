//go:build unix

package crashtest

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Real outages of a real daemon: each missed time is told with the cause that was its own (R20), by
// the history and by the log, and a replay comes to the same.
func TestRealOutagesAreToldWithTheirOwnCauses(t *testing.T) {
	t.Parallel()
	const outage = 4 * time.Second
	for name, row := range map[string]struct {
		happens func(t *testing.T, h daemonHome, p *process) (again *process)
		want    string
	}{
		"SIGTERM": {func(t *testing.T, h daemonHome, p *process) *process {
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			<-p.gone
			idle(t.Context(), outage)
			return h.launch(t)
		}, "the daemon was stopped from "},
		"SIGKILL": {func(t *testing.T, h daemonHome, p *process) *process {
			p.kill()
			idle(t.Context(), outage)
			return h.launch(t)
		}, "(killed, or its machine failed)"},
		"SIGSTOP": {func(t *testing.T, _ daemonHome, p *process) *process {
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
			idle(t.Context(), outage)
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
			return nil
		}, "the daemon did not run from "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "", usual)
			at := newLink()
			target := newHTTPTarget(at, h.effects(), newLedger())
			defer target.close()
			p := h.launch(t)
			at.set(p.url(t, h))
			id, err := target.createRecurring(t.Context(), recurringOrder{Work: work{}})
			require.NoError(t, err)
			history := func(verdict core.Verdict) (found []core.Occurrence) {
				var page struct {
					History []core.Occurrence `json:"history"`
				}
				require.NoError(t, target.do(t.Context(), http.MethodGet, "/v1/recurring/"+id.String()+"/history"+scope+"&limit=1000", nil, &page))
				for _, o := range page.History {
					if o.Verdict == verdict {
						found = append(found, o)
					}
				}
				return found
			}
			for len(history(core.VerdictDispatched)) < 2 {
				idle(t.Context(), 100*time.Millisecond)
			}
			before := effects.TimeOf(time.Now())
			again := row.happens(t, h, p)
			after := effects.TimeOf(time.Now())
			if again != nil {
				p = again
				at.set(p.url(t, h))
			}
			for goesOn := false; !goesOn; { // then all times of the outage are decided
				idle(t.Context(), 100*time.Millisecond)
				goesOn = slices.ContainsFunc(history(core.VerdictDispatched), func(o core.Occurrence) bool { return o.DueAt > after })
				require.NoError(t, t.Context().Err())
			}
			var told core.Occurrence
			for _, o := range history(core.VerdictMissed) {
				// On a busy machine a daemon may stand still for another second.
				if strings.Contains(o.Reason, row.want) && o.LastDueAt > before && o.Count > told.Count {
					told = o
				}
			}
			require.NotEqual(t, uuid.Nil, told.ID, "no outage was told with its own cause: %+v", history(core.VerdictMissed))
			assert.GreaterOrEqual(t, told.Count, uint64(2), "of an outage of %s", outage)
			assert.Less(t, told.DueAt, after)
			assert.NotContains(t, told.Reason, "behind")
			log, err := os.ReadFile(h.log())
			require.NoError(t, err)
			assert.Contains(t, string(log), "msg=recurring.missed")
			assert.Contains(t, string(log), told.Reason)
			p.stop(t, h)
			h.mustRun(t, "replay", "--verify", "--db", h.db)
		})
	}
}
