//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// exported is a sink that notes all that comes.
type exported []string

func (l *exported) note(args ...any) error {
	*l = append(*l, fmt.Sprintf("%+v", args))
	return nil
}

func (l *exported) Begin(h store.Head) error    { return l.note("head", h.Seq, h.Token) }
func (l *exported) Record(r store.Record) error { return l.note("record", r) }
func (l *exported) Due(d store.DueEntry) error  { return l.note("due", d) }
func (l *exported) Term(k effects.Kind, id uuid.UUID, t store.Term) error {
	return l.note("term", k, id, t)
}
func (l *exported) Outbox(e store.OutboxEntry) error { return l.note("outbox", e) }
func (l *exported) Webhook(w store.Webhook) error    { return l.note("webhook", w) }
func (l *exported) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	return l.note("log", run, attempt, text)
}
func (l *exported) Claim(c store.Claim) error             { return l.note("claim", c) }
func (l *exported) Quarantined(q store.Quarantined) error { return l.note("quarantined", q) }
func (l *exported) Meta(name string, value []byte) error  { return l.note("meta", name, value) }
func (l *exported) Base(epoch, seq uint64, r store.Record) error {
	return l.note("base", epoch, seq, r)
}
func (l *exported) Batch(at effects.Time, b store.Batch) error { return l.note("batch", at, b) }
func (l *exported) Epoch(e store.Epoch) error                  { return l.note("epoch", e) }
func (l *exported) Omitted(o store.Omission) error             { return l.note("omitted", o) }

// allOf lists all that a database holds.
func allOf(t *testing.T, place string) []string {
	t.Helper()
	var st source
	var err error
	if filepath.IsAbs(place) {
		st, err = bolt.Open(place, bolt.Options{ReadOnly: true})
	} else {
		st, err = postgres.Open(t.Context(), place, postgres.Options{ReadOnly: true})
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	var l exported
	require.NoError(t, st.Export(t.Context(), &l))
	slices.Sort(l)
	return l
}

// lockToken acquires a lock, and gives its token.
func (p *process) lockToken(name string) uint64 {
	p.t.Helper()
	var lock struct {
		Token uint64 `json:"token"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("lock", "acquire", name, "--holder", "me", "--ttl", "1h", "--json")), &lock))
	require.NotZero(p.t, lock.Token)
	return lock.Token
}

func (p *process) stop() {
	p.t.Helper()
	p.signal(os.Interrupt)
	require.Zero(p.t, p.code())
}

func TestACopyHasAllAndTokensOfLocksGoOn(t *testing.T) {
	t.Parallel()
	db, url, other := database(t), postgrestest.Database(t), postgrestest.Database(t)
	p := start(t, "--db", db)
	p.add("--wait", "--", "echo", "done")
	p.add("--in", "1h", "--", "echo", "later")
	p.ok("recurring", "add", "--name", "daily", "--cron", "0 9 * * *", "--", "true")
	token := p.lockToken("deploy")
	p.ok("lock", "release", "deploy", "--holder", "me", "--fencing", fmt.Sprint(token))
	p.stop()
	for _, places := range [][]string{{db, url}, {url, other}, {other, db + ".back"}, {db + ".back", db + ".twin"}} {
		r := cli(t, nil, "", "copy", "--from", places[0], "--to", places[1], "--json")
		require.Zero(t, r.code, r.err)
		var report copyReport
		require.NoError(t, json.Unmarshal([]byte(r.out), &report))
		assert.NotZero(t, report.Batch)
		assert.NotZero(t, report.Entries)
		assert.Equal(t, allOf(t, db), allOf(t, places[1]), "%s", places[1])
	}
	for _, flags := range [][]string{{"--database", other}, {"--db", db + ".twin"}} {
		p = start(t, flags...)
		assert.Greater(t, p.lockToken("deploy"), token)
		p.stop()
	}
}

func TestACopyFencesNoDaemonAndKeepsDaemonsAway(t *testing.T) {
	t.Parallel()
	db, url := database(t), postgrestest.Database(t)
	p := start(t, "--database", url, "--config", member(t, "works"))
	p.add("--wait", "--", "echo", "done")
	for _, flags := range [][]string{nil, {"--lease", "20"}} { // a sign of life ends its wait at once
		r := cli(t, nil, "", append([]string{"copy", "--from", url, "--to", db}, flags...)...)
		assert.Equal(t, exitFailed, r.code)
		assert.Contains(t, r.err, `"works" at "`+p.url+`" owns it`)
		assert.Contains(t, r.err, "stop the daemon first")
	}
	p.add("--wait", "--", "echo", "not fenced")
	p.signal(os.Kill)
	p.code()

	// Whoever says how long a daemon may be silent copies what one has left that has crashed.
	r := cli(t, nil, "", "copy", "--from", url, "--to", db)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "if it has crashed, name its cluster.lease_seconds with --lease")
	require.NoFileExists(t, db)
	r = cli(t, nil, "", "copy", "--from", url, "--to", db, "--lease", "1")
	require.Zero(t, r.code, r.err)
	verified(t, db)

	// A daemon finds the copy's signs of life, though the copy writes nothing.
	c := copying{from: url}
	claimed, err := c.claim(t.Context())
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	st := claimed[0]
	require.NoError(t, held(t.Context(), st, func(context.Context) error {
		late := standsBy(t, url, "late")
		await(t, late.errs, `standing by: another daemon works on the database.*works="orreryd copy"`)
		<-time.After(6 * time.Second) // its lease of five is over
		status, _ := late.readiness()
		assert.Equal(t, http.StatusServiceUnavailable, status, "nobody works, and it does not either")
		late.signal(os.Interrupt)
		assert.Zero(t, late.code())
		return nil
	}))
	// Who takes the source over nevertheless ends the copy.
	taken := held(t.Context(), st, func(ctx context.Context) error {
		next, err := postgres.Open(t.Context(), url, postgres.Options{TakeOver: true}) // ctx ends as soon as the copy has noticed it
		require.NoError(t, err)
		defer func() { require.NoError(t, next.Close()) }()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, taken, store.ErrFenced)
	require.NoError(t, st.Close())
}

func TestACopyThatFailsIsBegunAnew(t *testing.T) {
	t.Parallel()
	db, url := database(t), postgrestest.Database(t)
	c := copying{to: url}
	require.ErrorIs(t, c.fill(t.Context(), &streamed{from: failingExport{}}), errFailing)
	_, err := bolt.MakeFile(t.Context(), db+".new", &streamed{from: failingExport{}})
	require.ErrorIs(t, err, errFailing)
	assert.NoFileExists(t, db+".new")
	late := begin(t, nil, "orchestrate", "--listen", "127.0.0.1:0", "--database", url)
	assert.Equal(t, exitFailed, late.code())
	assert.Contains(t, late.stderr.String(), "it was being filled with another database's content")
	assert.Contains(t, late.stderr.String(), "run the same copy again, or drop the schema orrery")
	assert.NotContains(t, late.stderr.String(), "standing by")

	p := start(t, "--db", db)
	p.add("--wait", "--", "echo", "done")
	p.stop()
	r := cli(t, nil, "", "copy", "--from", db, "--to", url)
	require.Zero(t, r.code, r.err)
	assert.Equal(t, allOf(t, db), allOf(t, url))
}

var errFailing = errors.New("the disk is away")

// failingExport gives a little, and fails.
type failingExport struct{}

func (failingExport) Export(_ context.Context, to store.Sink) error {
	if err := to.Begin(store.Head{Seq: 1}); err != nil {
		return err
	}
	if err := to.Meta("half", []byte("a copy")); err != nil {
		return err
	}
	return errFailing
}
