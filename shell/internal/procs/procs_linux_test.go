package procs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestThisProcessIsListedWithWhatItIs(t *testing.T) {
	pid := os.Getpid()
	ids, err := IDs("/proc")
	require.NoError(t, err)
	assert.Contains(t, ids, pid)
	s, ok, err := ReadStat(Dir(pid))
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, os.Getppid(), s.Parent)
	assert.Equal(t, unix.Getpgrp(), s.Group)
	session, err := unix.Getsid(pid)
	require.NoError(t, err)
	assert.Equal(t, session, s.Session)
	assert.False(t, s.Ended())
	assert.False(t, s.Kernel)
	env, err := os.ReadFile(Dir(pid) + "/environ")
	require.NoError(t, err)
	assert.Equal(t, uint64(len(env)), s.EnvEnd-s.EnvBegin)
	threads, err := IDs(filepath.Join(Dir(pid), "task"))
	require.NoError(t, err)
	assert.Contains(t, threads, pid)
	again, ok, err := ReadStat(filepath.Join(Dir(pid), "task", strconv.Itoa(pid)))
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, s.Started, again.Started)
}

func TestAStatusIsReadWhateverTheNameOfTheProgram(t *testing.T) {
	rest := " S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711"
	for _, name := range []string{"sh", "a b", ") Z 1", "((", "a\nb"} {
		s, ok := parseStat(fmt.Appendf(nil, "12 (%s)%s", name, rest))
		require.True(t, ok, name)
		assert.Equal(t, Stat{Name: name, State: "S", Parent: 7, Group: 8, Session: 9, Started: "4711"}, s, name)
	}
	for _, short := range []string{"", "12 (sh)", "12 (sh) S 7", "12 (sh) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0"} {
		_, ok := parseStat([]byte(short))
		assert.False(t, ok, short)
	}
	for state, ended := range map[string]bool{"Z": true, "X": true, "S": false, "R": false, "D": false, "T": false} {
		assert.Equal(t, ended, Stat{State: state}.Ended(), state)
	}
	s, ok := parseStat([]byte("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 9"))
	require.True(t, ok)
	assert.True(t, s.Kernel)
}

func TestAProcessThatIsGoneIsNoErrorButALackOfDescriptorsIs(t *testing.T) {
	_, ok, err := ReadStat(Dir(1 << 30))
	require.NoError(t, err)
	assert.False(t, ok)
	for _, err := range []error{nil, fs.ErrNotExist, fs.ErrPermission, unix.ESRCH, &fs.PathError{Err: unix.EACCES}} {
		require.NoError(t, Ignorable(err), "%v", err)
	}
	for _, err := range []error{unix.EMFILE, &fs.PathError{Err: unix.EIO}} {
		require.ErrorIs(t, Ignorable(err), err)
	}
	_, err = IDs("/proc/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestASignalGoesOnlyToTheProcessThatIsMeant(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	require.NoError(t, Signal(cmd.Process.Pid, func() bool { return false }, unix.SIGKILL))
	st, ok, err := ReadStat(Dir(cmd.Process.Pid))
	require.NoError(t, err)
	require.True(t, ok && !st.Ended())
	require.NoError(t, Signal(cmd.Process.Pid, func() bool { return true }, unix.SIGKILL))
	require.Error(t, cmd.Wait())
	require.NoError(t, Signal(cmd.Process.Pid, func() bool { return true }, unix.SIGKILL), "it has ended")
}

func TestProcessesAreListedWithTheirAncestors(t *testing.T) {
	own, err := All(func(pid int) (int, bool, error) { return pid, Ours(pid), nil })
	require.NoError(t, err)
	assert.Contains(t, own, os.Getpid())
	_, err = All(func(int) (int, bool, error) { return 0, false, unix.EMFILE })
	require.ErrorIs(t, err, unix.EMFILE)
	parents := map[int]int{9: 7, 7: 1, 1: 0, 8: 1}
	assert.Equal(t, map[int]bool{9: true, 7: true, 1: true}, Ancestors(9, func(pid int) int { return parents[pid] }))
	assert.Equal(t, "1, 2", JoinIDs([]int{1, 2}))
	assert.Equal(t, "1, 2, 3, 4, 5, 6, 7, 8 and 2 more", JoinIDs([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))
}
