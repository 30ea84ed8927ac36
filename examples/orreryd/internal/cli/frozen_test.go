//go:build unix

package cli

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// The server is frozen, so nothing is refused, and nothing answered. Who asked it would say that the engine did not answer within five seconds.
func TestADaemonSaysThatItIsNotReadyWithoutADatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2} {
		t.Run(strconv.Itoa(partitions)+" partitions", func(t *testing.T) {
			t.Parallel()
			server := postgrestest.Start(t, postgrestest.Options{NoFsync: true})
			database := server.Database(t)
			r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", strconv.Itoa(partitions))
			require.Zero(t, r.code, r.err)
			p := start(t, "--database", database, "--cluster-name", "only")
			ready := func() bool {
				status, _ := p.readiness()
				return status == http.StatusOK
			}
			require.Eventually(t, ready, patience, 20*time.Millisecond)
			p.add("--wait", "--", "echo", "x")
			server.Freeze(t)
			for range 2 {
				status, text := p.readiness()
				assert.Equal(t, http.StatusServiceUnavailable, status)
				assert.Contains(t, text, "not ready: the database is not available: the daemon's log says why")
			}
			server.Thaw(t)
			require.Eventually(t, ready, 2*patience, 50*time.Millisecond)
			p.stop()
		})
	}
}
