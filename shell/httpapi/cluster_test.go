package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

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
