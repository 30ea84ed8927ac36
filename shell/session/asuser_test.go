//go:build unix

package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/session"
)

var worker = &confine.User{UID: 4242, GID: 4343, Groups: []uint32{4444}, Name: "worker", Home: "/srv/worker"}

// asWorker has sessions run as another user, who may enter their root.
func asWorker(t *testing.T) func(*session.Options) {
	t.Helper()
	if os.Geteuid() != 0 {
		_, err := session.New(session.Options{Backend: session.PTY, Root: "/", RunAs: worker})
		require.ErrorContains(t, err, "RunAs: only root can start programs as another user (4242)")
		t.Skip("only root can start programs as another user")
	}
	return func(o *session.Options) {
		require.NoError(t, os.Chmod(filepath.Dir(o.Root), 0o711))
		require.NoError(t, os.Chmod(o.Root, 0o711))
		o.CreateWorkspace, o.RunAs = true, worker
	}
}

func TestASessionRunsAsTheUserThatTheOperatorNamesAndWorksInItsFolder(t *testing.T) {
	change := asWorker(t)
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend, change)
		plans := t.TempDir()
		t.Setenv("TMPDIR", plans)
		p.carry(effects.Spawn{
			Session: "s", Workspace: "shop/build",
			Command: []string{"/bin/sh", "-c", `{ id -u; id -G; echo $HOME $USER $LOGNAME; pwd; echo mine > file && cat file
				echo x > $(tty) && echo terminal; tmux -S ` + p.options.Socket + ` list-sessions 2>&1 | grep -io denied
				echo $SECRET; cat /proc/1/environ 2>&1 | grep -o denied; } > told 2>&1; mv told done; sleep 1000`},
			Env: map[string]string{"SECRET": "$HOME;'\n", "GODEBUG": "inittrace=1"},
		})
		dir := filepath.Join(p.root, "shop/build")
		until(t, "it has told", func() bool { _, err := os.Stat(filepath.Join(dir, "done")); return err == nil })
		b, err := os.ReadFile(filepath.Join(dir, "done"))
		require.NoError(t, err)
		want := "4242\n4343 4444\n/srv/worker worker worker\n" + dir + "\nmine\nterminal\ndenied\n$home;'\ndenied\n"
		if backend == session.PTY {
			want = strings.Replace(want, "terminal\ndenied\n", "terminal\n", 1) // there is no server
		}
		assert.Equal(t, want, strings.ToLower(string(b)))
		for _, path := range []string{"shop", "shop/build", "shop/build/file"} {
			info, err := os.Stat(filepath.Join(p.root, path))
			require.NoError(t, err)
			st, ok := info.Sys().(*syscall.Stat_t)
			require.True(t, ok)
			assert.Equal(t, []uint32{4242, 4343}, []uint32{st.Uid, st.Gid}, path)
		}
		screen, err := p.Capture(t.Context(), "s")
		require.NoError(t, err)
		assert.NotContains(t, screen.Text, "init ", "what becomes the user has no variable of the session's")
		p.carry(effects.Kill{Session: "s"})
		left, err := os.ReadDir(plans)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

func TestWhatASessionOfAnotherUserLeavesBehindEndsWithIt(t *testing.T) {
	change := asWorker(t)
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend, change)
		p.carry(effects.Spawn{Session: "s", Workspace: "w", Command: []string{"/bin/sh", "-c", `setsid sh -c 'trap "" TERM HUP; touch away; sleep 1000; sleep 1000' & sleep 1000`}})
		until(t, "all have begun", func() bool { _, err := os.Stat(filepath.Join(p.root, "w/away")); return err == nil })
		p.carry(effects.Kill{Session: "s"})
		left, err := p.Marked()
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

func TestASessionWhoseUserCannotEnterItsFolderOrRunItsProgramSaysSo(t *testing.T) {
	change := asWorker(t)
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend, change)
		closed := filepath.Join(p.root, "closed")
		require.NoError(t, os.Mkdir(closed, 0o700))
		_, err := p.Carry(t.Context(), machine, effects.Spawn{Session: "s", Workspace: "closed", Command: []string{"/bin/sh"}})
		require.ErrorContains(t, err, fmt.Sprintf("workspace: the user 4242 cannot enter %s, whose mode is 0700: give it to that user: chown -R 4242:4343 %s", closed, closed))
		own := filepath.Join(p.root, "own")
		require.NoError(t, os.WriteFile(own, []byte("#!/bin/sh\n"), 0o700))
		_, err = p.Carry(t.Context(), machine, effects.Spawn{Session: "s", Workspace: "w", Command: []string{own}})
		if err == nil { // the terminal tells
			until(t, "it says so", func() bool {
				screen, err := p.Capture(t.Context(), "s")
				return err == nil && strings.Contains(screen.Text, "permission denied")
			})
		}
		require.NoError(t, os.Chmod(p.root, 0o700))
		_, err = session.New(p.options)
		require.ErrorContains(t, err, "RunAs: the user 4242 cannot enter "+p.root+", whose mode is 0700")
		require.NoError(t, os.Chmod(p.root, 0o711))
	})
}
