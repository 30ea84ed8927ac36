//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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
	if os.Getenv("PARTITIONS_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is the program, and where it answers.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

func start(t *testing.T, database, name string) process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, name, "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "PARTITIONS_TEST_MAIN=1", "DATABASE="+database, "KEY=of the test")
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "it has ended")
	at, ok := strings.CutPrefix(lines.Text(), name+" answers at ")
	require.True(t, ok, lines.Text())
	return process{t, cmd, "http://" + at}
}

func (p process) end(s os.Signal) error {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
	return p.cmd.Wait()
}

type action struct {
	ID     string
	Status struct {
		Type   string
		Result string
	}
}

// asks sends a request until it is answered otherwise than that nobody works there yet, and reads the answer.
func (p process) asks(method, path, body string, status int, into any) {
	p.t.Helper()
	require.EventuallyWithT(p.t, func(t *assert.CollectT) {
		req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		require.Equal(t, status, resp.StatusCode, "%s", text)
		require.NoError(t, json.Unmarshal(text, into), "%s", text)
	}, time.Minute, 10*time.Millisecond)
}

// greeted has a tenant greeted, and gives the words.
func (p process) greeted(tenant int) string {
	p.t.Helper()
	var a action
	p.asks(http.MethodPost, "/v1/actions", fmt.Sprintf(`{"namespace":"n","tenant":"t%d","tool_name":"greet","label":"t%d"}`, tenant, tenant), http.StatusCreated, &a)
	require.Eventually(p.t, func() bool {
		p.asks(http.MethodGet, "/v1/actions/"+a.ID, "", http.StatusOK, &a)
		return a.Status.Type == "completed"
	}, time.Minute, 10*time.Millisecond)
	return a.Status.Result
}

// greeters has each tenant greeted, by requests to one process, and gives who has done it.
func (p process) greeters(tenants int) map[string]bool {
	p.t.Helper()
	by := make(map[string]bool)
	for n := range tenants {
		who, whom, ok := strings.Cut(p.greeted(n), " says hi to ")
		require.True(p.t, ok)
		assert.Equal(p.t, fmt.Sprint("t", n), whom)
		by[who] = true
	}
	return by
}

func TestProcessesWorkSideBySideAndAnyAnswers(t *testing.T) {
	const tenants = 12
	database := postgrestest.Database(t)
	one := start(t, database, "one")
	assert.Equal(t, map[string]bool{"one": true}, one.greeters(tenants))
	two := start(t, database, "two")
	require.Eventually(t, func() bool { return len(one.greeters(tenants)) == 2 }, time.Minute, time.Millisecond, "it has its share")
	greeted := make(map[string]bool) // by its id
	for after := ""; ; {
		var page struct {
			Actions []action
			Next    string `json:"next_page_token"`
		}
		p := []process{one, two}[len(greeted)%2] // any of them goes on
		p.asks(http.MethodGet, "/v1/actions?namespace=n&limit=5"+after, "", http.StatusOK, &page)
		for _, a := range page.Actions {
			assert.False(t, greeted[a.ID], "it was listed already")
			greeted[a.ID] = true
		}
		if page.Next == "" {
			break
		}
		after = "&page_token=" + page.Next
	}
	assert.Zero(t, len(greeted)%tenants)
	assert.GreaterOrEqual(t, len(greeted), 2*tenants)

	require.Error(t, two.end(os.Kill)) // it gives nothing back
	assert.Equal(t, map[string]bool{"one": true}, one.greeters(tenants), "its partitions are taken over")
	three := start(t, database, "three")
	require.NoError(t, one.end(syscall.SIGTERM)) // it gives all back
	assert.Equal(t, map[string]bool{"three": true}, three.greeters(tenants))
	require.NoError(t, three.end(syscall.SIGTERM))
}
