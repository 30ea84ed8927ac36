package jobs

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/webhook"
	"github.com/orrery-go/orrery/store"
)

// JobStateSyncer takes the important changes of runs (004 JobStateSyncer). Each
// batch is in the order of the changes. The same update may be delivered twice, after
// a crash or an error: UpdateID tells. It is called for one batch at a time.
type JobStateSyncer interface {
	Sync(ctx context.Context, updates []core.JobRunUpdate) error
}

// StatsCollector takes the metrics of runs that have ended (004 Stats Collector),
// as [JobStateSyncer] takes updates: Namespace, Tenant and RunID tell what came twice.
type StatsCollector interface {
	Collect(ctx context.Context, metrics []core.OrchestratorMetrics) error
}

// Bounds of what goes to a [JobStateSyncer] or a [StatsCollector].
const (
	feedBatch  = 256              // one call at most
	feedDelay  = time.Second      // the longest wait for a batch to fill
	feedBuffer = 16384            // of the subscription; beyond it the stored states are read
	feedMark   = 10 * time.Second // between two watermarks
)

// startFeeds delivers updates to the Syncer and metrics to the Stats, if there are
// such, until ctx ends.
//
// What is announced on the bus is delivered in order and in batches. The bus drops
// announcements while nobody listens or while nobody takes them, so each feed keeps a
// watermark in the store: the journal batch up to which all has been delivered. After
// a start, or when the bus has dropped something, each run that was written since is
// read, and delivered as [core.Orchestrator.Updates] and its Metrics have it.
//
// So each metrics and each update is delivered at least once. Only of a run that has begun
// more than [core.MaxPastAttempts] attempts since the watermark those of the first may be
// missing. What is delivered twice has the same UpdateID or RunID, and says the same.
func (s *Service) startFeeds(ctx context.Context, wg *sync.WaitGroup) {
	if s.o.Syncer != nil {
		f := &feed[core.JobRunUpdate]{s: s, name: "updates", action: "update", deliver: s.o.Syncer.Sync, rebuild: core.Orchestrator.Updates}
		wg.Go(func() { f.run(ctx) })
	}
	if s.o.Stats != nil {
		f := &feed[core.OrchestratorMetrics]{s: s, name: "metrics", action: "metrics", deliver: s.o.Stats.Collect, rebuild: metricsOf}
		wg.Go(func() { f.run(ctx) })
	}
}

// metricsOf gives the metrics of a run, if they have been announced.
func metricsOf(o core.Orchestrator) []core.OrchestratorMetrics {
	if !o.Reported {
		return nil
	}
	return []core.OrchestratorMetrics{o.Metrics}
}

// feed delivers what runs announce to one receiver.
type feed[T any] struct {
	s       *Service
	name    string // of the watermark
	action  string // of the announcements: "run:action"
	deliver func(context.Context, []T) error
	rebuild func(core.Orchestrator) []T

	sub     *shell.Subscription
	dropped uint64 // of the subscription, when the runs were last read
	batch   []T
	mark    uint64 // the watermark: all up to that journal batch has been delivered
}

func (f *feed[T]) run(ctx context.Context) {
	f.sub = f.s.e.Subscribe(func(ev effects.Event) bool {
		return ev.Kind.Category == "run" && ev.Kind.Action == f.action
	}, f.s.feedBuffer)
	defer f.sub.Close()
	if !f.retry(ctx, "read the watermark", f.readMark) || !f.catchUp(ctx) {
		return
	}
	for {
		caughtUp, ok := f.collect(ctx)
		if !ok {
			return
		}
		if f.sub.Dropped() != f.dropped {
			if !f.catchUp(ctx) {
				return
			}
		} else if caughtUp {
			f.advance(ctx)
		}
	}
}

// collect delivers announcements in batches until it is time for a watermark.
// caughtUp: it has delivered all that there were.
func (f *feed[T]) collect(ctx context.Context) (caughtUp, ok bool) {
	until, stop := f.s.o.Clock.Timer(feedMark)
	defer stop()
	var full <-chan time.Time // ends the wait for a batch to fill; nil while it is empty
	halt := func() {}
	defer func() { halt() }()
	for {
		select {
		case ev, open := <-f.sub.C:
			if !open {
				return false, false
			}
			if f.add(ev); full == nil {
				full, halt = f.s.o.Clock.Timer(feedDelay)
			}
			if len(f.batch) < feedBatch {
				continue
			}
		case <-full:
		case <-until:
			return true, f.flush(ctx)
		case <-ctx.Done():
			return false, false
		}
		halt()
		full = nil
		if !f.flush(ctx) {
			return false, false
		}
		if f.sub.Dropped() != f.dropped {
			return false, true
		}
	}
}

// add adds an announcement to the batch.
func (f *feed[T]) add(ev effects.Event) {
	var v T
	if err := json.Unmarshal(ev.Data, &v); err != nil { // the machine made it
		f.s.log.Error("could not decode an announcement", "event", ev.Kind.String(), "run", ev.Source.ID, "error", err)
		return
	}
	f.batch = append(f.batch, v)
}

// flush delivers the batch, and tries until it succeeds or ctx ends.
func (f *feed[T]) flush(ctx context.Context) bool {
	if len(f.batch) == 0 {
		return ctx.Err() == nil
	}
	ok := f.retry(ctx, "deliver", func(ctx context.Context) error { return f.deliver(ctx, f.batch) })
	f.batch = nil // the receiver may keep it
	return ok
}

// retry does a step until it succeeds; false if ctx has ended.
func (f *feed[T]) retry(ctx context.Context, step string, fn func(context.Context) error) bool {
	var wait backoff
	for {
		err := fn(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			return true
		case errors.Is(err, shell.ErrStopped):
			return false
		}
		f.s.log.Error("could not deliver what runs have announced; trying again", "feed", f.name, "step", step, "error", err)
		if !f.s.pause(ctx, wait.next()) {
			return false
		}
	}
}

// storeSeq is the journal batch that the store is at: all that was announced by then
// is in the subscription.
func (f *feed[T]) storeSeq(ctx context.Context) (seq uint64, err error) {
	err = f.s.e.Store().View(ctx, func(tx store.ReadTx) error {
		seq, err = tx.Seq()
		return err
	})
	if err != nil {
		return 0, err
	}
	// The loop answers after it has announced what it has committed. It does not matter
	// whether its last commit failed.
	if err := f.s.e.Health(ctx); errors.Is(err, shell.ErrStopped) {
		return 0, err
	}
	return seq, ctx.Err()
}

// advance moves the watermark to where the store is, once all of that is delivered.
func (f *feed[T]) advance(ctx context.Context) {
	seq, err := f.storeSeq(ctx)
	if err != nil || seq == f.mark {
		return
	}
	if f.drain(ctx) && f.sub.Dropped() == f.dropped {
		f.storeMark(ctx, seq)
	}
}

// drain delivers what is in the subscription now.
func (f *feed[T]) drain(ctx context.Context) bool {
	for range len(f.sub.C) {
		ev, open := <-f.sub.C
		if !open {
			return false
		}
		f.add(ev)
		if len(f.batch) >= feedBatch && !f.flush(ctx) {
			return false
		}
	}
	return f.flush(ctx)
}

// catchUp delivers each run that was written after the watermark.
func (f *feed[T]) catchUp(ctx context.Context) bool {
	for {
		dropped := f.sub.Dropped()
		if !f.drain(ctx) { // the older ones first
			return false
		}
		var seq uint64
		ok := f.retry(ctx, "read the runs", func(ctx context.Context) (err error) {
			if seq, err = f.storeSeq(ctx); err != nil {
				return err
			}
			return f.readWritten(ctx)
		})
		if !ok || !f.flush(ctx) {
			return false
		}
		f.dropped = dropped
		if f.sub.Dropped() == dropped {
			f.storeMark(ctx, seq) // what is left in the subscription came later, or was read too
			return true
		}
	}
}

// readWritten reads the runs that were written after the watermark, and delivers them.
func (f *feed[T]) readWritten(ctx context.Context) error {
	var from store.Cursor
	for more := true; more; {
		var found []core.Orchestrator
		err := f.s.e.Store().View(ctx, func(tx store.ReadTx) error {
			entries, err := tx.Scan(core.KindOrchestrator, core.TermAll, from, false, feedBatch)
			if err != nil {
				return err
			}
			more = len(entries) == feedBatch
			for _, c := range entries {
				if from = c; f.decode(tx, c, &found) != nil {
					f.s.log.Warn("could not read a run: it is not delivered", "feed", f.name, "run", c.ID)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, o := range found {
			f.batch = append(f.batch, f.rebuild(o)...)
		}
		if len(f.batch) >= feedBatch && !f.flush(ctx) {
			return ctx.Err()
		}
	}
	return nil
}

// decode adds the run to found if it was written after the watermark.
func (f *feed[T]) decode(tx store.ReadTx, c store.Cursor, found *[]core.Orchestrator) error {
	rec, err := tx.Get(core.KindOrchestrator, c.ID)
	if err != nil || rec.Seq <= f.mark {
		return err
	}
	st, err := core.DecodeState(core.KindOrchestrator, rec.State)
	if o, ok := st.(core.Orchestrator); ok && err == nil {
		*found = append(*found, o)
	}
	return err
}

// metaName is where the store keeps the watermark.
func (f *feed[T]) metaName() string { return feedMeta + f.name }

func (f *feed[T]) readMark(ctx context.Context) error {
	return f.s.e.Store().View(ctx, func(tx store.ReadTx) error {
		b, err := tx.Meta(f.metaName())
		if err != nil {
			return err
		}
		seq, err := tx.Seq()
		if err != nil {
			return err
		}
		if len(b) == 8 {
			f.mark = binary.BigEndian.Uint64(b)
		}
		if f.mark > seq { // of another store: all is delivered again
			f.mark = 0
		}
		return nil
	})
}

// storeMark stores the watermark. If that fails, more is delivered again later.
func (f *feed[T]) storeMark(ctx context.Context, seq uint64) {
	if seq == f.mark {
		return
	}
	err := f.s.e.Store().Update(ctx, func(tx store.Tx) error {
		return tx.SetMeta(f.metaName(), binary.BigEndian.AppendUint64(nil, seq))
	})
	if err != nil {
		if ctx.Err() == nil {
			f.s.log.Warn("could not store the watermark", "feed", f.name, "error", fmt.Errorf("set %s: %w", f.metaName(), err))
		}
		return
	}
	f.mark = seq
}

// WebhookFeed posts what becomes of runs to web servers: {"updates":[…]} as a
// [JobStateSyncer], {"metrics":[…]} as a [StatsCollector]. An answer that is no success
// has the batch come again. Redirects are not followed: the operator has named the
// servers, and nobody has named where a redirect leads. A URL may hold a secret: errors
// name its server alone.
type WebhookFeed struct {
	Updates, Metrics *url.URL                  // of web servers; nil: what goes there is not to be posted
	Signer           *standardwebhooks.Webhook // signs each batch (Standard Webhooks); nil: nobody does
	UserAgent        string
}

// webhookFeedTimeout bounds one delivery of a batch.
const webhookFeedTimeout = 30 * time.Second

// deliveryID derives the ids of deliveries from what is in them: after a crash a batch may
// come again with more in it, and is another one then.
var deliveryID = uuid.MustParse("5a9b6d2e-0f57-4c0b-9d4b-8f2f6d0c6a11")

// Sync implements [JobStateSyncer].
func (f *WebhookFeed) Sync(ctx context.Context, updates []core.JobRunUpdate) error {
	return f.post(ctx, f.Updates, map[string]any{"updates": updates})
}

// Collect implements [StatsCollector].
func (f *WebhookFeed) Collect(ctx context.Context, metrics []core.OrchestratorMetrics) error {
	return f.post(ctx, f.Metrics, map[string]any{"metrics": metrics})
}

// post sends one batch.
func (f *WebhookFeed) post(ctx context.Context, to *url.URL, batch any) error {
	body, err := plainjson.Marshal(batch)
	if err != nil {
		return fmt.Errorf("encode the batch: %w", err)
	}
	p := webhook.Post{
		Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		URL:    to, Header: webhook.NewHeader(map[string]string{"User-Agent": f.UserAgent}), Body: body,
		Timeout: webhookFeedTimeout, MaxAnswer: 64 << 10,
	}
	if err := webhook.Sign(p.Header, f.Signer, uuid.NewSHA1(deliveryID, body).String(), time.Now(), body); err != nil {
		return fmt.Errorf("sign the batch: %w", err)
	}
	answer, err := p.Do(ctx)
	if err != nil || answer.OK() {
		return err
	}
	return answer.Refused(to)
}
