package cli

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestACommandAboutAnIDNamesWhoseItIsIfAFlagDoes(t *testing.T) {
	t.Parallel()
	const id = "0193f2a4-5b6c-7d8e-9f01-23456789abcd"
	for _, command := range []string{
		"actions show", "actions cancel", "actions retry", "actions logs", "actions history", "pipeline show", "pipeline cancel", "pipeline logs",
		"task show", "task wait", "task input ID hello", "strategy show", "strategy cancel", "occurrences show",
	} {
		var asked []url.Values
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Query())
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":"id: it is there in partitions 0 and 1: name namespace and tenant, or a partition with the header Orrery-Partition"}`))
		}))
		ask := func(flags ...string) (url.Values, string) {
			asked = nil
			args := strings.Fields(strings.ReplaceAll(command, "ID", id))
			if len(args) == 2 {
				args = append(args, id)
			}
			r := cli(t, []string{"ORRERY_SERVER=" + daemon.URL, "ORRERY_TENANT=ann"}, "", append(args, flags...)...)
			if assert.Len(t, asked, 1, "%s: %s", command, r.err) {
				return asked[0], r.err
			}
			return nil, r.err
		}
		got, says := ask()
		assert.False(t, got.Has("namespace") || got.Has("tenant"), "%s: %s", command, got)
		assert.Contains(t, says, "name namespace and tenant (--namespace, --tenant), or a partition")
		got, _ = ask("--tenant", "eve", "--namespace", "")
		assert.Equal(t, []string{"eve"}, got["tenant"], command)
		assert.Equal(t, []string{""}, got["namespace"], command)
		daemon.Close()
	}
}

func TestAListOfActionsOfOtherTenantsShowsWhoseEachIs(t *testing.T) {
	t.Parallel()
	const (
		mine   = `{"id":"0193f2a4-5b6c-7d8e-9f01-23456789abcd","namespace":"ns","tenant":"ann","tool_name":"echo"}`
		theirs = `{"id":"0193f2a4-5b6c-7d8e-9f01-23456789abce","namespace":"ns","tenant":"eve","tool_name":"echo"}`
	)
	list := func(actions string) string {
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"actions":[` + actions + `]}`))
		}))
		defer daemon.Close()
		r := cli(t, []string{"ORRERY_SERVER=" + daemon.URL, "ORRERY_NAMESPACE=ns", "ORRERY_TENANT=ann"}, "", "actions", "list")
		assert.Zero(t, r.code, r.err)
		return r.out
	}
	both := list(mine + "," + theirs)
	assert.Regexp(t, `(?m)^ID +SCOPE +STATUS `, both)
	assert.Regexp(t, `(?m)^0193f2a4-5b6c-7d8e-9f01-23456789abcd +ns/ann +\S* *echo `, both)
	assert.Regexp(t, `(?m)^0193f2a4-5b6c-7d8e-9f01-23456789abce +ns/eve +\S* *echo `, both)
	assert.Regexp(t, `(?m)^ID +STATUS `, list(mine), "it is the tenant that commands look in")
}
