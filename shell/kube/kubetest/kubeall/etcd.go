package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd serves one etcd member until it is signalled: kubeall etcd FOLDER
// CLIENT_URL PEER_URL.
func runEtcd(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("kubeall etcd takes FOLDER CLIENT_URL PEER_URL, not %d arguments", len(args))
	}
	client, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	peer, err := url.Parse(args[2])
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Name = "kubeall"
	config.Dir = args[0]
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{*peer}
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.LogLevel = "warn"
	config.TickMs, config.ElectionMs = 10, 100 // one member: it elects itself at once
	config.UnsafeNoFsync = true                // the cluster of a test need not survive the machine
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
	case <-etcd.Server.StopNotify():
		return errors.New("etcd stopped before it was ready")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-signals:
		return nil
	case err := <-etcd.Err():
		return err
	}
}
