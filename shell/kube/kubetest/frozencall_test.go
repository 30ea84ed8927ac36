package kubetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// instance is a daemon of several on one database, with a way of its own to the cluster.
type instance struct {
	program
	proxy   *kubetest.Proxy
	cmd     *exec.Cmd
	release chan struct{} // has the call go on that its proxy holds up
}

// startInstance starts a daemon of that name.
func startInstance(t *testing.T, name, database, ns string, proxy *kubetest.Proxy, token string) *instance {
	t.Helper()
	address := freeAddress(t)
	i := &instance{program: program{t: t, path: orreryd(t), dir: t.TempDir(), url: "http://" + address}, proxy: proxy, release: make(chan struct{})}
	config := fmt.Sprintf(`
database = %q
db = "orrery.db"
listen = %q
tick_rate_seconds = 1
[cluster]
name = %q
address = %q
lease_seconds = 1
[runners.cluster]
type = "kubernetes"
kubeconfig = %q
`, database, address, name, i.url, proxy.Kubeconfig(t, token, ns))
	require.NoError(t, os.WriteFile(filepath.Join(i.dir, "orrery.toml"), []byte(config), 0o600))
	said, err := os.Create(filepath.Join(i.dir, "daemon.log"))
	require.NoError(t, err)
	i.cmd = exec.Command(i.path, "orchestrate", "--config", "orrery.toml")
	i.cmd.Dir, i.cmd.Env, i.cmd.Stderr = i.dir, i.command().Env, said
	require.NoError(t, i.cmd.Start())
	t.Cleanup(func() {
		if i.cmd.ProcessState == nil {
			_ = i.cmd.Process.Kill()
			_ = i.cmd.Wait()
		}
		_ = said.Close()
		if log, err := os.ReadFile(said.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", name, log[max(0, len(log)-10_000):])
		}
	})
	eventually(t, func() error {
		if out, code := i.do("job", "list"); code != 0 {
			return errors.New(out)
		}
		return nil
	})
	return i
}

// A daemon is frozen within its creation of a pod for longer than its lease. Another one takes its partition over, and brings the run to its end. Then the
// cluster takes the creation, and makes the pod a second time: it is deleted as soon as it is seen, and nothing else is touched.
func TestThePodOfACreationWithinWhichItsDaemonWasFrozenIsDeletedAndNoOthers(t *testing.T) {
	t.Parallel()
	const partitions = 2
	c := kubetest.Shared(t)
	proxy, _, ns := proxied(t, c)
	access := token(t, c.Client(), ns)
	another := plainJob(kubetest.FakeNode, "another-0123456789ab-0", map[string]string{kubetest.RunFor: untilFinished}, "true")
	another.Labels = map[string]string{
		kube.LabelInstance: "orrery", kube.LabelCluster: "another", kube.LabelPartition: "0", kube.LabelRun: "01234567-89ab-4cde-8f01-23456789abcd", kube.LabelAttempt: "0",
	}
	maps.Copy(another.Spec.Template.Labels, another.Labels)
	_, err := c.Client().BatchV1().Jobs(ns).Create(t.Context(), another, metav1.CreateOptions{})
	require.NoError(t, err)

	database := postgrestest.Database(t)
	setup := program{t: t, path: orreryd(t), dir: t.TempDir()}
	setup.ok("cluster", "init", "--partitions", strconv.Itoa(partitions), "--database", database)
	both := []*instance{
		startInstance(t, "one", database, ns, proxy, access),
		startInstance(t, "two", database, ns, kubetest.NewProxy(t, c), access),
	}
	for _, i := range both {
		i.proxy.Inject(kubetest.Fault{Match: creating, Times: 1, Hold: i.release, Pass: true})
	}
	spec, err := json.Marshal(map[string]any{"id": "job", "podSpec": fakePod(), "labels": map[string]string{kubetest.RunFor: "200ms"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(both[0].dir, "job.json"), spec, 0o600))
	both[0].ok("job", "apply", "-f", "job.json")
	both[0].ok("job", "trigger", "job")

	var owner, other *instance
	eventually(t, func() error {
		n := slices.IndexFunc(both, func(i *instance) bool { return len(i.proxy.Calls(creating)) > 0 })
		if n < 0 {
			return errors.New("no daemon has asked for the pod")
		}
		owner, other = both[n], both[1-n]
		return nil
	})
	require.NoError(t, owner.cmd.Process.Signal(syscall.SIGSTOP))
	other.proxy.Heal()
	run := other.some(1, "job", core.OrchestratorCompleted)[0]
	left := func() (names []string) {
		chosen := metav1.ListOptions{LabelSelector: kube.LabelRun + "=" + run.ID}
		eventually(t, func() error {
			names = nil
			list, err := c.Client().BatchV1().Jobs(ns).List(t.Context(), chosen)
			if err != nil {
				return err
			}
			for _, job := range list.Items {
				names = append(names, job.Name)
			}
			pods, err := c.Client().CoreV1().Pods(ns).List(t.Context(), chosen)
			if err != nil {
				return err
			}
			for n := range pods.Items {
				names = append(names, pods.Items[n].Name)
			}
			return nil
		})
		return names
	}
	eventually(t, func() error {
		if names := left(); len(names) > 0 {
			return fmt.Errorf("%v are there", names)
		}
		return nil
	})

	close(owner.release)
	eventually(t, func() error {
		if call := owner.proxy.Calls(creating)[0]; call.Status != 201 {
			return fmt.Errorf("the late call: %s", call)
		}
		return nil
	})
	require.NoError(t, owner.cmd.Process.Signal(syscall.SIGCONT))
	eventually(t, func() error {
		if names := left(); len(names) > 0 {
			return fmt.Errorf("%v came late, and are there", names)
		}
		return nil
	})
	assert.Len(t, other.some(1, "job", core.OrchestratorCompleted), 1)
	after, err := c.Client().BatchV1().Jobs(ns).Get(t.Context(), another.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Nil(t, after.DeletionTimestamp, "it is of another cluster")
	for _, i := range both {
		for _, call := range i.proxy.Calls(nil) {
			assert.False(t, call.Verb == "delete" && strings.HasPrefix(call.Name, "another-"), "%s", call)
		}
		require.NoError(t, i.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, i.cmd.Wait())
	}
	for n := range partitions {
		assert.Contains(t, setup.ok("replay", "--verify", "--database", database, "--partition", strconv.Itoa(n)), " 0 divergences")
	}
}
