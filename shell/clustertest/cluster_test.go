//go:build unix

package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/loopbacktest"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

const (
	daemons = 3
	// lease is cluster.lease_seconds: the shortest that there may be.
	lease = time.Second
	// patience bounds whatever should not take long.
	patience = 2 * time.Minute
)

// daemonConfig makes everything come soon. A tool is a shell of the system, which starts fast, and writes its line with one call.
const daemonConfig = `
database = %q
db = %q
listen = %q
tick_rate_seconds = 1

[cluster]
name = %q
address = "http://%s"
lease_seconds = %v

[engine]
recover_after_seconds = 0.5
lease_ttl_seconds = 2
stop_timeout_seconds = 5

[tools.line]
type = "command"
concurrency = 8
`

// runnerConfig has a daemon run pods.
const runnerConfig = `
[runners.pods]
type = "kubernetes"
kubeconfig = %q
qps = 100
`

// cluster is all daemons, their database and what stands between them.
type cluster struct {
	t        *testing.T
	dir      string // of configurations, logs and side effects
	program  string
	database string // its name
	server   *postgrestest.Server
	members  []*member // the first ones are always there, unless they fail
	chief    *client   // that moves partitions, and prepares and ends a run
	pods     *podAPI   // nil: no daemon runs pods
	stalls   []stall
}

// member is a daemon.
type member struct {
	t          *testing.T
	name       string
	program    string
	config     string
	log        string
	stopFile   string        // what it waits by, see [cluster.stopFile]
	address    string        // where it listens
	ahead      time.Duration // its clock
	apart      atomic.Bool   // it takes no part now: nobody starts it or asks it
	toDatabase *toxiproxy.Proxy
	fromOthers *toxiproxy.Proxy
	cmd        *exec.Cmd // nil: it does not run
	gone       chan struct{}
	err        error // once it is gone: how it ended
}

// reserveAddresses gives addresses to listen on, which nobody else is given before they are freed.
func reserveAddresses(t *testing.T, n int) (all []string, free func()) {
	t.Helper()
	var open []net.Listener
	for range n {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", loopbacktest.Daemon()+":0")
		require.NoError(t, err)
		open, all = append(open, l), append(all, l.Addr().String())
	}
	return all, func() {
		for _, l := range open {
			require.NoError(t, l.Close())
		}
	}
}

// newCluster starts the server and the daemons, whose clocks are so far ahead, on a database of so many partitions; 0: one that is not divided. On a divided one there is a
// daemon more, which takes no part until it is added. The daemons run pods if there is an API for them.
func newCluster(t *testing.T, ahead [daemons]time.Duration, partitions int, pods *podAPI) *cluster {
	t.Helper()
	c := prepareCluster(t, ahead, partitions, pods, daemonConfig)
	c.start(t)
	return c
}

// prepareCluster is newCluster without the start of the daemons, which have that configuration.
func prepareCluster(t *testing.T, ahead [daemons]time.Duration, partitions int, pods *podAPI, config string) *cluster {
	t.Helper()
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true, TCP: true}) // without PostgreSQL the test is skipped here
	dir, err := os.MkdirTemp("", "orrery-cluster-")                                 //nolint:usetesting // the folder of a failed test is kept
	require.NoError(t, err)
	c := &cluster{t: t, dir: dir, program: present.build(t), server: server, pods: pods}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept: %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	u, err := url.Parse(c.server.Database(t))
	require.NoError(t, err)
	c.database = strings.TrimPrefix(u.Path, "/")

	proxies := &toxiproxy.ApiServer{Metrics: toxiproxy.NewMetricsContainer(nil), Logger: new(zerolog.Logger)}
	*proxies.Logger = zerolog.Nop()
	proxy := func(name, upstream string) *toxiproxy.Proxy {
		p := toxiproxy.NewProxy(proxies, name, loopbacktest.Daemon()+":0", upstream)
		require.NoError(t, p.Start())
		t.Cleanup(p.Stop)
		return p
	}
	all := daemons
	if partitions > 0 {
		all++
		out, err := c.run("cluster", "init", "--partitions", strconv.Itoa(partitions), "--database", c.server.URL(c.database))
		require.NoError(t, err, "%s", out)
	}
	addresses, free := reserveAddresses(t, all)
	defer free() // the proxies have other ones then
	for n, address := range addresses {
		m := &member{t: t, name: fmt.Sprintf("daemon-%d", n), program: c.program, address: address}
		if n < daemons {
			m.ahead = ahead[n]
		}
		m.apart.Store(n >= daemons)
		m.stopFile = c.stopFile()
		m.config, m.log = filepath.Join(dir, m.name+".toml"), filepath.Join(dir, m.name+".log")
		m.toDatabase, m.fromOthers = proxy(m.name+"-database", c.server.Address()), proxy(m.name, address)
		text := fmt.Sprintf(config, m.databaseURL(c.database, partitions > 0), filepath.Join(dir, m.name+".db"), address,
			m.name, m.fromOthers.Listen, lease.Seconds())
		if pods != nil {
			text += fmt.Sprintf(runnerConfig, pods.kubeconfig(t, dir, m.name))
		}
		require.NoError(t, os.WriteFile(m.config, []byte(text), 0o600))
		c.members = append(c.members, m)
	}
	t.Cleanup(func() { // before the proxies end
		for _, m := range c.members {
			m.kill()
		}
	})
	return c
}

// start starts the daemons that are always there, and waits until they answer.
func (c *cluster) start(t *testing.T) {
	t.Helper()
	for _, m := range c.members[:daemons] {
		m.start()
	}
	for _, m := range c.members[:daemons] {
		require.NoError(t, poll(patience, m.answers), m.name)
	}
}

// databaseURL is that of the database for the daemon, whose sessions have its name. Without a limit the server waits as long as it takes for a session
// within a transaction, as behind a pooler that passes over what sessions ask for: who takes over has to end one that is frozen. With it the
// server ends it before.
func (m *member) databaseURL(database string, unlimited bool) string {
	url := postgrestest.TCPURL(m.toDatabase.Listen, database) + "&application_name=" + m.name
	if unlimited {
		url += "&idle_in_transaction_session_timeout=0"
	}
	return url
}

// cleanEnv is the environment without settings of a daemon.
func cleanEnv(extra ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ORRERY_") && !strings.Contains(strings.ToUpper(v), "_PROXY=") {
			env = append(env, v)
		}
	}
	return append(env, extra...)
}

// start starts the daemon, and waits for nothing. Its log goes to a file.
func (m *member) start() {
	m.t.Helper()
	log, err := os.OpenFile(m.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(m.t, err)
	m.cmd = exec.CommandContext(context.Background(), m.program, "orchestrate", "--config", m.config)
	m.cmd.Env = cleanEnv(aheadEnv+"="+m.ahead.String(), stopEnv+"="+m.stopFile)
	m.cmd.Stderr = log
	require.NoError(m.t, m.cmd.Start())
	cmd, gone := m.cmd, make(chan struct{})
	m.gone = gone
	go func() {
		defer close(gone)
		m.err = cmd.Wait()
		_ = log.Close()
	}()
}

// signal sends the daemon a signal.
func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	require.NoError(m.t, m.cmd.Process.Signal(s))
}

// kill ends the daemon as kill -9 does, and waits for its end.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	<-m.gone
	m.cmd = nil
}

// stop ends the daemon politely: it must end by itself, with success.
func (m *member) stop() error {
	m.signal(syscall.SIGTERM)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-m.gone:
		m.cmd = nil
		return m.err
	case <-limit.C:
		m.kill()
		return fmt.Errorf("%s does not stop", m.name)
	}
}

// ended reports whether the daemon has ended by itself.
func (m *member) ended() bool {
	select {
	case <-m.gone:
		return m.cmd != nil
	default:
		return false
	}
}

// readiness is what the daemon says at /readyz.
func (m *member) readiness() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.address+"/readyz", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := direct.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var said struct{ Status string }
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%d %s", resp.StatusCode, raw)
	}
	return said.Status, json.Unmarshal(raw, &said)
}

// direct is a client without connections that stay open.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// answers says whether the daemon works or stands by.
func (m *member) answers() error {
	if m.ended() {
		return fmt.Errorf("it has ended: %w", m.err)
	}
	_, err := m.readiness()
	return err
}

// working gives a daemon that works, or the first one if none says so.
func (c *cluster) working() *member {
	for _, m := range c.members[:daemons] {
		if said, err := m.readiness(); err == nil && said == "ready" {
			return m
		}
	}
	return c.members[0]
}

// toxic adds what befalls all data of a proxy, and returns what takes it away.
func toxic(t *testing.T, p *toxiproxy.Proxy, stream, kind string, attributes string) (heal func()) {
	t.Helper()
	name := kind + "-" + stream
	_, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name": %q, "type": %q, "stream": %q, "attributes": %s}`, name, kind, stream, attributes)))
	require.NoError(t, err)
	return func() { require.NoError(t, p.Toxics.RemoveToxic(context.Background(), name)) }
}

// silence loses all data of a proxy in one direction; when that is over, the connections that have lost some are closed.
func silence(t *testing.T, p *toxiproxy.Proxy, stream string) (heal func()) {
	t.Helper()
	return toxic(t, p, stream, "timeout", `{"timeout": 0}`)
}

// effects is the file of the side effects.
func (c *cluster) effects() string { return filepath.Join(c.dir, "effects") }

// lead has the daemons find another server under the same address.
func (c *cluster) lead(to *postgrestest.Server) {
	c.t.Helper()
	for _, m := range c.members {
		p := m.toDatabase
		require.NoError(c.t, p.Update(&toxiproxy.Proxy{Listen: p.Listen, Upstream: to.Address(), Enabled: true}))
	}
	c.server = to
}

// log gives what a daemon has logged.
func (m *member) logged() string {
	b, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// run runs a command of the daemon's program.
func (c *cluster) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env = cleanEnv()
	out, err := cmd.CombinedOutput()
	return string(out), err
}
