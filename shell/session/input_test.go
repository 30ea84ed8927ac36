//go:build unix

package session_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/session"
)

// reader is a program that writes down the lines that it reads, up to "end".
var reader = []string{"sh", "-c", `echo ready; while IFS= read -r x; do test "$x" = end && break; printf '%s\n' "$x" >> lines; done; touch done`}

func TestInputArrivesAsItIs(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: reader, Input: "first"})
		lines := []string{
			"-l", "--", "$HOME 'single' \"double\" `id`", `back\slash \n \101`, "#{pid} #(id) ##", "semi;colon;", "Enter", "C-c",
			"é 日本 \U0001F600", "~ * ? ! % { }", "  spaces  ", strings.Repeat("long", 900),
		}
		for i, line := range lines {
			p.carry(effects.SendInput{N: uint32(i + 1), Session: "a", Input: line})
		}
		p.carry(effects.SendInput{N: 100, Session: "a", Input: "several\r\nlines\n\tat once\n"})
		p.carry(effects.Nudge{N: 101, Session: "a", Input: "nudged"})
		p.carry(effects.Nudge{N: 102, Session: "a"})
		p.carry(effects.SendInput{N: 103, Session: "a", Input: "end"})
		p.file("done")
		want := append([]string{"first"}, lines...)
		want = append(want, "several", "lines", "\tat once", "nudged", "", "")
		assert.Equal(t, strings.Join(want, "\n"), p.file("lines"))
	})
}

func TestALargeInputArrivesWhole(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: reader})
		p.shows("a", "ready")
		var text strings.Builder
		for i := range 1500 {
			fmt.Fprintf(&text, "line %d of a long text, with 'quotes' and $things\n", i)
		}
		p.carry(effects.SendInput{N: 1, Session: "a", Input: text.String() + "end"})
		p.file("done")
		assert.Equal(t, text.String(), p.file("lines"))
	})
}

func TestAnInputIsTypedOnceForEachEffect(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		spawn := effects.Spawn{N: 1, Session: "a", Command: reader, Input: "first"}
		for range 2 {
			p.carry(spawn)
			p.carry(effects.SendInput{N: 2, Session: "a", Input: "sent"})
			p.carry(effects.Nudge{N: 3, Session: "a", Input: "nudged"})
		}
		for n := range uint32(20) { // what was long ago is forgotten, what was just before is not
			p.carry(effects.SendInput{N: 4 + n, Session: "a", Input: "x"})
			p.carry(effects.SendInput{N: 4 + n, Session: "a", Input: "x"})
		}
		_, err := p.Carry(t.Context(), effects.Ref{}, effects.SendInput{N: 2, Session: "a", Input: "sent"})
		require.NoError(t, err)
		p.carry(effects.SendInput{N: 99, Session: "a", Input: "end"})
		p.file("done")
		assert.Equal(t, "first\nsent\nnudged\n"+strings.Repeat("x\n", 20)+"sent\n", p.file("lines"))
		p.ended("a")
		p.carry(effects.SendInput{N: 99, Session: "a", Input: "end"})
	})
}

// The machine asks again, under a new number, for a Spawn that was interrupted
// between the start of its session and the typing of its input.
func TestTheInputOfASpawnThatWasInterruptedIsTypedByTheNextAndOnce(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		spawn := effects.Spawn{N: 1, Session: "a", Command: []string{"sh", "-c", `until test -e go; do sleep 0.01; done; ` + reader[2]}, Input: "first"}
		p.interrupted(spawn, func() { until(t, "the session is there", func() bool { return p.info("a") != nil }) })
		require.True(t, p.info("a").Alive)

		require.NoError(t, os.WriteFile(filepath.Join(p.root, "go"), nil, 0o600))
		for n := range uint32(2) {
			spawn.N = 2 + n
			p.carry(spawn)
		}
		p.carry(effects.SendInput{N: 4, Session: "a", Input: "end"})
		p.file("done")
		assert.Equal(t, "first\n", p.file("lines"))
	})
}

func TestAProgramThatReadsNothingHoldsNobodyUp(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"sh", "-c", "stty raw -echo; echo ready; exec sleep 1000"}})
		p.shows("a", "ready")
		ctx, enough := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer enough()
		_, err := p.Carry(ctx, machine, effects.SendInput{N: 1, Session: "a", Input: strings.Repeat("a line\n", 30_000)})
		if backend == session.PTY { // tmux keeps it for the program
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		p.carry(effects.Kill{Session: "a"})
	})
}

// Somebody who attached may have scrolled, and gone.
func TestInputArrivesAlsoWhereThePaneIsInCopyMode(t *testing.T) {
	p := open(t, session.Tmux)
	p.carry(effects.Spawn{Session: "a", Command: reader})
	p.shows("a", "ready")
	for n, text := range []string{"short", "of several\nlines", "end"} {
		require.NoError(t, exec.Command("tmux", "-S", p.options.Socket, "copy-mode", "-t", "=orrery-a:").Run())
		p.carry(effects.SendInput{N: uint32(n), Session: "a", Input: text})
	}
	p.file("done")
	assert.Equal(t, "short\nof several\nlines\n", p.file("lines"))
}

// A text that was cut off before its return, and given up, stands on the line yet.
func TestATextThatWasCutOffDoesNotRunIntoTheNext(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend, func(o *session.Options) { o.EnterDelay = time.Hour })
		p.carry(effects.Spawn{Session: "a", Command: reader})
		p.shows("a", "ready")
		p.interrupted(effects.SendInput{N: 1, Session: "a", Input: "cut off"}, func() { p.shows("a", "cut off") })

		p.WithoutEnterDelay()
		for range 2 {
			p.carry(effects.SendInput{N: 2, Session: "a", Input: "next"})
		}
		p.carry(effects.SendInput{N: 1, Session: "a", Input: "cut off"})
		p.carry(effects.SendInput{N: 3, Session: "a", Input: "end"})
		p.file("done")
		assert.Equal(t, "cut off\nnext\n", p.file("lines"))
	})
}

func TestNothingIsTypedIntoASessionThatIsGoneOrHasEnded(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		for _, e := range []effects.Outer{effects.SendInput{Session: "a", Input: "x"}, effects.Nudge{Session: "a"}} {
			_, err := p.Carry(t.Context(), machine, e)
			require.ErrorIs(t, err, session.ErrNotFound)
			assert.True(t, shell.IsPermanent(err))
		}
		_, err := p.Capture(t.Context(), "a")
		require.ErrorIs(t, err, session.ErrNotFound)
		p.carry(effects.Spawn{Session: "b", Command: []string{"sh", "-c", "exit 3"}})
		p.ended("b")
		_, err = p.Carry(t.Context(), machine, effects.SendInput{N: 9, Session: "b", Input: "x"})
		require.ErrorIs(t, err, session.ErrEnded)
		assert.ErrorContains(t, err, `send session "b": the session has ended, with exit code 3`)
		assert.True(t, shell.IsPermanent(err))
	})
}

func TestWhatIsWrongWithAnInputIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"cat"}})
		for _, row := range []struct{ name, input, says string }{
			{"a", "\x03", `input: has the control character '\x03' at byte 0`},
			{"a", "x\xff", `input: "x\xff" is not valid UTF-8`},
			{"a", "x\u0085", `input: has the control character '\u0085' at byte 1`},
			{"-a=", "x", `session: "-a=" is not a name`},
		} {
			_, err := p.Carry(t.Context(), machine, effects.SendInput{Session: row.name, Input: row.input})
			if assert.ErrorContains(t, err, row.says) {
				assert.True(t, shell.IsPermanent(err))
			}
		}
		p.carry(effects.Kill{Session: "a"})
	})
}

func TestAPasteIsToldToAProgramThatKnowsPastes(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"sh", "-c", `printf '\033[?2004h'; stty -echo -icrnl raw; echo ready; head -c 16 > got; touch done`}})
		p.shows("a", "ready")
		p.carry(effects.SendInput{Session: "a", Input: "a\nb"})
		p.file("done")
		assert.Equal(t, "\x1b[200~a\rb\x1b[201~\r", strings.TrimRight(p.file("got"), "\n"))
	})
}
