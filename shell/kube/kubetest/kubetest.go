// Package kubetest runs a real Kubernetes cluster for tests: etcd,
// kube-apiserver, controllers, scheduler, nodes of kwok whose pods only pretend to
// run, and where that can be had one real node of kubelet, containerd and runc.
// The programs are made by the script build beside this file, from a module of
// their own, and kept in the user's cache folder.
//
// The suite takes minutes, also where nothing is to be made. So a test that asks for
// a cluster is skipped unless the environment says otherwise:
//
//	ORRERY_KUBE=build       run it, and make the programs where they are missing
//	                        (5 minutes)
//	ORRERY_REQUIRE_KUBE=1   the same, and fail where there can be no cluster
//	ORRERY_KUBE_CACHE       where the programs are kept
//	ORRERY_FIGURES=1        run what measures, too: docs/performance.md quotes it
//
// These tests mostly wait: go test -timeout 20m -parallel 8 lets more of them do so.
package kubetest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell/internal/locked"
)

// Programs of a cluster, for [Cluster.StopProgram] and the like.
const (
	Etcd       = "etcd"
	Server     = "kube-apiserver"
	Controller = "kube-controller-manager"
	Scheduler  = "kube-scheduler"
	Kwok       = "kwok"
	Containerd = "containerd"
	Kubelet    = "kubelet"
)

// Images that the real node has: use them with imagePullPolicy Never.
const (
	Busybox = "localhost/busybox:test"
)

// The label of nodes that says which they are: for nodeSelector.
const (
	NodeLabel = "orrery.test/node"
	FakeNode  = "fake"
	RealNode  = "real"
)

// Labels of a pod on a fake node that say how it goes on.
const (
	RunFor   = "orrery.test/run-for"   // how long it runs, such as "5s" (default 100 ms)
	ExitCode = "orrery.test/exit-code" // default 0
	Reason   = "orrery.test/reason"    // of its end, such as "OOMKilled"
	Hang     = "orrery.test/hang"      // with any value: its containers never start
)

const (
	upTimeout      = 5 * time.Minute // the machine may be loaded
	commandTimeout = 5 * time.Minute
	stopTimeout    = 30 * time.Second
)

// ErrUnavailable says that there can be no cluster here, wrapped with the reason.
var ErrUnavailable = errors.New("no Kubernetes cluster for tests")

// Options say what cluster to start.
type Options struct {
	// FakeNodes is how many nodes of kwok there are. Each takes 1000 pods.
	FakeNodes int
	// RealNode asks for a node that runs containers. It needs root, Linux and
	// Debian's packages; where it cannot be had, [ErrUnavailable] says why.
	RealNode bool
	// NodeGrace is how long a node may be silent before it is lost with its pods
	// (default 40 s). On a loaded machine a healthy node is lost with less.
	NodeGrace time.Duration
	// Log takes what the cluster says while it starts; nil: nobody.
	Log io.Writer
}

// Cluster is a running cluster. It is safe for concurrent use.
type Cluster struct {
	dir      string
	programs string // the folder of its programs
	real     bool
	config   *rest.Config
	client   kubernetes.Interface
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the launcher has ended

	mu      sync.Mutex // one command at a time
	in      io.WriteCloser
	answers chan string // closed at the end of the output
}

// Programs makes the programs of a cluster where they are missing, and returns their
// folder. The error is [ErrUnavailable] where the environment asks for none.
func Programs(ctx context.Context) (string, error) {
	mode := os.Getenv("ORRERY_KUBE")
	switch {
	case mode != "" && mode != "off" && mode != "build":
		return "", fmt.Errorf("ORRERY_KUBE is %q: use %q or %q", mode, "build", "off")
	case mode == "off" || mode == "" && !required():
		return "", fmt.Errorf("%w: set ORRERY_KUBE=build to have it made (5 minutes, once) and to run these tests", ErrUnavailable)
	case runtime.GOOS != "linux":
		return "", fmt.Errorf("%w: it needs Linux, this is %s", ErrUnavailable, runtime.GOOS)
	}
	_, here, _, ok := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(here), "build")
	if _, err := os.Stat(script); !ok || err != nil {
		return "", fmt.Errorf("%w: the script that makes it is not here: %s", ErrUnavailable, script)
	}
	return runScript(ctx, script)
}

// required reports whether a test must fail where there is no cluster.
func required() bool { return os.Getenv("ORRERY_REQUIRE_KUBE") == "1" }

func runScript(ctx context.Context, script string) (string, error) {
	cmd := exec.CommandContext(ctx, script)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", script, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Start starts a cluster; the caller must [Cluster.Stop] it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	programs, err := Programs(ctx)
	if err != nil {
		return nil, err
	}
	if o.RealNode {
		if err := realNodePossible(programs); err != nil {
			return nil, err
		}
	}
	// Ports are chosen before they are used: somebody else may be faster once.
	c, err := start(ctx, programs, o)
	if err != nil && ctx.Err() == nil {
		c, err = start(ctx, programs, o)
	}
	return c, err
}

func realNodePossible(programs string) error {
	why, err := os.ReadFile(filepath.Join(programs, "no-runtime"))
	switch {
	case err == nil:
		return fmt.Errorf("%w with a real node: %s", ErrUnavailable, strings.TrimSpace(string(why)))
	case os.Getuid() != 0:
		return fmt.Errorf("%w with a real node: it needs root", ErrUnavailable)
	}
	if _, err := os.Stat("/dev/kmsg"); err != nil {
		return fmt.Errorf("%w with a real node: kubelet needs /dev/kmsg: %w", ErrUnavailable, err)
	}
	return nil
}

func start(ctx context.Context, programs string, o Options) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "orrery-kube-") // short: it holds UNIX sockets
	if err != nil {
		return nil, err
	}
	args := []string{"-dir", dir, "-kubeall", filepath.Join(programs, "kubeall"), "-fake-nodes", fmt.Sprint(o.FakeNodes)}
	if o.NodeGrace > 0 {
		args = append(args, "-node-grace", fmt.Sprint(int(o.NodeGrace.Seconds())))
	}
	if o.RealNode {
		args = append(args, "-runtime", filepath.Join(programs, "runtime"))
	}
	c := &Cluster{dir: dir, programs: programs, real: o.RealNode, ended: make(chan struct{}), answers: make(chan string)}
	c.cmd = exec.Command(filepath.Join(programs, "cluster"), args...) //nolint:noctx // it outlives the test that starts it: Stop ends it
	said := &locked.Buffer{}
	c.cmd.Stderr = io.MultiWriter(said, cmp.Or(o.Log, io.Discard))
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(out)
	answer, err := c.answer(ctx, upTimeout)
	kubeconfig, up := strings.CutPrefix(answer, "UP ")
	if err == nil && !up {
		err = fmt.Errorf("it says %q instead of UP", answer)
	}
	if err == nil {
		err = c.connect(kubeconfig)
	}
	if err != nil {
		_ = c.Stop() // the first error counts
		return nil, fmt.Errorf("start a cluster: %w\n%s", err, texts.Tail(said.String(), 8<<10))
	}
	return c, nil
}

// read passes on the launcher's lines and, at their end, waits for its own.
func (c *Cluster) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		c.answers <- lines.Text()
	}
	close(c.answers)
	_ = c.cmd.Wait()
	close(c.ended)
}

func (c *Cluster) answer(ctx context.Context, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case answer, more := <-c.answers:
		if !more {
			return "", errors.New("the cluster has ended")
		}
		return answer, nil
	case <-ctx.Done():
		return "", fmt.Errorf("no answer of the cluster: %w", ctx.Err())
	}
}

func (c *Cluster) connect(kubeconfig string) error {
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	c.config.QPS, c.config.Burst = 1000, 1000
	c.client, err = kubernetes.NewForConfig(c.config)
	return err
}

// Config is a configuration of an administrator, for the caller to change.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client is a client of an administrator.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// HasRealNode reports whether a node runs containers.
func (c *Cluster) HasRealNode() bool { return c.real }

// StopProgram kills a program of the cluster.
func (c *Cluster) StopProgram(ctx context.Context, program string) error {
	return c.command(ctx, "stop "+program)
}

// StartProgram starts a stopped program on its old port, and waits until it is ready.
func (c *Cluster) StartProgram(ctx context.Context, program string) error {
	return c.command(ctx, "start "+program)
}

// PauseProgram stops a program by SIGSTOP: it hangs, as on a machine that is lost.
func (c *Cluster) PauseProgram(ctx context.Context, program string) error {
	return c.command(ctx, "pause "+program)
}

// ContinueProgram lets a program go on.
func (c *Cluster) ContinueProgram(ctx context.Context, program string) error {
	return c.command(ctx, "continue "+program)
}

func (c *Cluster) command(ctx context.Context, line string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	answer, err := c.answer(ctx, commandTimeout)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", line, err)
	case answer != "OK":
		return fmt.Errorf("%s: %s", line, strings.TrimPrefix(answer, "ERR "))
	}
	return nil
}

// Import gives the real node the images of a docker archive, as a registry would: use
// them with imagePullPolicy Never or IfNotPresent.
func (c *Cluster) Import(ctx context.Context, archive string) error {
	if !c.real {
		return fmt.Errorf("import %s: %w with a real node", archive, ErrUnavailable)
	}
	ctr := filepath.Join(c.programs, "runtime", "ctr")
	out, err := exec.CommandContext(ctx, ctr, "-a", filepath.Join(c.dir, "containerd.sock"), "-n", "k8s.io", "images", "import", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("import %s: %w: %s", archive, err, out)
	}
	return nil
}

// Stop ends the cluster and removes its files. It may be called more than once.
func (c *Cluster) Stop() error {
	_ = c.in.Close() // which tells it to end
	for {
		select {
		case _, more := <-c.answers:
			if more {
				continue
			}
			<-c.ended
			return os.RemoveAll(c.dir)
		case <-time.After(stopTimeout):
			_ = c.cmd.Process.Kill()
		}
	}
}

// shared is the cluster of all tests of a package.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Shared gives the one cluster of all tests of a package, with fake nodes and,
// where that can be had, a real one. The first caller waits until it is up. The
// test is skipped where there can be none; with ORRERY_REQUIRE_KUBE=1 it fails.
// The package's TestMain must be [Main].
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if testing.Short() && !required() {
		t.Skip("no Kubernetes cluster with -short")
	}
	shared.once.Do(func() {
		o := Options{FakeNodes: 2, RealNode: true, Log: os.Stderr}
		shared.cluster, shared.err = Start(context.Background(), o)
		if errors.Is(shared.err, ErrUnavailable) && !required() {
			o.RealNode = false
			shared.cluster, shared.err = Start(context.Background(), o)
		}
	})
	if errors.Is(shared.err, ErrUnavailable) && !required() {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// SharedReal is as [Shared], for a test that needs a node that runs containers.
func SharedReal(t testing.TB) *Cluster {
	t.Helper()
	c := Shared(t)
	if !c.HasRealNode() {
		t.Skip("no real node here: it needs root, /dev/kmsg and Debian's packages")
	}
	return c
}

// Main runs the tests of a package, then stops the cluster that they shared. It is
// for TestMain, which gives what it returns to os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
