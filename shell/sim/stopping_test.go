package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/shell/sim"
)

// stopping gives the options of a run of actions of several tenants while many commits fail. In half of these runs they are asked to stop: what has returned by itself
// meanwhile, and what was never begun, must be told apart. In the other half all instances work on the store at once, and some of them are gone for good: then others have slots for
// what waits.
func stopping(seed uint64) sim.Options {
	o := sim.Options{Faults: 60, Steps: 250, MaxSteps: 6000}
	if seed%2 == 0 {
		o.Shared, o.Instances, o.Faults = true, 3, 6
	}
	o.Requests = func(r *rand.Rand) (list []sim.Request) {
		for n := range 8 {
			id := uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(n)})
			spec := core.ActionSpec{
				ID: id, Namespace: "ns", Tenant: fmt.Sprint("t", n), Label: "l", ToolName: "work",
				ToolInput: json.RawMessage([]string{`{"does":"ok"}`, `{"does":"slow"}`, `{"does":"hang"}`}[r.IntN(3)]), Policy: core.RunPolicy{MaxAttempts: 3, OnInterrupt: core.InterruptRetry},
			}
			list = append(list, sim.Request{Name: "create an action that is to " + string(spec.ToolInput), Do: func(ctx context.Context, e *shell.Engine) error {
				_, err := e.Actions().Create(ctx, spec)
				return err
			}})
			if o.Shared {
				continue
			}
			list = append(list, sim.Request{Name: "ask it to stop", After: len(list), Do: func(ctx context.Context, e *shell.Engine) error {
				_, err := e.Actions().CancelWith(ctx, id, core.ActionCancel{Reason: "not wanted", Mode: core.CancelAwait})
				return err
			}})
		}
		return list
	}
	return o
}

func TestWhatIsAskedToStopOrWaitsIsForgottenByNobody(t *testing.T) {
	n := uint64(60)
	if raced.Detector {
		n = 10
	}
	first := seedtest.Seed(t)
	for seed := first; seed < first+n; seed++ {
		rep, err := sim.Run(seed, stopping(seed))
		require.NoError(t, err, "seed %d", seed)
		require.False(t, rep.Failed(), "%s\nrepeat: %s=%d go test ./shell/sim -run '^%s$'", rep, seedtest.Env, seed, t.Name())
	}
}
