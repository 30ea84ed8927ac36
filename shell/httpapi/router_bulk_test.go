package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// yearly makes a recurring action of a tenant.
func (a *api) yearly(tenant string) string {
	a.t.Helper()
	got := a.do("POST", "/v1/recurring", `{"namespace":"ns","tenant":"`+tenant+`","cron_expr":"@yearly","provider":"echo","action_type":"x"}`)
	require.Equal(a.t, http.StatusCreated, got.status, got.body)
	return got.str("recurring_id")
}

// yearlyWhoseIDFallsTo makes one of a tenant whose id would be asked of another partition if none had it.
func (a *api) yearlyWhoseIDFallsTo(partition int, tenant string) string {
	a.t.Helper()
	for {
		id := a.yearly(tenant)
		if core.Partition(shell.Scope{Namespace: "/v1/recurring/", Tenant: id}, 3) == partition {
			return id
		}
	}
}

// What a partition is asked for of a bulk act depends on what is there when the request comes: the entry that a deleted one shifts is done no second time.
func TestABulkActIsRepeatedByTheIDsWhateverElseAPartitionIsAskedForWithThem(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		a := start(t, setup{partitions: partitions})
		gone, stays := a.yearlyWhoseIDFallsTo(1, tenantIn(0, 0)), a.yearly(tenantIn(1, 0))
		asked := wire.BulkRequest{Act: "trigger", IDs: []string{gone, stays}}
		first := a.bulk("/v1/recurring/bulk", asked, key("k"))
		require.Equal(t, []int{200, 200}, statusesOf(first))
		require.Equal(t, http.StatusNoContent, a.do("DELETE", "/v1/recurring/"+gone, nil).status)
		if partitions > 1 { // of a process that does not remember where it was
			a.router = a.processes[1].router
		}
		again := a.bulk("/v1/recurring/bulk", asked, key("k"))
		assert.Equal(t, first[1], again[1], partitions)
		assert.Len(t, idsOf(t, a.do("GET", "/v1/actions?namespace=ns&tenant="+tenantIn(1, 0), nil), "actions"), 1, "%d partitions: it is triggered once", partitions)
	}
}

// Entries that were beyond the rate of the token come with the same request later, and those that were done are answered as before.
func TestABulkActOfWhichSomeWereBeyondTheRateIsFinishedByTheSameRequest(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		c := newClock()
		a := start(t, setup{partitions: partitions, engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) {
			o.Clock = c
			o.Tokens = []httpapi.Token{
				{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true},
				{Name: "any", SHA256: httpapi.HashToken("any-secret")},
			}
			o.Limits.Default = httpapi.TenantLimits{InputsPerSecond: 0.01, InputBurst: 3}
		}})
		a.header = http.Header{"Authorization": {"Bearer root-secret"}}
		asked := wire.BulkRequest{Act: "trigger"}
		for range 4 {
			asked.IDs = append(asked.IDs, a.yearly(tenantIn(0, 0)))
		}
		assert.Equal(t, []int{200, 200, 200, 429}, statusesOf(a.bulk("/v1/recurring/bulk", asked, key("k"), bearer("any-secret"))))
		c.advance(200 * time.Second)
		assert.Equal(t, []int{200, 200, 429, 429}, statusesOf(a.bulk("/v1/recurring/bulk", asked, key("k"), bearer("any-secret"))), "%d partitions", partitions)
		c.advance(400 * time.Second)
		last := asked
		last.IDs = []string{asked.IDs[3], asked.IDs[2]}
		assert.Equal(t, []int{200, 200}, statusesOf(a.bulk("/v1/recurring/bulk", last, key("k"), bearer("any-secret"))), "another list under the key is of the same acts")
		assert.Len(t, idsOf(t, a.do("GET", "/v1/actions?namespace=ns", nil), "actions"), 4, fmt.Sprint(partitions, " partitions"))
	}
}
