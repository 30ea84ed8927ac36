package main

import (
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Addresses of the nodes: no two programs may ask for the same port.
const (
	realNode = "127.0.0.2"
	fakeNode = "127.0.0.3"
)

// readyTimeout is how long a program may take to be ready: the machine may be
// loaded.
const readyTimeout = 3 * time.Minute

//go:embed kwok.yaml
var kwokConfig string

type options struct {
	dir, kubeall, runtime string
	fakeNodes             int
	nodeGrace             int // seconds
}

func (o options) check() error {
	switch {
	case !filepath.IsAbs(o.dir):
		return fmt.Errorf("-dir %q is not an absolute path", o.dir)
	case !filepath.IsAbs(o.kubeall):
		return fmt.Errorf("-kubeall %q is not an absolute path", o.kubeall)
	case o.nodeGrace < 4:
		return fmt.Errorf("-node-grace %d is less than 4 seconds", o.nodeGrace)
	case o.fakeNodes < 0:
		return fmt.Errorf("-fake-nodes %d is negative", o.fakeNodes)
	}
	return nil
}

// cluster is a running cluster. Its methods are called by one goroutine.
type cluster struct {
	options
	begun    time.Time
	ca       *authority
	client   *http.Client // as an administrator
	etcd     string       // URL
	server   string       // URL of kube-apiserver
	programs map[string]*program
	died     chan error // a program ended that was not told to
}

func newCluster(o options) (*cluster, error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	c := &cluster{options: o, begun: time.Now(), programs: map[string]*program{}, died: make(chan error, 16)}
	if os.Getenv(innerEnv) != "" {
		if err := enter(c.dir); err != nil {
			return nil, fmt.Errorf("enter namespaces: %w", err)
		}
	}
	var err error
	c.ca, err = newAuthority(o.dir)
	return c, err
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, content string) (string, error) {
	return c.file(name), os.WriteFile(c.file(name), []byte(content), 0o600)
}

// up starts everything in order.
func (c *cluster) up() error {
	if err := c.prepare(); err != nil {
		return err
	}
	steps := []func() error{c.startEtcd, c.startServer, c.startControllers}
	if c.fakeNodes > 0 {
		steps = append(steps, c.startFakeNodes)
	}
	if c.runtime != "" {
		steps = append(steps, c.startRealNode)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the certificates and the client of an administrator.
func (c *cluster) prepare() error {
	err := errors.Join(
		c.ca.issue("apiserver", "kube-apiserver", "", "127.0.0.1"),
		c.ca.issue("kubelet-client", "kube-apiserver", "system:masters"),
		c.ca.issue("admin", "admin", "system:masters"),
		c.ca.issue("controllers", "system:kube-controller-manager", ""),
		c.ca.issue("scheduler", "system:kube-scheduler", ""),
		c.ca.issue("node", "system:node:"+realNode, "system:nodes", realNode),
		c.ca.issue("kwok", "kwok", "system:masters", fakeNode),
		c.ca.issueServiceAccounts(),
	)
	if err != nil {
		return err
	}
	admin, err := tls.LoadX509KeyPair(c.file("admin.crt"), c.file("admin.key"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.cert)
	c.client = &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{admin}}},
	}
	return nil
}

// kubeconfig writes a kubeconfig for the certificate of that name.
func (c *cluster) kubeconfig(name string) (string, error) {
	return c.write(name+".kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: test, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, c.server, c.file("ca.crt"), c.file(name+".crt"), c.file(name+".key")))
}

func (c *cluster) startEtcd() error {
	client, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	peer, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	c.etcd = fmt.Sprintf("http://127.0.0.1:%d", client)
	return c.start(&program{
		name: "etcd", path: c.kubeall,
		args:  []string{"etcd", c.file("etcd"), c.etcd, fmt.Sprintf("http://127.0.0.1:%d", peer)},
		ready: c.get(c.etcd+"/health", "true"),
	})
}

func (c *cluster) startServer() error {
	port, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	c.server = fmt.Sprintf("https://127.0.0.1:%d", port)
	if _, err := c.kubeconfig("admin"); err != nil {
		return err
	}
	return c.start(&program{
		name: "kube-apiserver", path: c.kubeall, ready: c.get(c.server+"/readyz", "ok"),
		args: []string{
			"kube-apiserver", "--etcd-servers=" + c.etcd,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
			"--tls-cert-file=" + c.file("apiserver.crt"), "--tls-private-key-file=" + c.file("apiserver.key"), "--client-ca-file=" + c.file("ca.crt"),
			"--kubelet-client-certificate=" + c.file("kubelet-client.crt"), "--kubelet-client-key=" + c.file("kubelet-client.key"),
			"--kubelet-certificate-authority=" + c.file("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.file("accounts.pub"),
			"--service-account-signing-key-file=" + c.file("accounts.key"),
			"--authorization-mode=Node,RBAC", "--anonymous-auth=false", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true", "--profiling=false",
			// A node that is lost loses its pods seconds later, not minutes.
			"--default-not-ready-toleration-seconds=2", "--default-unreachable-toleration-seconds=2",
		},
	})
}

// startControllers starts the controllers and the scheduler. Their default of 20
// calls a second would make the first start 4.5 s later.
func (c *cluster) startControllers() error {
	controllers, err := c.kubeconfig("controllers")
	if err != nil {
		return err
	}
	scheduler, err := c.kubeconfig("scheduler")
	if err != nil {
		return err
	}
	common := []string{"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000"}
	err = c.start(&program{
		name: "kube-controller-manager", path: c.kubeall,
		args: append([]string{
			"kube-controller-manager", "--kubeconfig=" + controllers,
			"--use-service-account-credentials=true", "--service-account-private-key-file=" + c.file("accounts.key"), "--root-ca-file=" + c.file("ca.crt"),
			"--node-monitor-period=500ms", fmt.Sprintf("--node-monitor-grace-period=%ds", c.nodeGrace), "--node-eviction-rate=10",
		}, common...),
		ready: c.get(c.server+"/api/v1/namespaces/default/serviceaccounts/default", ""),
	})
	if err != nil {
		return err
	}
	return c.start(&program{
		name: "kube-scheduler", path: c.kubeall,
		args: append([]string{"kube-scheduler", "--kubeconfig=" + scheduler}, common...),
	})
}

func (c *cluster) startFakeNodes() error {
	port, err := freePort(fakeNode)
	if err != nil {
		return err
	}
	config, err := c.kubeconfig("kwok")
	if err != nil {
		return err
	}
	logs, err := c.write("fake.log", "2026-01-01T00:00:00.000000000Z stdout F a fake node's pod has written this\n") // as CRI has it
	if err != nil {
		return err
	}
	stages, err := c.write("kwok.yaml", strings.ReplaceAll(kwokConfig, "LOGS_FILE", logs))
	if err != nil {
		return err
	}
	// --node-port is what the nodes announce, --server-address where kwok serves.
	err = c.start(&program{
		name: "kwok", path: c.kubeall,
		args: []string{
			"kwok", "--kubeconfig=" + config, "--config=" + stages,
			"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
			"--node-ip=" + fakeNode, fmt.Sprintf("--node-port=%d", port), fmt.Sprintf("--server-address=%s:%d", fakeNode, port),
			"--tls-cert-file=" + c.file("kwok.crt"), "--tls-private-key-file=" + c.file("kwok.key"),
			"--cidr=10.96.0.1/12", fmt.Sprintf("--node-lease-duration-seconds=%d", c.nodeGrace),
		},
	})
	if err != nil {
		return err
	}
	for i := range c.fakeNodes {
		if err := c.addFakeNode(fmt.Sprintf("fake-%d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) addFakeNode(name string) error {
	answer, err := c.client.Post(c.server+"/api/v1/nodes", "application/json", strings.NewReader(fmt.Sprintf(`{"apiVersion":"v1","kind":"Node",
 "metadata":{"name":%q,"annotations":{"kwok.x-k8s.io/node":"fake"},"labels":{"orrery.test/node":"fake"}},
 "status":{"allocatable":{"cpu":"1k","memory":"1Ti","pods":"1000"},"capacity":{"cpu":"1k","memory":"1Ti","pods":"1000"}}}`, name)))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		why, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("add node %s: %s: %s", name, answer.Status, why)
	}
	return c.wait(name, c.get(c.server+"/api/v1/nodes/"+name, `"type":"Ready","status":"True"`))
}

// get checks that url answers 200 with want in its text.
func (c *cluster) get(url, want string) func() error {
	return func() error {
		answer, err := c.client.Get(url)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			return fmt.Errorf("%s: %s without %q", url, answer.Status, want)
		}
		return nil
	}
}

// freePort picks a port that was free a moment ago: whoever starts the cluster
// tries once more where somebody else was faster.
func freePort(ip string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
