// Command kubeall is etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubelet and kwok in one binary: the first argument says which.
// It exists for the tests of job runs (issue 4) and is a module of its own, so
// that none of Kubernetes enters the go.mod of Orrery.
//
// The first argument names the program, the others are its own flags; etcd is
// embedded and takes three arguments: its folder, the URL for its clients and
// the URL for its peers.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric of the build
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
)

const usage = "usage: kubeall etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kwok [flags]"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = append([]string{name}, os.Args[2:]...) // as if the program had its own name
	os.Exit(run(name))
}

// run constructs only the chosen program: each registers flags and feature
// gates of the whole process.
func run(name string) int {
	switch name {
	case "etcd":
		return report(runEtcd(os.Args[1:]))
	case "kwok":
		return report(runKwok())
	}
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": kcm.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	command, ok := commands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "kubeall: no program %q\n%s\n", name, usage)
		return 2
	}
	return cli.Run(command())
}

// report turns an error into the exit code.
func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runKwok does what the main function of kwok does: its configuration is read
// before its command is made.
func runKwok() error {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(context.Background(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		return err
	}
	// The packages of Kubernetes put a --version of their own on the global set.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	return command.ExecuteContext(ctx)
}
