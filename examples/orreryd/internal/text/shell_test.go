package text

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAShellReadsAWordAsItWas(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh on this machine")
	}
	for _, word := range []string{"", "plain", "a b", "it's", `"$HOME" \ *`, "two\nlines", "`id`", "grüße", "#", "~", "-n", "a=b", "{a,b}", "!x"} {
		out, err := exec.CommandContext(t.Context(), sh, "-c", "printf '<%s>' "+ShellWord(word)).Output()
		require.NoError(t, err)
		assert.Equal(t, "<"+word+">", string(out))
	}
	assert.Equal(t, "http://127.0.0.1:7460", ShellWord("http://127.0.0.1:7460"), "what needs no quotes has none")
}

func TestANameThatLooksLikeAFlagIsNoneInACommandLine(t *testing.T) {
	for want, names := range map[string][]string{
		"do it a 'b c' --x=1":       {"a", "b c"},
		"do it --x=1 -- a --evil":   {"a", "--evil"},
		"do it --x=1 -- '-e $HOME'": {"-e $HOME"},
	} {
		assert.Equal(t, want, CommandLine("do it", names, "--x=1"))
	}
}
