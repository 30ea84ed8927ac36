package httpapi_test

import (
	"context"
	"net/http"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// process is one of two that own the partitions.
type process struct {
	shared  *httpapi.Shared
	servers map[int]*httpapi.Server
	router  *httpapi.Router
}

// divide makes partitions, of which the first is owned by the process that is asked, every other of the rest too, and those between by
// another one.
// Each process has the log of requests of its number, if there are such.
func (a *api) divide(partitions int, eo shell.Options, ho httpapi.Options, logs []*audit.Log) {
	mine := &process{shared: new(httpapi.Shared), servers: map[int]*httpapi.Server{}}
	other := &process{shared: new(httpapi.Shared), servers: map[int]*httpapi.Server{}}
	of := []*process{mine, other}
	ho.Partitions = partitions
	for p := range partitions {
		st := memory.New()
		a.t.Cleanup(func() { _ = st.Close() })
		own := eo
		own.Store, own.Partition, own.Partitions = st, p, partitions
		engine, err := shell.New(own)
		require.NoError(a.t, err)
		api := ho
		api.Engine, api.Shared = engine, of[p%2].shared
		if logs != nil {
			api.Audit = logs[p%2]
		}
		server, err := httpapi.New(api)
		require.NoError(a.t, err)
		of[p%2].servers[p] = server
		a.engines = append(a.engines, engine)
	}
	a.engine, a.server = a.engines[0], mine.servers[0]
	hooks := map[string]shell.Scope{}
	for name, route := range eo.Webhooks {
		hooks[name] = shell.Scope{Namespace: route.Namespace, Tenant: route.Tenant}
	}
	for i, in := range of {
		api := ho
		api.Shared = in.shared
		if logs != nil {
			api.Audit = logs[i]
		}
		toOther := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { passedOn(of[1-i].router, w, r) })
		o := httpapi.RouterOptions{
			API: api, Name: []string{"mine", "other"}[i], Partitions: partitions, Webhooks: hooks,
			Instances: func(context.Context) (map[string]http.Handler, error) {
				return map[string]http.Handler{[]string{"other", "mine"}[i]: toOther}, nil
			},
			Local:  func(p int) (*httpapi.Server, bool) { s, ok := in.servers[p]; return s, ok },
			Remote: func(int) http.Handler { return toOther },
		}
		var err error
		in.router, err = httpapi.NewRouter(o)
		require.NoError(a.t, err)
		if i == 0 {
			a.routerOptions = o
		}
	}
	a.router, a.processes = mine.router, of
}

// passedOn gives a request to another process, which sees nothing of it but what is sent.
func passedOn(to http.Handler, w http.ResponseWriter, r *http.Request) {
	there, err := http.NewRequestWithContext(withoutValues{r.Context()}, r.Method, "http://"+r.Host+r.URL.RequestURI(), r.Body)
	if err != nil {
		panic(err)
	}
	there.Header, there.ContentLength, there.RemoteAddr, there.RequestURI = r.Header.Clone(), r.ContentLength, r.RemoteAddr, r.URL.RequestURI()
	to.ServeHTTP(w, there)
}

// handler is whom the requests of the test go to.
func (a *api) handler() http.Handler {
	if a.router != nil {
		return a.router
	}
	return a.server.Handler()
}

// engineOf gives the engine that has a machine; the first, if none has.
func (a *api) engineOf(ref effects.Ref) *shell.Engine {
	for _, e := range a.engines {
		err := e.Store().View(a.t.Context(), func(tx store.ReadTx) error {
			_, err := tx.Get(ref.Kind, ref.ID)
			return err
		})
		if err == nil {
			return e
		}
	}
	return a.engine
}

// withoutValues is a context of which only the end is known.
type withoutValues struct{ context.Context }

func (withoutValues) Value(any) any { return nil }
