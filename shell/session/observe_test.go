//go:build unix

package session_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/session"
)

var _ session.Clock = shell.SystemClock{}

// handClock goes on when the test says so.
type handClock struct {
	now    time.Time
	timers chan chan time.Time // each timer that is asked for
}

func newHandClock() *handClock {
	return &handClock{now: time.Now(), timers: make(chan chan time.Time)}
}

func (c *handClock) Now() time.Time { return c.now }

func (c *handClock) Timer(time.Duration) (<-chan time.Time, func()) {
	timer := make(chan time.Time, 1)
	c.timers <- timer
	return timer, func() {}
}

// look observes one session.
func look(t *testing.T, o *session.Observer, name string) session.Observation {
	t.Helper()
	all, err := o.Observe(t.Context(), []string{name})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, name, all[0].Session)
	return all[0]
}

func TestAnObserverSeesProgressIdlenessAndTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		clock := newHandClock()
		o := p.Observer(clock)
		assert.Equal(t, session.Observation{Session: "a"}, look(t, o, "a"), "there is none")

		p.carry(effects.Spawn{Session: "a", Command: []string{"sh", "-c", "echo ready; read x; echo got it; read x; exit 4"}})
		p.rests("a", 1, 0)
		clock.now = clock.now.Add(time.Hour)
		first := look(t, o, "a")
		assert.True(t, first.Found)
		assert.True(t, first.Alive)
		assert.True(t, first.Changed)
		assert.Equal(t, "ready", first.Tail)
		assert.Greater(t, first.IdleFor, 30*time.Minute, "as long as it has written nothing")

		clock.now = clock.now.Add(time.Minute)
		second := look(t, o, "a")
		assert.False(t, second.Changed)
		assert.Equal(t, first.IdleFor+time.Minute, second.IdleFor)

		p.carry(effects.SendInput{Session: "a", Input: "x"})
		p.shows("a", "got it")
		third := look(t, o, "a")
		assert.True(t, third.Changed)
		assert.Zero(t, third.IdleFor)

		p.carry(effects.Nudge{N: 2, Session: "a"})
		p.ended("a")
		last := look(t, o, "a")
		assert.False(t, last.Alive)
		require.NotNil(t, last.ExitCode)
		assert.Equal(t, 4, *last.ExitCode)
		assert.Contains(t, last.Tail, "got it")

		p.carry(effects.Kill{Session: "a"})
		assert.Equal(t, session.Observation{Session: "a"}, look(t, o, "a"))
	})
}

func TestToWriteTheSameAgainIsNoProgress(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"sh", "-c", `stty -echo; printf '\rbusy'; while read x; do printf '\r%s' "$x"; echo . >> turns; done`}})
		p.shows("a", "busy")
		o := p.Observer(nil)
		look(t, o, "a")
		p.carry(effects.SendInput{N: 1, Session: "a", Input: "busy"})
		p.file("turns")
		assert.False(t, look(t, o, "a").Changed)
		p.carry(effects.SendInput{N: 2, Session: "a", Input: "done"})
		p.shows("a", "done")
		assert.True(t, look(t, o, "a").Changed)
		p.carry(effects.Kill{Session: "a"})
	})
}

func TestManySessionsAreSeenAtOnceEachWithItsOwn(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		names := []string{"a", "missing", "b", "c", "a-b"}
		for _, name := range names {
			if name != "missing" {
				p.carry(effects.Spawn{Session: name, Command: []string{"sh", "-c", `printf '\033]2;t:i|t\tle\007'; echo I am $ORRERY_SESSION; cat`}})
				s := p.rests(name, 1, 0)
				assert.Equal(t, "I am "+name, s.Text)
				assert.Contains(t, s.Title, "t:i|t")
				assert.Equal(t, 200, s.Columns)
				assert.Equal(t, 50, s.Rows)
			}
		}
		all, err := p.Observer(nil).Observe(t.Context(), names)
		require.NoError(t, err)
		require.Len(t, all, len(names))
		for i, name := range names {
			assert.Equal(t, name, all[i].Session)
			assert.Equal(t, name != "missing", all[i].Found)
			if name != "missing" {
				assert.Equal(t, "I am "+name, all[i].Tail)
			}
		}
		_, err = p.Cleanup(t.Context(), func(string) bool { return false })
		require.NoError(t, err)
	})
}

func TestAScreenIsOfOneMoment(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"sh", "-c", `i=0; while :; do i=$((i+1)); printf '\033]2;%d\007%d.\n' $i $i; sleep 0.001; done`}})
		p.shows("a", "10.")
		for range 20 {
			s, err := p.Capture(t.Context(), "a")
			require.NoError(t, err)
			lines := strings.Split(s.Text[:strings.LastIndexByte(s.Text, '.')], "\n") // what follows has come in part
			shown, err := strconv.Atoi(strings.TrimSuffix(lines[len(lines)-1], "."))
			require.NoError(t, err)
			title, err := strconv.Atoi(s.Title)
			require.NoError(t, err)
			assert.Contains(t, []int{shown, shown + 1}, title, "the title is written right before the line")
		}
		p.carry(effects.Kill{Session: "a"})
	})
}

func TestTheColoursOfAScreenAreShownIfTheBackendKnowsThem(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"sh", "-c", `printf '\033[31mred\033[0m plain\n'; cat`}})
		assert.Equal(t, "red plain", p.shows("a", "red plain").Text)
		capturer, ok := p.Observer(nil).ForEngine().(shell.SessionCapturer)
		require.True(t, ok)
		s, err := capturer.Capture(t.Context(), "a")
		require.NoError(t, err)
		if backend == session.Tmux {
			assert.Regexp(t, `^\x1b\[31mred\x1b\[(0|39)m plain`, s.Text)
		} else {
			assert.Equal(t, "red plain", s.Text)
		}
		assert.Equal(t, 200, s.Columns)
		assert.Equal(t, 1, s.CursorRow)
		_, err = capturer.Capture(t.Context(), "missing")
		require.ErrorIs(t, err, shell.ErrNotFound)
		p.carry(effects.Kill{Session: "a"})
	})
}

func TestTheTailIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"sh", "-c", "seq 100000; cat"}})
		p.shows("a", "100000")
		tail := look(t, p.Observer(nil), "a").Tail
		assert.True(t, strings.HasPrefix(tail, "99981\n"), tail)
		assert.True(t, strings.HasSuffix(tail, "\n100000"), tail)

		p.carry(effects.Spawn{Session: "b", Command: []string{"sh", "-c", `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do printf 'éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé%s\n' $i; done; cat`}})
		p.shows("b", "é19")
		tail = look(t, p.Observer(nil), "b").Tail
		assert.LessOrEqual(t, len(tail), 2<<10)
		assert.True(t, strings.HasPrefix(tail, "é"))
		assert.True(t, strings.HasSuffix(tail, "é19"))
		_, err := p.Cleanup(t.Context(), func(string) bool { return false })
		require.NoError(t, err)
	})
}

func TestAWatchLooksUntilItsContextEnds(t *testing.T) {
	p := open(t, session.PTY)
	p.carry(effects.Spawn{Session: "a", Command: []string{"true"}})
	p.ended("a")
	clock := newHandClock()
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan []session.Observation, 1)
	names := make(chan []string, 3)
	names <- []string{"a"}
	names <- nil // nobody: no look
	names <- []string{"a", "b"}
	end := make(chan error, 1)
	go func() {
		end <- p.Watch(ctx, session.WatchOptions{
			Clock:  clock,
			Names:  func() []string { return <-names },
			Report: func(_ context.Context, all []session.Observation) { reports <- all },
		})
	}()
	timer := <-clock.timers
	assert.Len(t, <-reports, 1)
	timer <- clock.now
	timer = <-clock.timers
	assert.Empty(t, reports)
	timer <- clock.now
	<-clock.timers
	assert.Len(t, <-reports, 2)
	cancel()
	require.ErrorIs(t, <-end, context.Canceled)
}

func TestAWatchThatCannotWorkIsRefused(t *testing.T) {
	p := open(t, session.PTY)
	require.ErrorContains(t, p.Watch(t.Context(), session.WatchOptions{}), "want Names and Report")
}

func TestOptionsThatCannotBeRightAreNamed(t *testing.T) {
	root := t.TempDir()
	fake := func(script string) string {
		path := filepath.Join(t.TempDir(), "tmux")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		return path
	}
	for _, row := range []struct {
		options session.Options
		says    string
	}{
		{session.Options{}, "Root: is empty"},
		{session.Options{Root: root + "/missing"}, "Root: "},
		{session.Options{Root: root, Backend: "screen"}, `Backend: "screen" is not known`},
		{session.Options{Root: root, Columns: -1}, "Columns, Rows: -1 x 50"},
		{session.Options{Root: root, CommandTimeout: -1}, "CommandTimeout: -1ns is negative"},
		{session.Options{Root: root, Backend: session.Tmux, Tmux: root + "/tmux"}, "Tmux: "},
		{session.Options{Root: root, Backend: session.Tmux, Tmux: fake("echo tmux 3.1c")}, `is "tmux 3.1c": want 3.2 or later`},
		{session.Options{Root: root, Backend: session.Tmux, Tmux: fake("exit 1")}, "does not tell its version"},
		{session.Options{Root: root, Backend: session.Tmux, Socket: "-x"}, `/-x" is not the name or path of a socket`},
		{session.Options{Root: root, Backend: session.Tmux, Socket: strings.Repeat("x", 100)}, `is not the name or path of a socket: want at most 100 bytes with its directory`},
		{session.Options{Root: root, Backend: session.Tmux, Socket: "/" + strings.Repeat("x", 100)}, `Socket: "/xxx`},
	} {
		if row.options.CommandTimeout == 0 {
			row.options.CommandTimeout = time.Minute
		}
		_, err := session.New(row.options)
		assert.ErrorContains(t, err, row.says)
	}
	for _, version := range []string{"3.2", "3.3a", "4.0", "next-3.6", "master"} {
		_, err := session.New(session.Options{Root: root, Backend: session.Tmux, Tmux: fake("echo tmux " + version), CommandTimeout: time.Minute})
		assert.NoError(t, err, version)
	}
	s, err := session.New(session.Options{Root: root, Tmux: root + "/tmux"})
	require.NoError(t, err)
	assert.Equal(t, session.PTY, s.Backend(), "where tmux is missing")
	require.NoError(t, s.Close())
}

func TestATmuxThatDoesNotAnswerIsGivenUp(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "tmux")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ntest \"$1\" = -V && exec echo tmux 3.4\nexec sleep 1000\n"), 0o700))
	var s *session.Sessions
	until(t, "it tells its version", func() bool {
		var err error
		s, err = session.New(session.Options{Root: root, Backend: session.Tmux, Tmux: path, CommandTimeout: time.Second})
		return err == nil // the version must come within it, too
	})
	_, err := s.List(t.Context())
	require.ErrorContains(t, err, "tmux list-panes: no answer within 1s")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Carry(ctx, machine, effects.Kill{Session: "a"})
	require.ErrorIs(t, err, context.Canceled)
}

func TestASimpleTerminalShowsWhatIsMeantToBeSeen(t *testing.T) {
	for _, row := range []struct{ what, out, text, title string }{
		{"lines", "one\r\ntwo\r\n", "one\ntwo", ""},
		{"colours", "\x1b[1;31mred\x1b[0m or \x1b[38;5;12mblue\x1b[m", "red or blu\ne", ""},
		{"a bar that grows in place", "10%\r20%\r100%", "100%", ""},
		{"what was longer stays", "abcdef\rxy", "xycdef", ""},
		{"erase the rest of the line", "abcdef\rxy\x1b[K", "xy", ""},
		{"erase the line", "abc\x1b[2Kd", "   d", ""},
		{"erase up to the cursor", "abcdef\x1b[3D\x1b[1K", "    ef", ""},
		{"back", "abc\b\bX", "aXc", ""},
		{"tabs", "a\tb", "a       b", ""},
		{"a title", "\x1b]0;my title\x07x\x1b]2;other\x1b\\y", "xy", "other"},
		{"a link", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text", ""},
		{"clear and home", "old\r\nold\x1b[2J\x1b[Hnew", "new", ""},
		{"clear below", "a\r\nb\r\nc\x1b[2;1H\x1b[J", "a", ""},
		{"clear above", "a\r\nb\r\nc\x1b[2;1H\x1b[1J", "\n\nc", ""},
		{"places", "\x1b[2;3Hx\x1b[1;1Hy", "y\n  x", ""},
		{"moves", "ab\x1b[1B\x1b[2Dcd\x1b[1A\x1b[1Cx", "cd x", ""},
		{"column and row", "\x1b[5Gx\x1b[3dy", "    x\n\n     y", ""},
		{"another screen", "shell\r\n\x1b[?1049heditor\x1b[?25l", "editor", ""},
		{"reset", "a\x1bcb", "b", ""},
		{"long lines are broken", "abcdefghijklmnop", "abcdefghij\nklmnop", ""},
		{"only the screen", "1\r\n2\r\n3\r\n4\r\n5\r\n6", "3\n4\n5\n6", ""},
		{"strings for the terminal", "a\x1bPq#0;2;0\x1b\\b\x1b_x\x1b\\c", "abc", ""},
		{"character sets", "\x1b(Ba\x1b)0b", "ab", ""},
		{"a sequence that has not ended", "a\x1b[3", "a", ""},
		{"a title that has not ended", "a\x1b]0;old\x07\x1b]0;b", "a", "old"},
		{"an escape alone", "a\x1b", "a", ""},
		{"bytes that are no characters", "a\xffb", "a\uFFFDb", ""},
		{"numbers beyond all bounds", "\x1b[99999999999999999999;5Hx\x1b[9999Ay\x1b[9999;9999Hz", "    xy\n\n\n         z", ""},
		{"the bell", "a\x07b\x00c\x7fd", "abcd", ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			text, title := session.Render(10, 4, row.out)
			assert.Equal(t, row.text, text)
			assert.Equal(t, row.title, title)
		})
	}
}

func FuzzASimpleTerminalTakesAnything(f *testing.F) {
	f.Add("a\x1b[2;3Hb\x1b[K\x1b]0;t\x07\r\n\t\x1b[1049h\x1b[?1049h\x1b[J")
	f.Fuzz(func(t *testing.T, out string) {
		defer boundtest.Within(t, len(out))()
		text, _ := session.Render(10, 4, out)
		assert.LessOrEqual(t, strings.Count(text, "\n"), 3)
		for line := range strings.SplitSeq(text, "\n") {
			assert.LessOrEqual(t, len([]rune(line)), 10)
		}
	})
}
