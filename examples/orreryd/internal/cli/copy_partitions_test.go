//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// tenantOf gives the flags of one of the tenants of a test.
func tenantOf(n int) []string { return []string{"--namespace", "n", "--tenant", fmt.Sprint("t", n)} }

// copiesInto copies, and gives what is reported.
func copiesInto(t *testing.T, from, to string, flags ...string) (report copyReport) {
	t.Helper()
	r := cli(t, nil, "", append([]string{"copy", "--from", from, "--to", to, "--json"}, flags...)...)
	require.Zero(t, r.code, r.err)
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	return report
}

// deployToken takes the lock of a tenant, gives it back, and gives its token.
func (p *process) deployToken(n int) uint64 {
	p.t.Helper()
	var lock struct {
		Token uint64 `json:"token"`
	}
	acquire := append([]string{"lock", "acquire", "deploy", "--holder", "me", "--ttl", "1h", "--json"}, tenantOf(n)...)
	require.NoError(p.t, json.Unmarshal([]byte(p.ok(acquire...)), &lock))
	p.ok(append([]string{"lock", "release", "deploy", "--holder", "me", "--fencing", strconv.FormatUint(lock.Token, 10)}, tenantOf(n)...)...)
	return lock.Token
}

// page asks for a page of two actions, and gives the status, the body and the next page's token.
func (p *process) page(token string) (code int, body, next string) {
	p.t.Helper()
	r, err := http.Get(p.url + "/v1/actions?limit=2&page_token=" + token)
	require.NoError(p.t, err)
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	require.NoError(p.t, err)
	var page struct {
		Next string `json:"next_page_token"`
	}
	require.NoError(p.t, json.Unmarshal(all, &page))
	return r.StatusCode, string(all), page.Next
}

func TestACopyIntoAnotherNumberOfPartitionsGoesOnWhereTheSourceWas(t *testing.T) {
	t.Parallel()
	const tenants = 10
	db, four, three, other := database(t), postgrestest.Database(t), postgrestest.Database(t), postgrestest.Database(t)
	p := start(t, "--db", db)
	tokens, ids := map[int]uint64{}, []string{}
	for n := range tenants {
		ids = append(ids, p.add(append([]string{"--wait"}, append(tenantOf(n), "--", "echo", "done")...)...))
		ids = append(ids, p.add(append([]string{"--in", "1h"}, append(tenantOf(n), "--", "echo", "later")...)...))
		p.ok(append([]string{"queue", "push", "q", "--data", `{"n":1}`}, tenantOf(n)...)...)
		p.ok(append([]string{"recurring", "add", "--name", "daily", "--cron", "0 9 * * *"}, append(tenantOf(n), "--", "true")...)...)
		tokens[n] = p.deployToken(n)
	}
	_, _, cursor := p.page("")
	require.NotEmpty(t, cursor)
	p.stop()

	report := copiesInto(t, db, four, "--partitions", "4")
	assert.False(t, report.Journal)
	assert.Equal(t, 4, report.Partitions)
	assert.Empty(t, report.Left)
	at := map[int]bool{}
	for n := range tenants {
		at[core.Partition(core.Scope{Namespace: "n", Tenant: fmt.Sprint("t", n)}, 4)] = true
	}
	require.Len(t, at, 4, "each partition has tenants")

	// goesOn starts a daemon on a copy, which has all, and does what was to be done.
	goesOn := func(flags ...string) *process {
		p := start(t, flags...)
		for n := range tenants {
			token := p.deployToken(n)
			assert.Greater(t, token, tokens[n], "tenant %d, %v", n, flags)
			tokens[n] = token
			assert.Equal(t, core.StatusCompleted, p.action(ids[2*n]).Status.Type)
			assert.Equal(t, core.StatusPending, p.action(ids[2*n+1]).Status.Type)
			if n%3 == 0 {
				assert.Contains(t, p.ok(append([]string{"queue", "show", "q"}, tenantOf(n)...)...), "1 ready")
				assert.Contains(t, p.ok(append([]string{"recurring", "list", "--output", "name"}, tenantOf(n)...)...), "\n")
			}
		}
		assert.Len(t, strings.Fields(p.ok("actions", "list", "--output", "name", "--all")), len(ids))
		code, says, _ := p.page(cursor)
		assert.Equal(t, http.StatusBadRequest, code, says)
		assert.Contains(t, says, "page_token")
		_, _, cursor = p.page("")
		return p
	}
	p = goesOn("--database", four, "--config", member(t, "first"))
	due := p.add(append([]string{"--in", "1h"}, append(tenantOf(5), "--", "echo", "moved")...)...)
	ids = append(ids, due)
	p.stop()
	for k := range 4 {
		r := cli(t, nil, "", "replay", "--verify", "--database", four, "--partition", strconv.Itoa(k))
		require.Zero(t, r.code, "%s%s", r.out, r.err)
	}

	r := cli(t, nil, "", "cluster", "init", "--database", three, "--partitions", "3")
	require.Zero(t, r.code, r.err)
	report = copiesInto(t, four, three)
	assert.Equal(t, 3, report.Partitions)
	p = goesOn("--database", three, "--config", member(t, "second"))
	p.stop()

	// As many partitions as the source has keep their journals.
	report = copiesInto(t, three, other, "--partitions", "3")
	assert.True(t, report.Journal)
	for k := range 3 {
		r := cli(t, nil, "", "replay", "--verify", "--database", other, "--partition", strconv.Itoa(k))
		require.Zero(t, r.code, "%s%s", r.out, r.err)
		assert.NotContains(t, r.out, "no batch")
	}

	report = copiesInto(t, other, db+".back")
	assert.Equal(t, 1, report.Partitions)
	verified(t, db+".back")
	p = goesOn("--db", db+".back")
	p.ok("actions", "trigger", due)
	require.Eventually(t, func() bool { return p.action(due).Status.Type == core.StatusCompleted }, patience, 20*time.Millisecond)
	p.stop()
	verified(t, db+".back")

	r = cli(t, nil, "", "copy", "--from", db, "--to", four)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "it has content already: only an empty one is filled")
	r = cli(t, nil, "", "copy", "--from", three, "--to", db)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "it is not overwritten")
}

func TestACopyIntoOtherPartitionsIsRefusedIfSomethingWouldBeLost(t *testing.T) {
	t.Parallel()
	db, url := stoppedFile(t), postgrestest.Database(t)
	st, err := bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	hook := store.Webhook{ID: uuid.UUID{7}, Route: "git", Body: []byte("x")}
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.PutWebhook(hook) }))
	require.NoError(t, st.Close())
	r := cli(t, nil, "", "copy", "--from", db, "--to", url, "--partitions", "4")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, `of route "git": start the daemon on it once more, and stop it again`)

	st, err = bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.DeleteWebhook(hook.ID) }))
	require.NoError(t, st.Close())
	r = cli(t, nil, "", "copy", "--from", db, "--to", url, "--partitions", "4")
	require.Zero(t, r.code, "it is begun anew: %s", r.err)
	assert.Contains(t, r.out, "which had 1 partition, in 4 partitions; the journal stays behind")
	assert.True(t, filepath.IsAbs(db) && slices.Contains(strings.Fields(r.out), db))
}

// The copy is cut off when one partition is whole, one is not, and it has not come to the third.
func TestADaemonRefusesHalfOfACopyIntoSeveralPartitions(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", url, "--partitions", "3")
	require.Zero(t, r.code, r.err)
	whole, err := postgres.Open(t.Context(), url, postgres.Options{Partition: 0})
	require.NoError(t, err)
	require.NoError(t, whole.Close())
	refused := func(while string) {
		t.Helper()
		p := begin(t, []string{"ORRERY_DATABASE=" + url}, "orchestrate", "--listen", "127.0.0.1:0", "--config", member(t, "early"))
		assert.Equal(t, exitFailed, p.code(), while)
		for _, want := range []string{
			"orreryd: ORRERY_DATABASE: postgres://orrery@", ": partition 1: it was being filled with another database's content",
			"If orreryd copy goes on, start the daemon once that is done; if it was cut off, run the same copy again, or drop the schema orrery",
		} {
			assert.Contains(t, p.stderr.String(), want, while)
		}
		for _, said := range []string{"msg=ready", "level=ERROR", "stands by"} {
			assert.NotContains(t, p.stderr.String(), said, while)
		}
	}
	half, err := postgres.Open(t.Context(), url, postgres.Options{Owner: copyOwner, Partition: 1, Fill: true})
	require.NoError(t, err)
	refused("while it goes on")
	require.ErrorIs(t, half.Import(t.Context(), failingExport{}), errFailing)
	require.NoError(t, half.Close())
	refused("once it was cut off")
	c, err := postgres.Connect(t.Context(), url, postgres.Options{ReadOnly: true})
	require.NoError(t, err)
	defer c.Close()
	opened, err := c.Partitions(t.Context())
	require.NoError(t, err)
	assert.Len(t, opened, 2, "a daemon that is refused opens no partition")

	execSQL(t, url, "DROP SCHEMA orrery CASCADE")
	p := start(t, "--database", url, "--config", member(t, "anew"))
	p.stop()
}

// A copy can only begin where no daemon has opened the partition yet, so the mark is set by hand.
func TestADaemonIsNotReadyWhileAPartitionOfItsIsHalfOfACopy(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", url, "--partitions", "2")
	require.Zero(t, r.code, r.err)
	for n := range 2 {
		st, err := postgres.Open(t.Context(), url, postgres.Options{Partition: n, Owner: "other"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = st.Close() })
	}
	p := start(t, "--database", url, "--config", member(t, "late"))
	half, err := postgres.Open(t.Context(), url, postgres.Options{Partition: 1, Owner: "other", TakeOver: true})
	require.NoError(t, err)
	execSQL(t, url, `UPDATE orrery.partitions SET halted = 'it is being filled with another database''s content' WHERE part = 1`)
	require.NoError(t, half.Close())
	await(t, p.errs, `nobody can open the partition.* partition=1 .*run the same copy again, or drop the schema orrery`)
	status, text := p.readiness()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, "partition 1 is half of a copy that was cut off: run the same orreryd copy again, or drop the schema")
	execSQL(t, url, `UPDATE orrery.partitions SET halted = '' WHERE part = 1`)
	require.Eventually(t, func() bool {
		status, text := p.readiness()
		return status == http.StatusOK && strings.Contains(text, `"owned":2`)
	}, 2*patience, 50*time.Millisecond)
	p.stop()
}
