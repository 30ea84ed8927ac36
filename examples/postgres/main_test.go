//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

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
	cmd := exec.CommandContext(t.Context(), exe, name)
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

func TestOneProcessWorksAndTheNextFollows(t *testing.T) {
	database := postgrestest.Database(t)
	one := start(t, database, "one")
	assert.Equal(t, `one works: completed "hi one"`, one.says())
	two := start(t, database, "two")
	assert.Equal(t, "two stands by", two.says())

	one.signal(os.Kill) // it gives nothing back
	require.Error(t, one.cmd.Wait())
	assert.Equal(t, `two works: completed "hi two"`, two.says())

	three := start(t, database, "three")
	assert.Equal(t, "three stands by", three.says())
	two.signal(syscall.SIGSTOP) // for longer than its lease
	assert.Equal(t, `three works: completed "hi three"`, three.says())
	two.signal(syscall.SIGCONT)
	assert.Regexp(t, `^ended: .*fenced.*"three" at "" owns it`, two.says(), "and it has stored nothing since")
	require.Error(t, two.cmd.Wait())

	four := start(t, database, "four")
	assert.Equal(t, "four stands by", four.says())
	three.signal(syscall.SIGTERM) // it gives the database back
	require.NoError(t, three.cmd.Wait())
	assert.Equal(t, `four works: completed "hi four"`, four.says())
	four.signal(syscall.SIGTERM)
	require.NoError(t, four.cmd.Wait())
}
