// Command partitions is Orrery in a program of your own, on a PostgreSQL database that is divided: several processes work on it side by
// side, each on the partitions of some tenants, and any of them answers any request.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/fleet/forward"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

const (
	lease      = 2 * time.Second // the same in all processes
	partitions = 6
)

func main() {
	if len(os.Args) != 3 {
		fmt.Println("usage: DATABASE=postgres://… KEY=… partitions NAME HOST:PORT")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("DATABASE"), os.Getenv("KEY"), os.Args[1], os.Args[2])
	stop()
	if err != nil {
		fmt.Println("ended:", err)
		os.Exit(1)
	}
}

// host is what a process has for all partitions together.
type host struct {
	name   string
	key    [sha256.Size]byte // the same in all processes: lists of all partitions go on at any of them
	fronts []*forward.Front  // by the number of the partition
	shared httpapi.Shared    // by the servers of the partitions and the router: rates count by process
	slots  shell.Slots       // of the engines: so do tools at a time

	mu      sync.Mutex
	servers map[int]*httpapi.Server // of the partitions that this process works on
}

// run takes part in the cluster until ctx ends.
func run(ctx context.Context, url, key, name, listen string) error {
	cluster, err := postgres.Connect(ctx, url, postgres.Options{Lease: lease})
	if err != nil {
		return err
	}
	defer cluster.Close()
	layout := store.Layout{Partitions: partitions, Rule: core.PartitionRule}
	if err := cluster.SetLayout(ctx, layout); err != nil { // done again it changes nothing
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	group, err := fleet.NewGroup(fleet.Options{Cluster: cluster, Name: name, Address: "http://" + listener.Addr().String(), Lease: lease}, layout)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	h := &host{name: name, key: sha256.Sum256([]byte(key)), servers: make(map[int]*httpapi.Server)}
	router, err := h.route(group)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: router, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until Close
	defer func() { _ = server.Close() }()
	fmt.Println(name, "answers at", listener.Addr())
	return group.Run(ctx, h.work)
}

// route makes what has each request answered by the partition that it is about, here or in the process that works on that.
func (h *host) route(group *fleet.Group) (*httpapi.Router, error) {
	for p := range partitions {
		passes, err := forward.New(forward.Options{Member: group.Member(p), Name: h.name, Open: true}) // whoever reaches this machine may do everything
		if err != nil {
			return nil, err
		}
		h.fronts = append(h.fronts, forward.NewFront(passes))
	}
	return httpapi.NewRouter(httpapi.RouterOptions{
		API: httpapi.Options{Shared: &h.shared, PageKey: h.pageKey}, Name: h.name, Partitions: partitions,
		Local: h.local, Remote: func(p int) http.Handler { return h.fronts[p] },
	})
}

func (h *host) pageKey(context.Context) ([]byte, error) { return h.key[:], nil }

func (h *host) local(partition int) (*httpapi.Server, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.servers[partition]
	return s, ok
}

// answer has requests about a partition answered here, until who calls what it returns.
func (h *host) answer(partition int, s *httpapi.Server) (stop func()) {
	h.mu.Lock()
	h.servers[partition] = s
	h.mu.Unlock()
	leave := h.fronts[partition].Own(s.Handler())
	return sync.OnceFunc(func() {
		h.mu.Lock()
		if h.servers[partition] == s {
			delete(h.servers, partition)
		}
		h.mu.Unlock()
		leave()
	})
}

// work runs the engine of a partition, and answers requests about it, while it is this process's. Once ctx has ended the engine gives the
// partition back at once, and returns when the tools have ended that ran: their results count at the next process.
func (h *host) work(ctx context.Context, t fleet.Term) error {
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		return json.Marshal(h.name + " says hi to " + c.Label)
	}
	engine, err := shell.New(shell.Options{
		Store: t.Store, Clock: t.Clock, Partition: t.Partition, Partitions: t.Partitions, Handover: t.Handover, Slots: &h.slots,
		Tools: map[string]shell.Tool{"greet": shell.ToolFunc(greet)},
	})
	if err != nil {
		return err
	}
	api, err := httpapi.New(httpapi.Options{Engine: engine, Partitions: partitions, Shared: &h.shared, PageKey: h.pageKey})
	if err != nil {
		return err
	}
	leave := h.answer(t.Partition, api)
	defer leave()
	defer context.AfterFunc(ctx, leave)()
	return engine.Run(ctx)
}
