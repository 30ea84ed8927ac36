package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestTokensAreReplacedWhileTheServerServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := func(name, tenant string) httpapi.Token {
			return httpapi.Token{Name: name, SHA256: httpapi.HashToken(name + "-0123456789-0123456789"), Namespaces: []string{"ns"}, Tenants: []string{tenant}}
		}
		root := httpapi.Token{Name: "root", Admin: true, SHA256: httpapi.HashToken("root-0123456789-0123456789")}
		as := func(name string) func(*http.Request) { return bearer(name + "-0123456789-0123456789") }
		before := []httpapi.Token{root, token("stays", "t1"), token("goes", "t1"), token("moves", "t1")}
		a := start(t, setup{api: func(o *httpapi.Options) { o.Tokens = before }})
		defer a.stop()
		browser := func() *http.Request { return httptest.NewRequest(http.MethodGet, "/", http.NoBody) }
		ask := func(name string) answer { return a.do("GET", "/v1/actions?namespace=ns&tenant=t1", nil, as(name)) }
		for _, name := range []string{"root", "stays", "goes", "moves"} {
			require.Equal(t, http.StatusOK, ask(name).status, name)
		}
		require.Equal(t, http.StatusUnauthorized, ask("comes").status)
		sealed, err := a.server.SignIn(browser(), "goes-0123456789-0123456789")
		require.NoError(t, err)
		took := make(chan answer, 3)
		for _, name := range []string{"stays", "goes", "moves"} {
			go func() {
				took <- a.do("POST", "/v1/queues/q/take?namespace=ns&tenant=t1", `{"holder":"h","wait_seconds":20}`, as(name))
			}()
		}
		<-time.After(time.Second)

		began := time.Now()
		changes, err := a.server.SetTokens([]httpapi.Token{root, token("stays", "t1"), token("moves", "t2"), token("comes", "t1")})
		require.NoError(t, err)
		assert.Equal(t, httpapi.TokenChanges{Added: []string{"comes"}, Removed: []string{"goes"}, Changed: []string{"moves"}}, changes)
		for range 2 {
			r := <-took
			assert.Equal(t, http.StatusUnauthorized, r.status, r.body)
			assert.Contains(t, r.body, "was removed or changed")
		}
		assert.Zero(t, time.Since(began))
		assert.Equal(t, http.StatusUnauthorized, ask("goes").status)
		assert.Equal(t, http.StatusForbidden, ask("moves").status, "it is of another tenant now")
		assert.Equal(t, http.StatusOK, ask("comes").status)
		_, err = a.server.Visitor(browser(), sealed)
		require.ErrorIs(t, err, httpapi.ErrSignIn, "its session in a browser has ended, too")
		assert.NotEqual(t, http.StatusUnauthorized, (<-took).status, "who stays goes on waiting")
		assert.Equal(t, 19*time.Second, time.Since(began))

		for _, wrong := range [][]httpapi.Token{nil, {root, root}, {{Name: "no hash"}}} {
			_, err = a.server.SetTokens(wrong)
			require.Error(t, err)
			assert.Equal(t, http.StatusOK, ask("comes").status, "all of them, or none")
		}
	})
}

func TestAServerWithoutTokensIsGivenNone(t *testing.T) {
	a := start(t, setup{})
	_, err := a.server.SetTokens([]httpapi.Token{{Name: "root", Admin: true, SHA256: httpapi.HashToken("root-0123456789-0123456789")}})
	require.ErrorContains(t, err, "SetTokens")
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil).status)
}
