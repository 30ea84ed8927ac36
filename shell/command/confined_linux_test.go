package command_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/shell/confine"
)

func TestACommandRunsAsTheUserThatTheOperatorNames(t *testing.T) {
	u := &confine.User{UID: 4242, GID: 4343, Name: "worker", Home: "/srv/worker"}
	if os.Geteuid() != 0 {
		_, err := command.New(command.Options{RunAs: u})
		require.ErrorContains(t, err, "RunAs: only root can start programs as another user (4242)")
		t.Skip("only root can start programs as another user")
	}
	tool := newTool(t, command.Options{RunAs: u})
	out, err := run(t, tool, `{"argv":["sh","-c","id -u; id -G; echo $HOME $USER; cat /proc/`+strconv.Itoa(os.Getpid())+`/environ"],"dir":"/","success_codes":[1]}`)
	require.NoError(t, err)
	assert.Equal(t, "4242\n4343\n/srv/worker worker\n", out.Stdout)
	assert.Contains(t, out.Stderr, "Permission denied")
	_, err = run(t, tool, `{"argv":["true"],"dir":`+quote(t.TempDir())+`}`)
	var failed *command.StartError
	require.ErrorAs(t, err, &failed, "a folder that this user cannot enter")
}

func TestWhatACommandLeavesBehindEndsWithItsControlGroup(t *testing.T) {
	root := os.Getenv("ORRERY_TEST_CGROUP")
	var at unix.Statfs_t
	if root == "" || unix.Statfs(root, &at) != nil || at.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Skip("no control group (v2) is delegated here: name one by ORRERY_TEST_CGROUP")
	}
	tree, err := confine.OpenTree(root, confine.Limits{})
	require.NoError(t, err)
	tool := newTool(t, command.Options{Cgroups: tree})
	call := shell.Call{ActionID: uuid.New(), Input: []byte(`{"argv":["sh","-c","setsid sleep 1000 >/dev/null 2>&1 & cat /proc/self/cgroup"]}`)}
	raw, err := tool.Run(t.Context(), call)
	require.NoError(t, err)
	assert.Contains(t, string(raw), command.GroupPrefix+call.ActionID.String(), "it ran there")
	assert.NoDirExists(t, root+"/"+command.GroupPrefix+call.ActionID.String())
	_, err = command.New(command.Options{Limits: confine.Limits{PidsMax: 8}})
	require.EqualError(t, err, "Limits: need Cgroups, where the groups are made")
}
