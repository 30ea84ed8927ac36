package browsertest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// repository is the top level, seen from this package.
const repository = "../../.."

// theProgram is orreryd, built when the first test asks for it.
var theProgram struct {
	once sync.Once
	dir  string
	err  error
	says []byte
}

// program gives the path of orreryd.
func program(t *testing.T) string {
	t.Helper()
	p := &theProgram
	p.once.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "orrery-browsertest-"); p.err != nil { //nolint:usetesting // it outlives the test
			return
		}
		build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", p.dir, "./examples/orreryd")
		build.Dir = repository
		p.says, p.err = build.CombinedOutput()
	})
	require.NoError(t, p.err, "%s", p.says)
	return filepath.Join(p.dir, "orreryd")
}

// orreryd is the daemon as a process of its own, which can be killed. Its first token is an administrator's.
type orreryd struct {
	*daemon
	config string
	cmd    *exec.Cmd
	output chan struct{} // closed at its end
}

const adminSecret = "admin-of-the-tests"

// startOrreryd starts the daemon with more in its configuration.
func startOrreryd(t *testing.T, toml string) *orreryd {
	t.Helper()
	d := &orreryd{daemon: &daemon{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", tokens: []httpapi.Token{token(adminSecret, nil)}}}
	d.config = filepath.Join(d.dir, "orrery.toml")
	toml += "\n[[tokens]]\nname = \"ann\"\nadmin = true\ntoken = \"" + adminSecret + "\"\n\n[runners.local]\nenabled = true\n"
	require.NoError(t, os.WriteFile(d.config, []byte(toml), 0o600))
	d.start()
	t.Cleanup(d.kill)
	return d
}

var readyAt = regexp.MustCompile(`is ready at (http://([0-9.:]+))\n$`)

// start starts the daemon at the address that it has, and waits until it answers.
func (d *orreryd) start() {
	d.t.Helper()
	d.cmd = exec.CommandContext(context.Background(), program(d.t), "orchestrate", "--config", d.config, "--db", filepath.Join(d.dir, "o.db"), "--listen", d.addr)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ORRERY_") && !strings.HasPrefix(v, "NOTIFY_SOCKET=") {
			d.cmd.Env = append(d.cmd.Env, v)
		}
	}
	log := &strings.Builder{}
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, d.cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		_ = d.cmd.Wait()
		require.NoError(d.t, err, "%s", log)
	}
	said := readyAt.FindStringSubmatch(line)
	require.NotNil(d.t, said, line)
	d.url, d.addr = said[1], said[2]
	d.output = make(chan struct{})
	go func() {
		defer close(d.output)
		_, _ = io.Copy(io.Discard, lines)
	}()
}

// named makes an action with a label.
func (d *orreryd) named(label string) {
	d.t.Helper()
	d.make("POST", "/v1/actions", fmt.Sprintf(`{"namespace":"default","tenant":"default","label":%q,"tool_name":"command","tool_input":{"argv":["true"]}}`, label), "id")
}

// kill ends the daemon as kill -9 does.
func (d *orreryd) kill() {
	d.t.Helper()
	_ = d.cmd.Process.Kill()
	<-d.output
	_ = d.cmd.Wait() // it was killed
}
