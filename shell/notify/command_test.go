//go:build unix

package notify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
)

// sh makes a channel of a shell script, whose $0 is a file of the test's own.
func sh(t *testing.T, script string) (c *notify.Command, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "out")
	c, err := notify.NewCommand(notify.CommandOptions{Argv: []string{"sh", "-c", script, file}, Timeout: time.Minute})
	require.NoError(t, err)
	return c, file
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

func TestACommandHasTheNotificationInItsEnvironmentAndOnItsInput(t *testing.T) {
	t.Setenv("SECRET_OF_THE_DAEMON", "x")
	c, file := sh(t, `{ printf '%s|%s|%s|%s|' "$ORRERY_TITLE" "$ORRERY_MESSAGE" "$ORRERY_SOUND" "$SECRET_OF_THE_DAEMON"; cat; } >"$0"`)
	n := effects.Notify{Title: "-t $(id)", Message: "a\nb `id` \x00 'c'", Sound: true}
	require.NoError(t, c.Notify(t.Context(), n))
	assert.Equal(t, "-t $(id)|a\nb `id`  'c'|true||-t $(id)\n\na\nb `id` \x00 'c'\n", read(t, file))
}

func TestALongMessageIsWholeOnTheInputAndCutInTheEnvironment(t *testing.T) {
	c, file := sh(t, `{ printf '%s|' "${#ORRERY_MESSAGE}"; wc -c; } >"$0"`)
	require.NoError(t, c.Notify(t.Context(), effects.Notify{Message: strings.Repeat("x", 1<<20)}))
	env, input, _ := strings.Cut(strings.TrimSpace(read(t, file)), "|")
	assert.Contains(t, []string{"32769", "32771"}, env, "32 KiB and an ellipsis, in characters or bytes")
	assert.Equal(t, "1048579", strings.TrimSpace(input))
}

func TestACommandThatNeedsNoInputMayLeaveItUnread(t *testing.T) {
	c, _ := sh(t, "exit 0")
	require.NoError(t, c.Notify(t.Context(), effects.Notify{Message: strings.Repeat("x", 1<<20)}))
}

func TestACommandThatFailsSaysWhyAndIsTriedAgain(t *testing.T) {
	c, _ := sh(t, "echo no luck >&2; exit 3")
	err := c.Notify(t.Context(), stuck)
	require.EqualError(t, err, `program "sh": exit status 3: "no luck"`)
	assert.False(t, shell.IsPermanent(err))
}

func TestOfWhatACommandThatFailsHasPrintedTheEndIsSaid(t *testing.T) {
	for _, n := range []int{513, 1024, 1025, 5000} {
		c, _ := sh(t, fmt.Sprintf("printf '%%0%dd' 7; exit 3", n))
		require.EqualError(t, c.Notify(t.Context(), stuck), fmt.Sprintf(`program "sh": exit status 3: "%0512d"`, 7), "%d", n)
	}
}

func TestACommandThatIsNotThereIsAPermanentError(t *testing.T) {
	for _, argv0 := range []string{"no-such-program-" + t.Name(), filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		c, err := notify.NewCommand(notify.CommandOptions{Argv: []string{argv0}})
		require.NoError(t, err)
		err = c.Notify(t.Context(), stuck)
		require.ErrorContains(t, err, "was not started")
		assert.True(t, shell.IsPermanent(err), "%v", err)
	}
}

func TestACommandThatReachesItsTimeLimitIsKilled(t *testing.T) {
	c, err := notify.NewCommand(notify.CommandOptions{Argv: []string{"sleep", "1000"}, Timeout: time.Millisecond})
	require.NoError(t, err)
	err = c.Notify(t.Context(), stuck)
	require.ErrorContains(t, err, `program "sleep" was`)
	require.ErrorContains(t, err, "time limit of 1ms")
	assert.False(t, shell.IsPermanent(err))
}

// Whatever the program has started holds the pipe open: it is read to its end only
// once all are gone.
func TestACommandThatIsStoppedTakesItsWholeGroupAlong(t *testing.T) {
	c, file := sh(t, `exec 3>"$0"; trap '' TERM; echo up >&3; sleep 1000 & sleep 1000`)
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- c.Notify(ctx, stuck) }()
	pipe, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = pipe.Close() }()
	_, err = io.ReadFull(pipe, make([]byte, 3))
	require.NoError(t, err)

	cancel(errors.New("the engine is stopping"))
	rest, err := io.ReadAll(pipe)
	require.NoError(t, err)
	assert.Empty(t, rest)
	require.EqualError(t, <-done, `program "sh" was killed: the engine is stopping`)
}

func TestACommandThatLeavesAChildBehindHasSucceeded(t *testing.T) {
	c, file := sh(t, `sleep 1000 & echo $! >"$0"`)
	require.NoError(t, c.Notify(t.Context(), stuck), "the child holds the output open")
	p := strings.TrimSpace(read(t, file))
	kill, err := notify.NewCommand(notify.CommandOptions{Argv: []string{"kill", p}})
	require.NoError(t, err)
	require.NoError(t, kill.Notify(t.Context(), stuck))
}

func TestWrongOptionsOfACommandAreRefusedByName(t *testing.T) {
	for want, o := range map[string]notify.CommandOptions{
		"Argv: must name a program":      {},
		"Argv: must name":                {Argv: []string{""}},
		`Argv[1]: "a\x00" has a NUL`:     {Argv: []string{"x", "a\x00"}},
		`Env: "a=b" is not a variable`:   {Argv: []string{"x"}, Env: map[string]string{"a=b": ""}},
		`Env: "" is not a variable`:      {Argv: []string{"x"}, Env: map[string]string{"": "b"}},
		`Env: "a\x00" is not a`:          {Argv: []string{"x"}, Env: map[string]string{"a\x00": "b"}},
		`Env: "value" is not a variable`: {Argv: []string{"x"}, Env: map[string]string{"value": "b\x00"}},
		"Timeout: -1ns is negative":      {Argv: []string{"x"}, Timeout: -1},
	} {
		_, err := notify.NewCommand(o)
		assert.ErrorContains(t, err, want)
	}
}

// A notify-send of the test's own shows what the real one would get.
func TestTheDesktopGetsTheMessageAsNoOption(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "args")
	script := "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"[$a]\"; done >" + out + "\nprintf '%s' \"$DBUS_SESSION_BUS_ADDRESS\" >>" + out + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notify-send"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x")
	c, err := notify.NewDesktop()
	require.NoError(t, err)
	require.NoError(t, c.Notify(t.Context(), effects.Notify{Title: "--help", Message: `-u \n x`, Sound: true}))
	assert.Equal(t, "[--app-name=orrery]\n[--hint=string:sound-name:message-new-instant]\n[--]\n[--help]\n[-u \\\\n x]\nunix:path=/x", read(t, out))
	require.NoError(t, c.Notify(t.Context(), effects.Notify{Message: "x"}))
	assert.Equal(t, "[--app-name=orrery]\n[--]\n[Orrery]\n[x]\nunix:path=/x", read(t, out))

	t.Setenv("PATH", t.TempDir())
	_, err = notify.NewDesktop()
	require.ErrorIs(t, err, notify.ErrNoDesktop)
}
