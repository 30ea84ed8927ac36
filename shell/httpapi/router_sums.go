package httpapi

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// maxGathered bounds what a partition answers, of what is read whole.
const maxGathered = 64 << 20

// gather asks all partitions, and decodes their answers.
func gather[T any](rt *Router, r *http.Request, method string, query url.Values) ([]T, error) {
	all := make([]int, rt.o.Partitions)
	for p := range all {
		all[p] = p
	}
	return gatherOf[T](rt, r, method, query, all)
}

// gatherOf asks some partitions.
func gatherOf[T any](rt *Router, r *http.Request, method string, query url.Values, partitions []int) ([]T, error) {
	ctx, cancel := context.WithTimeout(r.Context(), rt.o.API.RequestTimeout)
	defer cancel()
	out, errs := make([]T, len(partitions)), make([]error, len(partitions))
	var group, all sync.WaitGroup
	defer group.Wait()
	for i, p := range partitions {
		all.Go(func() {
			got := rt.ask(&group, rt.part(ctx, r, method, p, query), p)
			defer func() { _ = got.body.Close() }()
			if got.status != http.StatusOK {
				errs[i] = got.refusal()
				return
			}
			if err := json.NewDecoder(io.LimitReader(got.body, maxGathered)).Decode(&out[i]); err != nil {
				errs[i] = &failure{status: http.StatusBadGateway, text: fmt.Sprintf("partitions: the answer of partition %d has broken off: try again", p), cause: err}
			}
		})
	}
	all.Wait()
	return out, firstOf(errs)
}

// firstOf gives the first of the partitions' errors, by number, so that it follows from the request which that is. What may come again comes after what the last of them
// asks for.
func firstOf(errs []error) (first error) {
	retry := 0
	for _, err := range errs {
		if first == nil {
			first = err
		}
		if of, ok := errors.AsType[*relayed](err); ok {
			retry = max(retry, retryAfter(of.header))
		}
	}
	if of, ok := errors.AsType[*relayed](first); ok && retryAfter(of.header) > 0 {
		of.header.Set("Retry-After", strconv.Itoa(retry))
	}
	return first
}

// number reads a number of a query that the partitions have found good.
func number(query url.Values, name string, def int) int {
	if n, err := strconv.Atoi(query.Get(name)); err == nil {
		return n
	}
	return def
}

func mergeFound(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	query := r.URL.Query()
	all, err := gather[wire.FoundList](rt, r, http.MethodGet, query)
	if err != nil {
		return err
	}
	out := wire.FoundList{Found: []wire.Found{}}
	for _, of := range all {
		out.Found, out.More = append(out.Found, of.Found...), out.More || of.More
	}
	at := make(map[string]int)
	for i, of := range rt.front.findables() {
		at[string(of.kind)] = i
	}
	slices.SortStableFunc(out.Found, func(a, b wire.Found) int {
		return cmp.Or(cmp.Compare(at[string(a.Kind)], at[string(b.Kind)]), bytes.Compare(a.ID[:], b.ID[:]))
	})
	if limit := number(query, "limit", defaultFound); len(out.Found) > limit {
		out.Found, out.More = out.Found[:limit], true
	}
	return writeJSON(w, http.StatusOK, out)
}

func mergeUpcoming(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	query := r.URL.Query()
	if !query.Has("until") { // one time for all
		query.Set("until", rt.front.now().Add(defaultAhead).String())
	}
	all, err := gather[wire.UpcomingList](rt, r, http.MethodGet, query)
	if err != nil {
		return err
	}
	out := wire.UpcomingList{Schedules: []wire.UpcomingSchedule{}}
	for _, of := range all {
		out.Schedules, out.More = append(out.Schedules, of.Schedules...), out.More || of.More
	}
	slices.SortStableFunc(out.Schedules, func(a, b wire.UpcomingSchedule) int { return cmp.Compare(a.DueAt, b.DueAt) })
	if limit := number(query, "limit", shell.DefaultPage); len(out.Schedules) > limit {
		out.Schedules, out.More = out.Schedules[:limit], true
	}
	return writeJSON(w, http.StatusOK, out)
}

// livesIn reports whether a tenant lives in a partition.
func (rt *Router) livesIn(partition int, namespace, tenant string) bool {
	return core.Partition(shell.Scope{Namespace: namespace, Tenant: tenant}, rt.o.Partitions) == partition
}

func mergeLimits(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	all, err := gather[wire.LimitsList](rt, r, http.MethodGet, r.URL.Query())
	if err != nil {
		return err
	}
	out := wire.LimitsList{Counted: true, Tenants: []wire.TenantLimits{}}
	for p, of := range all {
		out.Counted, out.Gaps, out.LeftOut = out.Counted && of.Counted, out.Gaps+of.Gaps, out.LeftOut+of.LeftOut
		for _, t := range of.Tenants { // each partition shows those with limits of their own, too
			if rt.livesIn(p, t.Namespace, t.Tenant) {
				out.Tenants = append(out.Tenants, t)
			}
		}
	}
	slices.SortFunc(out.Tenants, func(a, b wire.TenantLimits) int {
		return cmp.Or(cmp.Compare(b.Usage.StoredBytes, a.Usage.StoredBytes), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Tenant, b.Tenant))
	})
	if more := len(out.Tenants) - maxShownTenants; more > 0 {
		out.Tenants, out.LeftOut = out.Tenants[:maxShownTenants], out.LeftOut+more
	}
	return writeJSON(w, http.StatusOK, out)
}

func mergeWebhooks(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	all, err := gather[wire.WebhookRouteList](rt, r, http.MethodGet, r.URL.Query())
	if err != nil {
		return err
	}
	out := wire.WebhookRouteList{Routes: []wire.WebhookRoute{}}
	for p, of := range all {
		for _, route := range of.Routes { // all know them, and the tenant's partition counts
			if rt.livesIn(p, route.Namespace, route.Tenant) {
				out.Routes = append(out.Routes, route)
			}
		}
	}
	slices.SortFunc(out.Routes, func(a, b wire.WebhookRoute) int { return cmp.Compare(a.Name, b.Name) })
	return writeJSON(w, http.StatusOK, out)
}

// mergeSystem sums up how the engines of all partitions fare; what can only be told of one of them stands in Partitions alone.
func mergeSystem(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	all, err := gather[wire.System](rt, r, http.MethodGet, nil)
	if err != nil {
		return err
	}
	out := wire.System{Instance: cmp.Or(rt.o.Name, all[0].Instance), Instances: []wire.Instance{}, Quarantine: []wire.SetAside{}, Store: rt.keptIn()}
	for p, of := range all {
		out.Instances, out.Quarantine = append(out.Instances, of.Instances...), append(out.Quarantine, of.Quarantine...)
		out.Running, out.Batches, out.CommitErrors, out.Refused = out.Running+of.Running, out.Batches+of.Batches, out.CommitErrors+of.CommitErrors, out.Refused+of.Refused
		out.CommitsPerSecond, out.InputsPerSecond = out.CommitsPerSecond+of.CommitsPerSecond, out.InputsPerSecond+of.InputsPerSecond
		out.LateSeconds, out.LoopLagSeconds = max(out.LateSeconds, of.LateSeconds), max(out.LoopLagSeconds, of.LoopLagSeconds)
		out.LoopLagLimitSeconds = max(out.LoopLagLimitSeconds, of.LoopLagLimitSeconds)
		if out.PausedSince.IsZero() || !of.PausedSince.IsZero() && of.PausedSince.Before(out.PausedSince) {
			out.PausedSince = of.PausedSince
		}
		out.Partitions = append(out.Partitions, wire.PartitionSystem{
			Partition: p, Instance: of.Instance, PausedSince: of.PausedSince, Running: of.Running, LoopLagSeconds: of.LoopLagSeconds,
			CommitErrors: of.CommitErrors, JournalSeq: of.JournalSeq, JournalFrom: of.JournalFrom,
		})
	}
	slices.SortStableFunc(out.Quarantine, func(a, b wire.SetAside) int { return cmp.Compare(a.At, b.At) })
	out.Quarantine = out.Quarantine[:min(len(out.Quarantine), maxSetAside)]
	if c.token.Admin && rt.o.API.Settings != nil {
		out.Settings = rt.o.API.Settings()
	}
	return writeJSON(w, http.StatusOK, out)
}

func mergeResumed(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	all, err := gather[wire.Resumed](rt, r, http.MethodPost, r.URL.Query())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Resumed{Resumed: slices.Contains(all, wire.Resumed{Resumed: true})})
}

// mergeChannels shows the channels of this process, with what the alerts of all partitions have to tell by them.
func mergeChannels(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	own, err := rt.front.channels()
	if err != nil {
		return err
	}
	all, err := gather[wire.ChannelList](rt, r, http.MethodGet, r.URL.Query())
	if err != nil {
		return err
	}
	out := wire.ChannelList{Channels: append([]wire.Channel{}, own...)}
	for i := range out.Channels {
		for _, of := range all {
			for _, ch := range of.Channels {
				if ch.Name == out.Channels[i].Name && ch.Alerts != nil {
					out.Channels[i].Alerts = addAlerts(out.Channels[i].Alerts, ch.Alerts)
				}
			}
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// addAlerts gives what alerts of two partitions have to tell by a channel.
func addAlerts(a, b *wire.ChannelAlerts) *wire.ChannelAlerts {
	if a == nil {
		return b
	}
	out := *a
	if out.Since.IsZero() || !b.Since.IsZero() && b.Since.Before(out.Since) {
		out.Since = b.Since
	}
	out.Raised, out.Cleared = addCounts(a.Raised, b.Raised), addCounts(a.Cleared, b.Cleared)
	out.Names = append(slices.Clone(a.Names), b.Names...)
	out.Sent, out.Lost, out.Error = a.Sent+b.Sent, a.Lost+b.Lost, cmp.Or(a.Error, b.Error)
	if out.Message == "" {
		out.Message, out.Tries, out.RetryAt = b.Message, b.Tries, b.RetryAt
	}
	return &out
}

func addCounts(a, b core.AlertCounts) core.AlertCounts {
	return core.AlertCounts{
		Late: a.Late + b.Late, Missed: a.Missed + b.Missed, Stale: a.Stale + b.Stale, Failing: a.Failing + b.Failing, Slow: a.Slow + b.Slow,
	}
}

// mergeReady says whether the partitions of this process are ready. It does not ask for the others: what is sent here for them is passed on, and
// a process is not to be taken away since another one is not ready.
func mergeReady(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	var mine []int
	for p := range rt.o.Partitions {
		if _, ok := rt.o.Local(p); ok {
			mine = append(mine, p)
		}
	}
	var all []wire.Health
	err := rt.front.whileReady(ctx, func(ctx context.Context) (err error) {
		all, err = gatherOf[wire.Health](rt, r.WithContext(ctx), http.MethodGet, nil, mine)
		return err
	})
	if err != nil {
		return err
	}
	out := wire.Health{Status: "ready", Runners: map[string]string{}, Store: rt.keptIn()}
	for _, of := range all {
		maps.Copy(out.Runners, of.Runners)
		out.Database = cmp.Or(out.Database, of.Database)
		if out.PausedSince.IsZero() || !of.PausedSince.IsZero() && of.PausedSince.Before(out.PausedSince) {
			out.PausedSince = of.PausedSince
		}
	}
	if !out.PausedSince.IsZero() {
		out.Status = "paused"
	}
	return writeJSON(w, http.StatusOK, out)
}

// labelPartition tells the metrics of the partitions of one process apart.
const labelPartition = "partition"

// mergeMetrics shows the metrics of the process, and those of the partitions that it owns, with their number.
func mergeMetrics(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	if _, err := readQuery(r, "name[]*"); err != nil {
		return err
	}
	all := prometheus.NewRegistry()
	register := func(s *Server, partition string) error {
		in := prometheus.WrapRegistererWith(prometheus.Labels{labelPartition: partition}, all)
		for _, c := range s.collectors {
			if err := in.Register(c); err != nil {
				return fmt.Errorf("metrics of partition %q: %w", partition, err)
			}
		}
		return nil
	}
	if err := register(rt.front, ""); err != nil {
		return err
	}
	for _, c := range append(slices.Clone(rt.front.ofProcess), besides{rt.front.collectProcess()}) {
		if err := all.Register(c); err != nil {
			return fmt.Errorf("metrics of the process: %w", err)
		}
	}
	for p := range rt.o.Partitions {
		if s, ok := rt.o.Local(p); ok {
			if err := register(s, strconv.Itoa(p)); err != nil {
				return err
			}
		}
	}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(rt.front.log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	}).ServeHTTP(w, r)
	return nil
}

// refuseBackup says what to do instead.
func refuseBackup(rt *Router, _ http.ResponseWriter, _ *http.Request, _ *call) error {
	return failf(http.StatusBadRequest, "partition: missing: a backup is of one partition, of 0 to %d: name it with ?partition=0, or back up the database with its own means", rt.o.Partitions-1)
}

// mergeEvents sends the events of all partitions as they come. It ends when one of the streams ends, as when its partition gets another
// owner, so that its reader asks again.
func mergeEvents(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error {
	s := rt.front
	if _, err := readQuery(r, "category*", "action"); err != nil {
		return err
	}
	leave, err := s.takeStream(&s.streams, func(f *inFlight) *slots { return &f.streams }, c, "streams of events are open", "close one", 60)
	if err != nil {
		return err
	}
	defer leave()
	if r.Method == http.MethodHead {
		newEventStream(w)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var open []*answered
	defer func() {
		for _, got := range open {
			_ = got.body.Close()
		}
	}()
	for p := range rt.o.Partitions {
		got := rt.ask(&group, rt.part(ctx, r, http.MethodGet, p, r.URL.Query()), p)
		if open = append(open, got); got.status != http.StatusOK {
			return got.refusal()
		}
	}
	out := &mergedEvents{out: newEventStream(w), dropped: make([]uint64, len(open))}
	if !out.out.write(": events from now on\n\n") {
		return nil
	}
	var readers sync.WaitGroup
	for p, got := range open {
		readers.Go(func() {
			defer cancel()
			out.copy(p, got.body)
		})
	}
	readers.Go(func() {
		pulse := time.NewTicker(eventPulse)
		defer pulse.Stop()
		for {
			select {
			case <-pulse.C:
				if c.token.expired(s.o.Clock.Now()) || !out.write(": \n\n") {
					cancel()
					return
				}
			case <-ctx.Done():
				for _, got := range open {
					_ = got.body.Close()
				}
				return
			}
		}
	})
	readers.Wait()
	return nil
}

// mergedEvents is a stream that several write to.
type mergedEvents struct {
	mu      sync.Mutex
	out     *eventStream
	dropped []uint64 // by partition
}

func (m *mergedEvents) write(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.write(text)
}

// maxEventBytes bounds one event of a stream.
const maxEventBytes = 16 << 20

// copy copies the events of one partition until its stream ends, or the reader leaves.
func (m *mergedEvents) copy(partition int, from io.Reader) {
	in := bufio.NewReader(io.LimitReader(from, 1<<62))
	var block strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if block.WriteString(line); block.Len() > maxEventBytes {
			return
		}
		if line != "\n" {
			continue
		}
		text := block.String()
		block.Reset()
		if strings.HasPrefix(text, ":") { // a sign of life, which the router gives itself
			continue
		}
		if strings.HasPrefix(text, "event: dropped\n") {
			text = m.countDropped(partition, text)
		}
		if !m.write(text) {
			return
		}
	}
}

// countDropped sums up what was dropped, of which each partition tells all that it has.
func (m *mergedEvents) countDropped(partition int, text string) string {
	var told struct {
		Dropped uint64 `json:"dropped"`
	}
	_, data, _ := strings.Cut(text, "data: ")
	if err := json.Unmarshal([]byte(data), &told); err != nil {
		return text
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped[partition] = told.Dropped
	sum := uint64(0)
	for _, n := range m.dropped {
		sum += n
	}
	return fmt.Sprintf("event: dropped\ndata: {\"dropped\":%d}\n\n", sum)
}

// programs gives the subscribers of the program, which are the same in each partition.
func (rt *Router) programs(r *http.Request, c *call) ([]string, error) {
	if !c.token.unbound() {
		return nil, nil
	}
	type beside struct { // the list stands there in the form of a part
		Program []string `json:"program"`
	}
	all, err := gather[beside](rt, r, http.MethodGet, url.Values{"limit": {"1"}})
	if err != nil {
		return nil, err
	}
	return all[0].Program, nil
}

// relayedOr answers with what a partition has answered, if the error is that. An answer that has begun is broken off.
func relayedOr(w http.ResponseWriter, err error) error {
	sw, ok := w.(*statusWriter)
	if begun := ok && sw.status != 0; begun {
		return err
	}
	if of, ok := errors.AsType[*relayed](err); ok {
		of.relay(w)
		return nil
	}
	return err
}
