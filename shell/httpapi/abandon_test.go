package httpapi_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

func TestARunThatCannotBeCleanedUpIsAbandonedWithWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: withJobs, engine: func(o *shell.Options) {
			withCluster(o)
			o.Interpreters[effects.LaneRun] = keeping{}
		}})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
		run := a.do("POST", "/v1/jobs/j/trigger", nil).str("run")
		early := a.do("POST", "/v1/runs/"+run+"/abandon", nil)
		assert.Equal(t, http.StatusConflict, early.status)
		assert.Contains(t, early.body, "cancel it first")

		require.Equal(t, http.StatusOK, a.do("POST", "/v1/runs/"+run+"/cancel", nil).status)
		synctest.Wait()
		<-time.After(time.Second)
		got := a.do("POST", "/v1/runs/"+run+"/abandon", `{"reason":"the cluster is gone"}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		synctest.Wait()
		got = a.do("GET", "/v1/runs/"+run, nil)
		assert.Equal(t, "cancelled", got.str("state"))
		assert.Regexp(t, `^abandoned: .*may still run`, got.str("error"))
		assert.Regexp(t, `"abandoned_at":"20`, got.body)
		assert.NotContains(t, a.do("GET", "/v1/runs?cleanup_failed=true", nil).body, run, "nobody tries it any more")
		assert.Equal(t, http.StatusConflict, a.do("POST", "/v1/runs/"+run+"/abandon", nil).status)
	})
}
