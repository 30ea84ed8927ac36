package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// startRealNode starts containerd and kubelet.
func (c *cluster) startRealNode() error {
	socket := c.file("containerd.sock")
	if err := c.startContainerd(socket); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(c.runtime, "*.tar"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := c.ctr(socket, "images", "import", archive); err != nil {
			return err
		}
	}
	port, err := freePort(realNode)
	if err != nil {
		return err
	}
	config, err := c.write("kubelet.yaml", fmt.Sprintf(kubeletConfig,
		os.Getenv(innerEnv), realNode, port, socket, c.file("ca.crt"), c.file("node.crt"), c.file("node.key"), c.nodeGrace, c.file("podlogs")))
	if err != nil {
		return err
	}
	kubeconfig, err := c.kubeconfig("node")
	if err != nil {
		return err
	}
	// The name is an IP address: kubelet takes it as that of the node and, other
	// than --node-ip, does not refuse one of loopback.
	return c.start(&program{
		name: "kubelet", path: c.kubeall, env: c.runtimePath(),
		args: []string{
			"kubelet", "--config=" + config, "--kubeconfig=" + kubeconfig, "--hostname-override=" + realNode,
			"--node-labels=orrery.test/node=real", "--root-dir=" + c.file("kubelet"), "--cert-dir=" + c.file("kubelet-pki"),
		},
		ready: c.get(c.server+"/api/v1/nodes/"+realNode, `"reason":"KubeletReady"`),
	})
}

func (c *cluster) runtimePath() []string {
	return []string{"PATH=" + c.runtime + ":" + os.Getenv("PATH")}
}

func (c *cluster) startContainerd(socket string) error {
	if err := os.MkdirAll(c.file("cni"), 0o755); err != nil {
		return err
	}
	// Clusters beside one another need networks of their own.
	n := os.Getpid()
	if _, after, ok := strings.Cut(os.Getenv(innerEnv), "-"); ok {
		if _, err := fmt.Sscan(after, &n); err != nil {
			return err
		}
	}
	_, err := c.write("cni/10-test.conflist", fmt.Sprintf(networkConfig, 100+n%100, n/100%256, c.file("ipam")))
	if err != nil {
		return err
	}
	config, err := c.write("containerd.toml", fmt.Sprintf(containerdConfig,
		c.file("containerd-root"), c.file("containerd-state"), socket, filepath.Join(c.runtime, "runc"), c.runtime, c.file("cni")))
	if err != nil {
		return err
	}
	return c.start(&program{
		name: "containerd", path: filepath.Join(c.runtime, "containerd"), args: []string{"--config", config}, env: c.runtimePath(),
		ready: func() error { return c.ctr(socket, "version") },
	})
}

// ctr runs containerd's command.
func (c *cluster) ctr(socket string, args ...string) error {
	out, err := exec.Command(filepath.Join(c.runtime, "ctr"), append([]string{"-a", socket, "-n", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

const networkConfig = `{"cniVersion":"1.0.0","name":"test","plugins":[{"type":"ptp","ipMasq":false,
 "ipam":{"type":"host-local","ranges":[[{"subnet":"10.%d.%d.0/24"}]],"dataDir":%q}}]}`

// The snapshotter native copies images, which are small here, and needs nothing of
// the file system: overlayfs does not stack, in a container, say. Without
// restrict_oom_score_adj each pod fails where this process may not lower its own score.
const containerdConfig = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:test"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%s
enforceNodeAllocatable: []
failSwapOn: false
address: %s
port: %d
healthzPort: 0
containerRuntimeEndpoint: unix://%s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
resolvConf: ""
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
imageMinimumGCAge: 24h
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
syncFrequency: 1s
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: %d
podLogsDir: %q
makeIPTablesUtilChains: false
kubeAPIQPS: 1000
kubeAPIBurst: 1000
`
