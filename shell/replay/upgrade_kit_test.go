package replay_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store/bolt"
)

// oldScope is the tenant of everything in schedules-killed.tar.gz.
var oldScope = shell.Scope{Namespace: "old", Tenant: "t"}

// oldID is the id of what has that name in schedules-killed.tar.gz.
func oldID(name string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceURL, []byte("orrery:old:"+name)) }

// oldDaemon is an engine with a service of jobs on a bolt store, under virtual time. Its tools
// are "note", which succeeds, "fails", and "hold", which does not return while holds is set.
type oldDaemon struct {
	t     *testing.T
	st    *bolt.Store
	e     *shell.Engine
	fake  *runnertest.Fake
	holds bool
	end   func()

	mu  sync.Mutex
	ran map[uuid.UUID][]uint32 // the attempts of each action that a tool has begun
}

func (d *oldDaemon) tool(ctx context.Context, c shell.Call) (json.RawMessage, error) {
	d.mu.Lock()
	d.ran[c.ActionID] = append(d.ran[c.ActionID], c.Attempt)
	d.mu.Unlock()
	switch {
	case c.Tool == "fails":
		return json.RawMessage(`{"exit_code":1}`), errors.New("it was told to fail")
	case c.Tool == "hold" && d.holds:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return json.RawMessage(`{"done":true}`), nil
}

func (d *oldDaemon) runs(of uuid.UUID) []uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ran[of]
}

// start begins it on the database at a path.
func (d *oldDaemon) start(t *testing.T, path string) {
	t.Helper()
	st, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	s, err := jobs.New(jobs.Options{Runners: map[string]jobs.Runner{"fake": d.fake}, Logger: quiet})
	require.NoError(t, err)
	tools := map[string]shell.Tool{jobs.ToolName: s.Tool()}
	for _, name := range []string{"note", "fails", "hold"} {
		tools[name] = shell.ToolFunc(d.tool)
	}
	d.ran = make(map[uuid.UUID][]uint32)
	e, err := shell.New(shell.Options{
		Store: st, Tools: tools, Interpreters: s.Interpreters(), Logger: quiet, StopTimeout: time.Second, RecoverAfter: time.Second,
		Webhooks: map[string]shell.WebhookRoute{"hook": {Tool: "note", ToolInput: []byte(`{}`), Namespace: oldScope.Namespace, Tenant: oldScope.Tenant}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var engineErr, serviceErr error
	wg.Go(func() { engineErr = e.Run(ctx) })
	wg.Go(func() { serviceErr = s.Run(context.Background(), e) })
	d.t, d.st, d.e = t, st, e
	d.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait() // the service ends with the engine
		require.NoError(t, engineErr)
		require.NoError(t, serviceErr)
	})
}

// pass lets virtual time go on until everything rests.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// unpackedFolder unpacks the files of a daemon that was killed: its database, with the log and
// the journal beside it. It gives the path of the database.
func unpackedFolder(t *testing.T, path string) string {
	t.Helper()
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, packed.Close()) }()
	in, err := gzip.NewReader(packed)
	require.NoError(t, err)
	dir := t.TempDir()
	for files := tar.NewReader(in); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "orrery.db")
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(head.Name), "%s", head.Name)
		name := filepath.Join(dir, head.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
}
