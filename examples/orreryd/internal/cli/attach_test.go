package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheDaemonSaysHowASessionIsJoinedAndWarnsWhereThatCannotBe(t *testing.T) {
	requirePrograms(t, "tmux")
	args := []string{"orchestrate", "--listen", "127.0.0.1:0", "--db", database(t), "--workspace", t.TempDir()}
	p := begin(t, nil, args...)
	assert.Regexp(t, `attach=".*tmux -L \S+ attach-session -t \S*SESSION`, await(t, p.errs, "msg=sessions"))
	p = begin(t, []string{"PATH=" + t.TempDir()}, append(args, "--db", database(t))...)
	assert.Contains(t, await(t, p.errs, "backend="), "sessions will end with the daemon")
}
