//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// TestMain lets the test binary be the program, so that it is run as its users
// run it.
func TestMain(m *testing.M) {
	if os.Getenv("POSTGRES_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is the program, and what it says.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, database, name string) process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, name, "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "POSTGRES_TEST_MAIN=1", "DATABASE="+database)
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return process{t, cmd, bufio.NewScanner(out)}
}

// says waits for the next line.
func (p process) says() string {
	p.t.Helper()
	require.True(p.t, p.lines.Scan(), "it has ended")
	return p.lines.Text()
}

func (p process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// standsBy waits until it says so, and gives its URL.
func (p process) standsBy(name string) string {
	p.t.Helper()
	at, ok := strings.CutPrefix(p.says(), name+" stands by at ")
	require.True(p.t, ok)
	return "http://" + at
}

type action struct {
	ID     string
	Status struct {
		Type   string
		Result string
	}
}

// greeted has somebody greeted by whoever works, by requests to url.
func greeted(t *testing.T, url string) string {
	t.Helper()
	a := answer(t, http.StatusCreated)(http.Post(url+"/v1/actions", "application/json", strings.NewReader(`{"tool_name":"greet","label":"me"}`)))
	require.Eventually(t, func() bool {
		a = answer(t, http.StatusOK)(http.Get(url + "/v1/actions/" + a.ID))
		return a.Status.Type == "completed"
	}, time.Minute, 10*time.Millisecond)
	return a.Status.Result
}

func answer(t *testing.T, status int) func(*http.Response, error) action {
	t.Helper()
	return func(resp *http.Response, err error) (a action) {
		t.Helper()
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		require.Equal(t, status, resp.StatusCode, "%s", text)
		require.NoError(t, json.Unmarshal(text, &a), "%s", text)
		return a
	}
}

func TestOneProcessWorksAndTheNextFollows(t *testing.T) {
	database := postgrestest.Database(t)
	one := start(t, database, "one")
	assert.Equal(t, `one works: completed "one says hi to you"`, one.says())
	two := start(t, database, "two")
	at := two.standsBy("two")
	assert.Equal(t, "one says hi to me", greeted(t, at), "it has passed the request on")

	one.signal(os.Kill) // it gives nothing back
	require.Error(t, one.cmd.Wait())
	assert.Equal(t, `two works: completed "two says hi to you"`, two.says())
	assert.Equal(t, "two says hi to me", greeted(t, at))

	three := start(t, database, "three")
	three.standsBy("three")
	two.signal(syscall.SIGSTOP) // for longer than its lease
	assert.Equal(t, `three works: completed "three says hi to you"`, three.says())
	two.signal(syscall.SIGCONT)
	assert.Equal(t, at, two.standsBy("two"), "it has stored nothing since")
	assert.Equal(t, "three says hi to me", greeted(t, at))

	three.signal(syscall.SIGTERM) // it gives the database back
	require.NoError(t, three.cmd.Wait())
	assert.Equal(t, `two works: completed "two says hi to you"`, two.says())
	assert.Equal(t, "two says hi to me", greeted(t, at))
	two.signal(syscall.SIGTERM)
	require.NoError(t, two.cmd.Wait())
}
