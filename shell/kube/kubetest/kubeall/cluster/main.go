// Command cluster runs a throw-away Kubernetes cluster on loopback for the tests
// of job runs: etcd, kube-apiserver, kube-controller-manager and kube-scheduler;
// with -fake-nodes nodes of kwok, whose pods only pretend to run; with -runtime
// one real node, of kubelet, containerd and runc, which needs root.
//
// It prints "UP KUBECONFIG" on its standard output once all is ready, then obeys
// its standard input, one command a line, each answered by "OK" or "ERR why":
//
//	stop NAME       kills a program of the cluster
//	start NAME      starts it again, as it was, and waits until it is ready
//	pause NAME      stops it by SIGSTOP: it hangs
//	continue NAME   lets it go on
//
// NAME is etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok,
// containerd or kubelet. Everything ends when the input ends, when this process
// is signalled or killed, or when a program of the cluster ends by itself.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	log.SetFlags(log.Ltime)
	runtime.LockOSThread() // what this thread starts ends with it: Pdeathsig
	var o options
	flag.StringVar(&o.dir, "dir", "", "folder for all files, absolute; made where it is missing; short, for it holds UNIX sockets")
	flag.StringVar(&o.kubeall, "kubeall", "", "path of kubeall")
	flag.IntVar(&o.fakeNodes, "fake-nodes", 0, "number of fake nodes")
	flag.StringVar(&o.runtime, "runtime", "", "folder with containerd, runc, CNI plugins and images: adds a real node")
	flag.IntVar(&o.nodeGrace, "node-grace", 40, "seconds without a sign of life after which a node is lost, with its pods; less than 40 on an idle machine only")
	flag.Parse()
	if err := o.check(); err != nil {
		log.Fatal(err)
	}
	if o.runtime != "" && os.Getenv(innerEnv) == "" {
		if err := outer(); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := serve(o); err != nil {
		log.Fatal(err)
	}
}

// serve runs the cluster until it is told to end.
func serve(o options) error {
	c, err := newCluster(o)
	if err != nil {
		return err
	}
	defer c.kill()
	if err := c.up(); err != nil {
		return err
	}
	fmt.Printf("UP %s\n", c.file("admin.kubeconfig"))

	commands := make(chan string)
	go func() {
		defer close(commands)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- lines.Text()
		}
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	for {
		select {
		case <-signals:
			return nil
		case err := <-c.died:
			return err
		case line, more := <-commands:
			if !more {
				return nil
			}
			if err := c.obey(line); err != nil {
				fmt.Printf("ERR %v\n", err)
			} else {
				fmt.Println("OK")
			}
		}
	}
}
