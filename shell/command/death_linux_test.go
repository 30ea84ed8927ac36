package command_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/command"
)

func TestWhatIsLeftOfAGroupIsKilledBeforeItsOutputIsAwaited(t *testing.T) {
	s := newStage(t)
	tool := newTool(t, command.Options{})
	tool.SetPipeDelay(time.Hour)
	_, out := background(t, tool, s.input("leave-child"))
	actors := s.awaitAll("wait", "leave-child")
	actors["leave-child"].goOn(t)
	r := <-out
	actors["wait"].dead(t)
	assert.NoError(t, r.err)
}

func TestAProgramDiesWithTheDaemonEvenByKillMinus9(t *testing.T) {
	s := newStage(t)
	daemon := self("daemon")
	daemon.Env = append(daemon.Env, socketVar+"="+s.path, programVar+"=wait")
	require.NoError(t, daemon.Start())
	program := s.await()
	require.Equal(t, "wait", program.role)
	require.NoError(t, daemon.Process.Kill())
	require.Error(t, daemon.Wait())
	program.dead(t)
}
