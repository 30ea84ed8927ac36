package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

func TestARebalanceTellsWhereThePartitionsAre(t *testing.T) {
	one := false
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return wire.Cluster{}, nil }
		if !one {
			o.Rebalance = func(context.Context) ([]wire.ClusterPlace, error) {
				return []wire.ClusterPlace{{Number: 1, Owner: "a", Should: "b", Keeps: "it is busy"}}, nil
			}
		}
	}})
	r := a.do("POST", "/v1/cluster/rebalance", "")
	assert.Equal(t, http.StatusOK, r.status)
	assert.JSONEq(t, `{"partitions":[{"number":1,"owner":"a","should":"b","keeps":"it is busy"}]}`, r.body)
	one = true
	r = start(t, setup{api: func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return wire.Cluster{}, nil }
	}}).do("POST", "/v1/cluster/rebalance", "")
	assert.Equal(t, http.StatusNotImplemented, r.status)
	assert.Contains(t, r.body, "there is nothing to place")
}

func TestAnInstanceIsDrainedByItsName(t *testing.T) {
	var told []string
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return wire.Cluster{}, nil }
		o.Drain = func(_ context.Context, instance string, on bool) error {
			if instance != "a" {
				return store.ErrNotFound
			}
			told = append(told, fmt.Sprint(instance, " ", on))
			return nil
		}
	}})
	assert.Equal(t, http.StatusNoContent, a.do("POST", "/v1/cluster/drain", `{"instance":"a"}`).status)
	assert.Equal(t, http.StatusNoContent, a.do("POST", "/v1/cluster/drain", `{"instance":"a","undo":true}`).status)
	assert.Equal(t, []string{"a true", "a false"}, told)
	r := a.do("POST", "/v1/cluster/drain", `{"instance":"b"}`)
	assert.Equal(t, http.StatusNotFound, r.status)
	assert.Contains(t, r.body, `there is none of the name \"b\": GET /v1/cluster lists them`)
	r = a.do("POST", "/v1/cluster/drain", `{}`)
	assert.Equal(t, http.StatusBadRequest, r.status)
	assert.Contains(t, r.body, "instance: is missing")
}

func TestTheLossOfAPartitionIsAcceptedAsItWasRead(t *testing.T) {
	a := divided(t, func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return wire.Cluster{}, nil }
		o.AcceptLoss = func(_ context.Context, partition int, stopped string) error {
			switch {
			case partition == 0:
				return store.ErrNotFound
			case partition == 2:
				return fmt.Errorf("%w: no route to it", store.ErrUnreachable)
			case stopped != "commit 3 is gone":
				return fmt.Errorf("%w: it is not stopped", store.ErrNotLost)
			}
			return nil
		}
	})
	for body, want := range map[string]string{ // order-free: each is a case by itself
		`{"partition":1,"stopped":"commit 3 is gone"}`:  "204 ",
		`{"partition":1,"stopped":"commit 2 is gone"}`:  "409 stopped: the partition is not stopped for that loss: it is not stopped: read GET /v1/cluster again",
		`{"partition":0,"stopped":"commit 3 is gone"}`:  "404 partition: nobody has worked on 0 yet: there is nothing that it could have lost",
		`{"partition":3,"stopped":"commit 3 is gone"}`:  "404 partition: there is none of the number 3: the cluster has partitions 0 to 2",
		`{"partition":-1,"stopped":"commit 3 is gone"}`: "404 partition: there is none of the number -1: the cluster has partitions 0 to 2",
		`{"partition":2,"stopped":"commit 3 is gone"}`:  "503 the database is not available: try again",
		`{"stopped":"commit 3 is gone"}`:                "400 partition: is missing: want the number of one that GET /v1/cluster lists",
		`{"partition":1}`:                               "400 stopped: is missing: want what GET /v1/cluster says of why the partition is stopped, so that no loss is accepted that nobody has read of",
	} {
		r := a.do("POST", "/v1/cluster/accept-loss", body)
		says := fmt.Sprint(r.status, " ")
		if r.status != http.StatusNoContent {
			says += r.errorText()
		}
		assert.Equal(t, want, says, body)
	}
	r := start(t, setup{api: func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return wire.Cluster{}, nil }
	}}).do("POST", "/v1/cluster/accept-loss", "{}")
	assert.Equal(t, http.StatusNotImplemented, r.status)
	assert.Contains(t, r.body, "orreryd cluster accept-loss 0 --database URL has it go on")
	r = start(t, setup{}).do("POST", "/v1/cluster/accept-loss", "{}")
	assert.Equal(t, http.StatusNotImplemented, r.status)
	assert.Contains(t, r.body, "the database of this server is its own")
}

// What keeps a partition where it is only the daemon knows that owns it.
func TestARebalanceAsksTheOwnerOfEachPartitionWhatKeepsItThere(t *testing.T) {
	var told []string
	place := func(n int, owner, keeps string) wire.ClusterPlace {
		return wire.ClusterPlace{Number: n, Owner: owner, Should: "third", Keeps: keeps}
	}
	as := func(name string, all ...wire.ClusterPlace) func(context.Context) ([]wire.ClusterPlace, error) {
		return func(context.Context) ([]wire.ClusterPlace, error) {
			told = append(told, name)
			return slices.Clone(all), nil
		}
	}
	a := divided(t, func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return wire.Cluster{}, nil }
		o.Rebalance = as("told", place(0, "mine", "mine says so"), place(1, "other", "guessed"), place(2, "mine", ""))
		o.Placings = as("asked", place(0, "mine", "guessed"), place(1, "other", "sessions on the machine of other"), place(2, "mine", ""))
	})
	want := `{"partitions":[{"number":0,"owner":"mine","should":"third","keeps":"mine says so"},{"number":1,"owner":"other","should":"third","keeps":%q},{"number":2,"owner":"mine","should":"third","keeps":""}]}`
	got := a.do("POST", "/v1/cluster/rebalance", "")
	assert.JSONEq(t, fmt.Sprintf(want, "sessions on the machine of other"), got.body)
	assert.Equal(t, []string{"told", "asked"}, told, "the other one tells no instance a second time")
	for text, of := range map[string]http.Handler{ // order-free: each is a case by itself
		"other, which knows, does not tell: not now":                   laterBy(503, "1"),
		"other, which knows, does not tell: its answer has broken off": breaksOff(200),
	} {
		o := a.routerOptions
		o.Remote = func(int) http.Handler { return of }
		rt, err := httpapi.NewRouter(o)
		require.NoError(t, err)
		a.router = rt
		got = a.do("POST", "/v1/cluster/rebalance", "")
		assert.Equal(t, http.StatusOK, got.status)
		assert.JSONEq(t, fmt.Sprintf(want, text), got.body)
	}
}
