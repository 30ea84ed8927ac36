package httpapi_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestTheTokensOfATenantShareWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) {
			neighbours(o)
			for _, name := range []string{"a2", "a3"} {
				o.Tokens = append(o.Tokens, httpapi.Token{Name: name, SHA256: httpapi.HashToken("secret-" + name), Namespaces: []string{"ns"}, Tenants: []string{"a"}})
			}
			o.MaxRequestsPerToken = 2
		}})
		const body = `{"tool_name":"echo"}`
		var held []*io.PipeWriter
		var wg sync.WaitGroup
		for _, token := range []string{"secret-a", "secret-a2"} {
			in, out := io.Pipe()
			wg.Go(func() {
				assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", io.Reader(in), bearer(token)).status)
			})
			held = append(held, out)
			synctest.Wait()
		}
		r := a.do("GET", "/v1/info", nil, bearer("secret-a3"))
		require.Equal(t, http.StatusTooManyRequests, r.status, r.body)
		assert.Equal(t, `token: 2 requests of the tokens of tenant "a" are under way: wait for the answer to one`, r.errorText())
		for _, token := range []string{"secret-b", "secret-ac", "secret-admin"} {
			assert.Equal(t, http.StatusOK, a.do("GET", "/v1/info", nil, bearer(token)).status, token)
		}
		for _, out := range held {
			_, err := io.WriteString(out, body)
			require.NoError(t, err)
			require.NoError(t, out.Close())
		}
		wg.Wait()
		assert.Equal(t, http.StatusOK, a.do("GET", "/v1/info", nil, bearer("secret-a3")).status)
	})
}
