package cli

import (
	"io"
	"net/http"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The daemon takes a zero that is given for something else than nothing: no recovery at all,
// no slots, an approval that is refused, a text that is cleared.
func TestAZeroThatIsGivenReachesTheDaemonWhereItMeansSomething(t *testing.T) {
	t.Parallel()
	const id = "0193f2a4-5b6c-7d8e-9f01-23456789abcd"
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"semaphore", "declare", "s", "--slots", "0"}, `{"slots":0}`},
		{[]string{"semaphore", "declare", "s"}, `{"slots":1}`},
		{[]string{"semaphore", "acquire", "s", "--holder", "h", "--slots", "0"}, `{"holder":"h","slots":0,"total":0,"ttl_ms":0}`},
		{[]string{"worker", "declare", "w", "--queue", "q", "--do", "{}", "--concurrency=0"}, `{"queue":"q","do":{},"concurrency":0}`},
		{[]string{"queue", "push", "q", "--priority=0", "--delay=0"}, `{"priority":0,"delay_ms":0}`},
		{[]string{"queue", "take", "q", "--holder", "h", "--max", "0"}, `{"holder":"h","max":0,"visibility_ms":0,"wait_seconds":0}`},
		{[]string{"pipeline", "reject", id, "sure"}, `{"phase":"sure","approved":false}`},
		{[]string{"task", "input", id, "x"}, `{"text":"x"}`},
		{
			[]string{"task", "create", "--max-recoveries", "0", "--namespace", "n", "--tenant", "t"},
			`{"namespace":"n","tenant":"t","prompt":"","config":{"max_recovery_attempts":4294967295,"heartbeat_timeout_ms":0,"idle_timeout_ms":0,"recovery_interval_ms":0,"timeout_ms":0}}`,
		},
		{[]string{"recurring", "update", id, "--description", "", "--ends-at", "", "--dedup-key", ""}, `{"description":null,"ends_at":null,"dedup_key":null}`},
		{[]string{"recurring", "update", id, "--type", ""}, `{"action_type":""}`},
		{
			[]string{"recurring", "add", "--cron", "@daily", "--tool", "x", "--type", "", "--description", "", "--disabled", "--namespace", "n", "--tenant", "t"},
			`{"namespace":"n","tenant":"t","cron_expr":"@daily","provider":"x","payload":{},"action_type":"","description":"","enabled":false}`,
		},
	} {
		bodies := make(chan string, 8)
		r := against(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			bodies <- string(body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{}"))
		}, row.args...)
		require.Zero(t, r.code, "%v: %s", row.args, r.err)
		assert.JSONEq(t, row.want, <-bodies, row.args)
	}
}

// In the usage of a flag, what stands in back quotes names its value.
func TestTheValueOfAFlagIsNamedByOneWord(t *testing.T) {
	t.Parallel()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			assert.NotContains(t, name, " ", "%s --%s", c.CommandPath(), f.Name)
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{env: func(string) string { return "" }}).rootCommand())
}
