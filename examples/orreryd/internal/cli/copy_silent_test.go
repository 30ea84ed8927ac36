//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// copyRefused holds that a copy, and a dry run of it, fail, and write nothing.
func copyRefused(t *testing.T, url, says string, flags ...string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, dry := range []string{"--dry-run", "--dry-run=false"} {
		r := cli(t, nil, "", append([]string{"copy", dry, "--from", url, "--to", to}, flags...)...)
		assert.Equal(t, exitFailed, r.code, "%s: %s%s", dry, r.out, r.err)
		assert.Contains(t, r.err, says, dry)
		assert.NoFileExists(t, to, dry)
	}
}

// leavesRunning has a daemon hand its database over while a tool runs until the gate is there, and the one that takes it over give it back.
func leavesRunning(t *testing.T, url, gate string) (former *process, running string) {
	t.Helper()
	former = start(t, "--database", url, "--config", member(t, "first"))
	second := standsBy(t, url, "second")
	running = former.add("--", "sh", "-c", "until test -e "+gate+"; do sleep 0.02; done; echo after")
	require.Eventually(t, func() bool { return former.action(running).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)
	require.Eventually(t, func() bool { return assert.ObjectsAreEqual(200, firstOf(second.readiness())) }, patience, 20*time.Millisecond)
	former.signal(syscall.SIGTERM)
	second.works()
	await(t, second.errs, "a former owner of the store goes on with what it carries out")
	second.stop()
	return former, running
}

func firstOf(status int, _ string) int { return status }

func TestACopyRefusesASourceOfWhichAFormerOwnerCarriesOutSomething(t *testing.T) {
	t.Parallel()
	url, gate, db := postgrestest.Database(t), filepath.Join(t.TempDir(), "gate"), database(t)
	former, running := leavesRunning(t, url, gate)
	copyRefused(t, url, `the daemon "first" has given partition 0 back, and goes on with what it carries out there: wait until it has ended; if it has crashed, name its cluster.lease_seconds with --lease`)
	copyRefused(t, url, `the daemon "first" has given partition 0 back, goes on with what it carries out there, and gives signs of life: wait until it has ended, or stop it`, "--lease", "5")

	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Zero(t, former.code(), former.stderr.String())
	const untaken = "a daemon has told what came of a run in partition 0 after it had given that back, and no daemon has noted it yet: start a daemon on it, and stop it"
	copyRefused(t, url, untaken)
	copyRefused(t, url, untaken, "--lease", "5")

	third := start(t, "--database", url, "--config", member(t, "third"))
	require.Eventually(t, func() bool { return third.action(running).Status.Type == core.StatusCompleted }, patience, 20*time.Millisecond)
	third.stop()
	r := cli(t, nil, "", "copy", "--from", url, "--to", db)
	require.Zero(t, r.code, r.err)
	verified(t, db)
	p := start(t, "--db", db)
	a := p.action(running)
	assert.Equal(t, core.StatusCompleted, a.Status.Type)
	assert.Contains(t, string(a.Status.Result), "after")
	p.stop()
}

func TestACopyTakesOutAFormerOwnerThatIsSilentAndThatEndsWhatItCarriesOut(t *testing.T) {
	t.Parallel()
	url, gate, db := postgrestest.Database(t), filepath.Join(t.TempDir(), "gate"), database(t)
	former, running := leavesRunning(t, url, gate)
	former.signal(syscall.SIGSTOP)
	copyRefused(t, url, "if it has crashed, name its cluster.lease_seconds with --lease")
	r := cli(t, nil, "", "copy", "--dry-run", "--from", url, "--to", db, "--lease", "5")
	require.Zero(t, r.code, r.err)
	assert.Len(t, formersIn(t, url, 0), 1, "a dry run changes nothing")
	r = cli(t, nil, "", "copy", "--from", url, "--to", db, "--lease", "5")
	require.Zero(t, r.code, r.err)
	assert.Empty(t, formersIn(t, url, 0))
	verified(t, db)

	former.signal(syscall.SIGCONT)
	former.code()
	assert.Contains(t, former.stderr.String(), "the owner of the store took this process for gone, and has told the machines; ending what runs here")
	p := start(t, "--db", db, "--config", member(t, "copy"))
	require.Eventually(t, func() bool { return p.action(running).Status.Type.Terminal() }, patience, 20*time.Millisecond)
	assert.NotEqual(t, core.StatusCompleted, p.action(running).Status.Type, "nobody knows whether it had an effect")
	p.stop()
}

// formersIn lists the former owners of a partition.
func formersIn(t *testing.T, url string, partition int) []store.Former {
	t.Helper()
	c, err := postgres.Connect(t.Context(), url, postgres.Options{ReadOnly: true})
	require.NoError(t, err)
	defer c.Close()
	all, _, err := c.Formers(t.Context(), partition, 1)
	require.NoError(t, err)
	return all
}

// handedOver divides a database, and has a former owner noted in each of its partitions, which nobody owns then.
func handedOver(t *testing.T, partitions int) (url string, c *postgres.Cluster, formers []store.Former) {
	t.Helper()
	url = postgrestest.Database(t)
	c, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.SetLayout(t.Context(), store.Layout{Partitions: partitions, Rule: core.PartitionRule}))
	for k := range partitions {
		st, err := postgres.Open(t.Context(), url, postgres.Options{Partition: k})
		require.NoError(t, err)
		f := store.Former{Partition: k, Session: st.Session(), Owner: "d", Running: []store.EffectKey{{ID: uuid.UUID{1}, N: 1}}}
		require.NoError(t, c.Remain(t.Context(), f))
		require.NoError(t, st.Close())
		formers = append(formers, f)
	}
	return url, c, formers
}

func TestACopyLooksAtFormerOwnersInAllPartitions(t *testing.T) {
	t.Parallel()
	url, c, formers := handedOver(t, 3)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, err := c.Report(t.Context(), formers[2], nil)
				assert.NoError(t, err)
			}
		}
	}()
	copyRefused(t, url, `the daemon "d" has given partition 2 back, goes on with what it carries out there, and gives signs of life`, "--lease", "20")
	close(stop)
	<-done
	for k := range 3 {
		assert.Len(t, formersIn(t, url, k), 1)
	}

	r := cli(t, nil, "", "copy", "--from", url, "--to", database(t), "--lease", "1")
	require.Zero(t, r.code, r.err)
	for k := range 3 {
		assert.Empty(t, formersIn(t, url, k))
	}
	for _, f := range formers {
		_, err := c.Report(t.Context(), f, nil)
		require.ErrorIs(t, err, store.ErrFenced)
	}
}

func TestACopyRefusesWhatAFormerOwnerTellsUntilItIsTakenOut(t *testing.T) {
	t.Parallel()
	url, c, formers := handedOver(t, 2)
	claims := copying{from: url, lease: 1}
	seen, err := claims.look(t.Context())
	require.NoError(t, err)
	stores := make([]*postgres.Store, len(seen))
	for k, p := range seen {
		stores[k], err = claims.claimOne(t.Context(), p.Partition)
		require.NoError(t, err)
	}
	defer func() { require.NoError(t, closeAll(stores)) }()
	_, err = c.Report(t.Context(), formers[1], nil)
	require.NoError(t, err)
	require.ErrorContains(t, claims.dismiss(t.Context(), seen, stores), `the daemon "d" has given partition 1 back, goes on with what it carries out there, and gives signs of life`)
	assert.Len(t, formersIn(t, url, 1), 1, "it lives")
	_, err = c.Report(t.Context(), formers[1], []store.FormerResult{{Session: formers[1].Session, Key: formers[1].Running[0], Data: []byte("{}")}})
	require.NoError(t, err)
	require.ErrorContains(t, claims.dismiss(t.Context(), seen, stores), "start a daemon on it, and stop it")
}

func TestACopyWaitsForTheOwnersOfAllPartitionsTogether(t *testing.T) {
	t.Parallel()
	url, _, _ := handedOver(t, 2)
	var crashed []*postgres.Store
	for k := range 2 {
		st, err := postgres.Open(t.Context(), url, postgres.Options{Partition: k, Owner: "crashed"})
		require.NoError(t, err)
		crashed = append(crashed, st)
	}
	copyRefused(t, url, `"crashed" at "" owns it: stop the daemon first`)
	claims := copying{from: url, lease: 1}
	all, err := claims.claim(t.Context())
	for errors.Is(err, store.ErrClaimed) { // what an opening has begun beside may have come to an end meanwhile: a sign of life
		all, err = claims.claim(t.Context())
	}
	require.NoError(t, err)
	for _, st := range crashed {
		require.ErrorIs(t, st.Renew(t.Context()), store.ErrFenced)
	}
	require.NoError(t, closeAll(all))
	require.NoError(t, closeAll(crashed))

	living, err := postgres.Open(t.Context(), url, postgres.Options{Partition: 1, Owner: "living"})
	require.NoError(t, err)
	defer func() { require.NoError(t, living.Close()) }()
	require.NoError(t, held(t.Context(), living, func(ctx context.Context) error {
		copyRefused(t, url, `partition 1: claimed by another holder: "living" at "" owns it and gives signs of life: stop the daemon first`, "--lease", "20")
		return nil
	}))
	beside, err := postgres.Open(t.Context(), url, postgres.Options{})
	require.NoError(t, err, "the copy has left partition 0 as it was")
	require.NoError(t, beside.Close())
}
