package main

import (
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// innerEnv holds the name of the cluster's cgroups in the process that outer
// starts.
const innerEnv = "ORRERY_KUBE_CGROUP"

// outer runs this program again as PID 1 of new PID and mount namespaces: when
// that process ends, however it ends, the kernel ends all in it, containers and
// their shims too, and drops its mounts. Then it removes the cgroups.
func outer() error {
	name := fmt.Sprintf("orrery-%d", os.Getpid())
	inner := exec.Command("/proc/self/exe", os.Args[1:]...)
	inner.Env = append(os.Environ(), innerEnv+"="+name)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := inner.Start(); err != nil {
		return fmt.Errorf("a real node needs PID and mount namespaces of its own, and so root: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		if err := inner.Process.Kill(); err != nil {
			log.Print(err)
		}
	}()
	err := inner.Wait()
	removeCgroups(name)
	if inner.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		return nil
	}
	return err
}

// removeCgroups removes the empty folders from below; a process may take a
// moment to leave.
func removeCgroups(name string) {
	for range 30 {
		left := false
		for _, top := range cgroups(name) {
			var folders []string
			_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					folders = append(folders, path)
				}
				return nil
			})
			for i := len(folders) - 1; i >= 0; i-- {
				left = syscall.Rmdir(folders[i]) != nil || left
			}
		}
		if !left {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// cgroups lists the folders of a cgroup: one with cgroup v2, which is untried,
// one for each controller with v1.
func cgroups(name string) []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{filepath.Join("/sys/fs/cgroup", name)}
	}
	files, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	var folders []string
	for _, f := range files {
		folders = append(folders, filepath.Join(filepath.Dir(f), name))
	}
	return folders
}

// enableControllers lets cgroups below the root have all controllers: kubelet wants
// each in its own, and with cgroup v2 only those are there that the root passes on.
func enableControllers() {
	controllers, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers") // none with v1
	for _, name := range strings.Fields(string(controllers)) {
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+"+name), 0o600); err != nil {
			log.Printf("cgroup controller %s: %v", name, err)
		}
	}
}

// enter makes the namespaces of this process its own: what kubelet, containerd
// and the CNI plugins write to fixed places stays in the cluster.
func enter(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_SLAVE|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("mount propagation: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// They set these for the whole machine: give them files to write into.
	for _, name := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "vm/panic_on_oom", "net/ipv4/ip_forward"} {
		path := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "sysctl-"+strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(file, value, 0o600); err != nil {
			return err
		}
		if err := syscall.Mount(file, path, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over %s: %w", path, err)
		}
	}
	for _, path := range []string{"/var/lib/kubelet", "/var/log/containers", "/var/lib/cni", "/run/containerd", "/run/netns"} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount over %s: %w", path, err)
		}
	}
	enableControllers()
	for _, path := range cgroups(os.Getenv(innerEnv)) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	return nil
}
