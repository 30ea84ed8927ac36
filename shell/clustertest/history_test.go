//go:build unix

package clustertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
)

// history is what all clients have asked and were told.
type history struct {
	begin    time.Time
	answered atomic.Int64
	moved    chan struct{} // gets something after an answer

	tenants   []*tenant
	mu        sync.Mutex              // guards what follows, and the operations of tenants
	actions   map[string]*askedAction // by label
	pipelines map[string]*askedPipeline
	runs      []*askedRun
	plaints   []string
	tries     map[string]int // how tries were answered
	ghosts    int
}

// tenant is one of those that clients ask for, with what they have asked of its queues and locks.
type tenant struct {
	name   string
	queues [queues][]porcupine.Operation
	locks  [locks][]porcupine.Operation
}

// scope names the tenant in the query of a request.
func (t *tenant) scope() string { return "?namespace=" + scopeName + "&tenant=" + t.name }

// askedAction is an action that a client has asked for.
type askedAction struct {
	tenant    string
	id        uuid.UUID // zero: it was not acknowledged
	retry     bool
	cancelled bool // acknowledged
}

// askedPipeline is a pipeline that a client has asked for: its phases wait for the same signal, one after the other.
type askedPipeline struct {
	tenant  string
	id      uuid.UUID
	signals int // sent, and acknowledged
}

// phases is how many signals a pipeline waits for.
const phases = 3

func phaseName(n int) string { return fmt.Sprintf("phase-%d", n) }

// recurringType is the type and the label of the actions of the one that recurs.
const recurringType = "each"

func newHistory(tenants ...string) *history {
	h := &history{
		begin: time.Now(), moved: make(chan struct{}, 1), actions: make(map[string]*askedAction), pipelines: make(map[string]*askedPipeline), tries: make(map[string]int),
	}
	for _, name := range tenants {
		h.tenants = append(h.tenants, &tenant{name: name})
	}
	return h
}

func (h *history) now() int64 { return time.Since(h.begin).Nanoseconds() }

func (h *history) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plaints = append(h.plaints, fmt.Sprintf(format, args...))
}

func (h *history) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries[what]++
}

// progress waits until so many more requests were answered.
func (h *history) progress(n int64) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for want := h.answered.Load() + n; h.answered.Load() < want; {
		select {
		case <-h.moved:
		case <-limit.C:
			return errors.New("no request is answered any more")
		}
	}
	return nil
}

// summary says how much was asked, for the log.
func (h *history) summary() string {
	n := 0
	m := 0
	for _, of := range h.tenants {
		for _, ops := range of.queues {
			n += len(ops)
		}
		for _, ops := range of.locks {
			m += len(ops)
		}
	}
	return fmt.Sprintf("%d requests were answered, %d operations of queues, %d of locks, %d of them may have been carried out later; other tries: %v",
		h.answered.Load(), n, m, h.ghosts, h.tries)
}

// keep writes the histories into a folder.
func (h *history) keep(t *testing.T, dir string) {
	t.Helper()
	write := func(name string, model porcupine.Model, ops []porcupine.Operation) {
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		var b strings.Builder
		for _, o := range ops {
			fmt.Fprintf(&b, "%10.3f %10.3f client-%d %s\n", float64(o.Call)/1e6, float64(o.Return)/1e6, o.ClientId, model.DescribeOperation(o.Input, o.Output))
		}
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o600))
	}
	for _, of := range h.tenants {
		for q, ops := range of.queues {
			write(fmt.Sprintf("%s-queue-%d.history", of.name, q), queueModel(), ops)
		}
		for l, ops := range of.locks {
			write(fmt.Sprintf("%s-lock-%d.history", of.name, l), lockModel(), ops)
		}
	}
}
