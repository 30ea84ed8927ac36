package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// grants are the two kinds of what is acquired, with the body that acquires one.
var grants = map[string]string{
	"/v1/locks/x":      `{"holder":"h"}`,
	"/v1/semaphores/x": `{"holder":"h","total":1}`,
}

// fenceOf gives the fencing token of an answer.
func fenceOf(t *testing.T, r answer) uint64 {
	t.Helper()
	var m struct {
		Token uint64 `json:"token"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &m), "%s", r.body)
	return m.Token
}

func TestOnlyWhoHasAcquiredSomethingRenewsAndReleasesItByItsFencingToken(t *testing.T) {
	a := rightsKit(t)
	const at = "?namespace=n&tenant=t"
	for path, acquire := range grants {
		made := a.do("POST", path+"/acquire"+at, acquire, bearer("x"))
		require.Equal(t, http.StatusOK, made.status, "%s", made.body)
		token := fenceOf(t, made)
		require.NotZero(t, token)
		body := func(token uint64) string { return fmt.Sprintf(`{"holder":"h","token":%d}`, token) }
		for _, verb := range []string{"/renew", "/release"} {
			ask := func(holder, body string, status int, says string) {
				r := a.do("POST", path+verb+at, body, bearer(holder))
				assert.Equal(t, status, r.status, "%s%s by %s: %s", path, verb, holder, r.body)
				assert.Contains(t, r.errorText(), says, "%s%s by %s", path, verb, holder)
				if status == http.StatusConflict {
					assert.NotContains(t, r.body, fmt.Sprint(token), "no refusal tells the right token")
				}
			}
			for _, holder := range []string{"x", "b", "n", "adm"} {
				ask(holder, `{"holder":"h"}`, http.StatusBadRequest, `token: missing: give the fencing token that acquire has answered as "token"`)
			}
			ask("x", body(token+1), http.StatusConflict, "is not the one by which \"h\" holds")
			for _, holder := range []string{"b", "n", "m", "adm"} {
				r := a.do("POST", path+verb+at, body(token), bearer(holder))
				assert.Equal(t, http.StatusConflict, r.status, "%s%s by %s: %s", path, verb, holder, r.body)
				assert.Contains(t, r.errorText(), "somebody else has acquired under the name")
			}
		}
		for _, holder := range []string{"x", "b", "n"} {
			r := a.do("POST", path+"/release"+at, `{"holder":"h","force":true}`, bearer(holder))
			assert.Equal(t, http.StatusForbidden, r.status, "%s by %s: %s", path, holder, r.body)
			assert.Contains(t, r.errorText(), "is not an admin's: give the fencing token instead")
		}
		again := a.do("POST", path+"/acquire"+at, acquire, bearer("b"))
		assert.Equal(t, http.StatusConflict, again.status, "the holder's name does not give the grant away: %s", again.body)
		for _, holder := range []string{"b", "n"} {
			assert.Zero(t, fenceOf(t, a.do("GET", path+at, "", bearer(holder))), "%s: the token is not shown to %s", path, holder)
		}
		assert.Equal(t, token, fenceOf(t, a.do("GET", path+at, "", bearer("x"))))
		assert.Equal(t, token, fenceOf(t, a.do("GET", path+at, "", bearer("adm"))))
		assert.Equal(t, http.StatusOK, a.do("POST", path+"/renew"+at, body(token), bearer("x")).status)
		assert.Equal(t, http.StatusNoContent, a.do("POST", path+"/release"+at, body(token), bearer("x")).status)

		require.Equal(t, http.StatusOK, a.do("POST", path+"/acquire"+at, acquire, bearer("x")).status)
		assert.Equal(t, http.StatusNoContent, a.do("POST", path+"/release"+at, `{"holder":"h","force":true}`, bearer("adm")).status)
	}
}

// What was acquired before a lock knew by whom goes on by its fencing token.
func TestALockThatSaysNotWhoHasAcquiredItIsReleasedByItsToken(t *testing.T) {
	a := rightsKit(t)
	l, err := a.engine.Locks().Send(t.Context(), shell.Scope{Namespace: "n", Tenant: "t"}, "x", core.LockAcquire{Name: "x", Namespace: "n", Tenant: "t", Holder: "h"})
	require.NoError(t, err)
	const path = "/v1/locks/x/release?namespace=n&tenant=t"
	assert.Equal(t, http.StatusConflict, a.do("POST", path, fmt.Sprintf(`{"holder":"h","token":%d}`, l.Token+1), bearer("n")).status)
	assert.Equal(t, http.StatusNoContent, a.do("POST", path, fmt.Sprintf(`{"holder":"h","token":%d}`, l.Token), bearer("n")).status)
}

func TestAHolderThatIsAMachineIsNamedByItsKindToATokenThatIsBoundToTools(t *testing.T) {
	a := rightsKit(t)
	phase := `{"name":"l","lock":{"name":"x"}},{"name":"s","semaphore":{"name":"x"}},{"name":"m","manual":{}}`
	require.Equal(t, http.StatusOK, a.do("PUT", "/v1/semaphores/x?namespace=n&tenant=t", `{"slots":1}`, bearer("adm")).status)
	id := madeID(t, a.do("POST", "/v1/pipelines", strings.Replace(heldPipeline(phase), `"hold":true,`, "", 1), bearer("adm")))
	waiter := madeID(t, a.do("POST", "/v1/pipelines", strings.Replace(heldPipeline(phase), `"hold":true,`, "", 1), bearer("adm")))
	for path, acquire := range grants {
		const at = "?namespace=n&tenant=t"
		list, _, _ := strings.Cut(path, "/x")
		for _, r := range []answer{
			a.do("GET", path+at, "", bearer("b")),
			a.do("GET", list+at, "", bearer("b")),
			a.do("POST", path+"/acquire"+at, acquire, bearer("b")),
			a.do("POST", path+"/release"+at, `{"holder":"h","token":1}`, bearer("b")),
		} {
			assert.NotContains(t, r.body, id, path)
			assert.NotContains(t, r.body, waiter, path)
		}
		shown := a.do("GET", path+at, "", bearer("b"))
		assert.Contains(t, shown.body, `"holder":"another pipeline"`, path)
		assert.Contains(t, a.do("GET", path+at, "", bearer("n")).body, id, "%s: who sees the pipeline sees its id", path)
	}
	r := a.do("POST", "/v1/locks/x/acquire?namespace=n&tenant=t", `{"holder":"h"}`, bearer("b"))
	assert.Equal(t, `lock "x" is held by "another pipeline" until it is released`, r.errorText())
}

func TestADedupKeyOfAnotherToolTellsNoIDToATokenThatIsBoundToTools(t *testing.T) {
	a := rightsKit(t)
	body := func(tool string) string {
		return `{"namespace":"n","tenant":"t","tool_name":"` + tool + `","dedup_key":"k","trigger":{"type":"scheduled","next_tick_at":"2099-01-01T00:00:00Z"},"tool_input":{}}`
	}
	made := a.do("POST", "/v1/actions", body("nope"), bearer("adm"))
	if made.status != http.StatusCreated {
		made = a.do("POST", "/v1/actions", body("hold"), bearer("adm"))
	}
	id := madeID(t, made)
	r := a.do("POST", "/v1/actions", body("echo"), bearer("b"))
	assert.Equal(t, http.StatusConflict, r.status, "%s", r.body)
	assert.NotContains(t, r.body, id)
	assert.Equal(t, `dedup_key: "k" is held by another action, which has not ended`, r.errorText())
}

func TestTheChangesOfALeaseTellItsFencingTokenToAdminsAlone(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{
			{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true},
			{Name: "ann", SHA256: httpapi.HashToken("ann")},
		}
	}})
	a.header.Set("Authorization", "Bearer root")
	got := a.do("POST", "/v1/locks/door/acquire", `{"holder":"h"}`)
	require.Less(t, got.status, 300, got.body)
	got = a.do("POST", "/v1/semaphores/room/acquire", `{"holder":"h","slots":1,"total":2}`)
	require.Less(t, got.status, 300, got.body)
	for _, name := range []string{"lock/door", "semaphore/room"} {
		kind, at, _ := strings.Cut(name, "/")
		a.header.Set("Authorization", "Bearer root")
		var machine struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(a.do("GET", "/v1/"+kind+"s/"+at, nil).body), &machine))
		for token, sees := range map[string]bool{"root": true, "ann": false} {
			a.header.Set("Authorization", "Bearer "+token)
			got := a.do("GET", "/v1/changes/"+kind+"/"+machine.ID, nil)
			require.Equal(t, http.StatusOK, got.status, got.body)
			assert.Equal(t, sees, !strings.Contains(got.body, "(redacted)"), "%s: %s", token, got.body)
			var changes wire.ChangeList
			require.NoError(t, json.Unmarshal([]byte(got.body), &changes))
			for _, f := range changes.Changes[0].Fields {
				if f.Field == "token" && !sees {
					assert.JSONEq(t, `"(redacted)"`, string(f.After))
				}
			}
		}
	}
}
