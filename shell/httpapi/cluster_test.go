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
