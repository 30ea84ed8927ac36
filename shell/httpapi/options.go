// Package httpapi serves a [shell.Engine] over HTTP: actions (B6), recurring
// actions exactly as 002 section 4 (C7), the webhook ingress (B4), queues (003
// Queue), jobs and their runs (004), health, metrics (C10) and an OpenAPI document. It
// decides nothing about machines: it checks who asks and what is asked, hands
// events to the engine, and reads records.
//
// Every answer is JSON, every error {"error":"…"} with the status that says
// what to do about it. docs/http.md is the reference for its users.
package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Defaults and bounds of [Options].
const (
	DefaultMaxBodyBytes    = 1 << 20  // of a JSON body
	DefaultMaxWebhookBytes = 10 << 20 // of a webhook's body
	DefaultRequestTimeout  = 30 * time.Second
	maxBodyBytes           = 64 << 20

	DefaultMaxWebhookBytesInFlight = 32 << 20 // of all webhooks
	DefaultMaxBodyBytesInFlight    = 16 << 20 // of one token
	DefaultMaxRequestsPerToken     = 256
	DefaultMaxListsPerToken        = 8
	DefaultMaxStreamsPerToken      = 16
	maxCount                       = 1 << 20
)

// Options configure a [Server]. The zero value of each field but Engine is a
// sound default.
type Options struct {
	// Engine answers the requests. Required. It may be started later: until
	// then requests that change something wait, and /readyz says no.
	Engine *shell.Engine
	// Tokens are the bearer tokens that are accepted. Without any, everybody who
	// connects from loopback may do everything, and nobody else anything; listen
	// on an address that [CheckListen] accepts.
	Tokens []Token
	// Redact says what holders of read-only tokens do not see.
	Redact Redaction
	// Webhooks say for each route of the engine's Options.Webhooks how its
	// requests prove where they come from. A route that is not named here is
	// not served.
	Webhooks map[string]WebhookAuth
	// WebhookFilters say for routes of Webhooks which of their requests become actions. A route
	// that is not named here takes all.
	WebhookFilters map[string]WebhookFilter
	// MaxBodyBytes bounds the body of a request (default 1 MiB, at most 64 MiB).
	MaxBodyBytes int64
	// MaxWebhookBytes bounds the body of a webhook (default 10 MiB, at most
	// [core.MaxWebhookBytes]).
	MaxWebhookBytes int64
	// MaxWebhookBytesInFlight bounds what the bodies of all webhooks together hold in memory
	// until they are stored, each at least 4 KiB (default 32 MiB, at least MaxWebhookBytes
	// and 4 KiB); what is more is answered with 429. One address (of IPv6 the /64) fills
	// no more than a quarter of it, but always one body, before its signatures are
	// known to be right.
	MaxWebhookBytesInFlight int64
	// MaxConnections bounds the connections that are open at a time on the listeners that
	// [Server.Listener] has made; 0: no bound. Leave room below the limit of descriptors:
	// the store, tools and what they connect to need some.
	MaxConnections int
	// The tokens that are bound to one namespace and one tenant count as one token in the
	// bounds that follow.
	//
	// MaxBodyBytesInFlight bounds what the bodies of one token's requests hold in memory
	// at a time, and its large answers too (default 16 MiB, at least MaxBodyBytes); what
	// is more is answered with 429.
	MaxBodyBytesInFlight int64
	// MaxRequestsPerToken bounds the requests of one token that are under way at a time
	// (default 256), MaxListsPerToken those of them that are lists (default 8); what is
	// more is answered with 429.
	MaxRequestsPerToken, MaxListsPerToken int
	// MaxStreamsPerToken bounds for a token that is not an admin's the streams of events
	// that are open, the logs that it follows and those that it reads, each (default 16
	// of the 64 that there are in all).
	MaxStreamsPerToken int
	// RequestTimeout is how long a request may wait for the engine (default
	// 30 s); then it is answered with 503. A take may wait for items beside that; a
	// backup has no limit.
	RequestTimeout time.Duration
	// Logger gets errors, and at debug level one line for each request (default
	// slog.Default()).
	Logger *slog.Logger
	// Version is the program's version, shown by /v1/info and in the metrics.
	Version string
	// Ready adds a condition to /readyz: its error is shown as the reason, so it
	// must not hold secrets. Without one the engine and the store are asked, and it is called
	// again meanwhile, by another goroutine: who watches the store may know sooner that it does not answer.
	Ready func() error
	// Jobs checks jobs and reads the logs of their runs: a [jobs.Service]. Without it
	// jobs and runs are only shown, and what takes a runner is answered with 501.
	Jobs JobService
	// OpenRunners are the runners of jobs that every token may use; others take
	// [Token.Runners] or an admin. Name only runners that keep their pods from
	// everything else: not one of processes of this machine.
	OpenRunners []string
	// JobUses lists what a job's constraints and actions reach, for tokens that are not
	// an admin's: that of package constraints. Its error says what is wrong with
	// them. Without it such a token applies and triggers only jobs that have none.
	JobUses func(spec core.JobSpec) (jobs.Reach, error)
	// ParsePodSpec reads the pod spec of a job that is given as text, in YAML, and gives it as
	// a JSON object: that of package podspec. Its error names the field or the line. Without
	// it pod specs are JSON objects alone.
	ParsePodSpec func(text []byte) (json.RawMessage, error)
	// Audit is the log of requests: every change, every refusal. The caller closes it
	// once the server has ended. Nil: none, and /v1/audit is answered with 501.
	Audit *audit.Log
	// Notify has the channels by which people are told, which admins may test; nil: there are none.
	Notify Notifier
	// AuditReads writes reads that succeed to Audit too.
	AuditReads bool
	// Limits bound what tokens that are not an admin's may ask for (default: nothing is
	// bound).
	Limits Limits
	// Store names in GET /readyz, which takes no token, and in GET /v1/system what kind of store the records are in, such as "file" or "postgres"
	// (default: nothing is told of it).
	Store string
	// Settings gives the settings in force as text, without secrets, for admins (default: nothing is shown).
	Settings func() string
	// Cluster tells of the daemons on one database (default: it is this one's alone, and they are answered with 501).
	Cluster func(context.Context) (wire.Cluster, error)
	// Drain has an instance give its partitions to the others, or take part again; [store.ErrNotFound]: there is none of that name (default: nothing can be
	// given away, and it is answered with 501).
	Drain func(ctx context.Context, instance string, on bool) error
	// AcceptLoss has a partition go on that is stopped for that loss of commits; [store.ErrNotLost]: it is not (default: it is answered with 501).
	AcceptLoss func(ctx context.Context, partition int, stopped string) error
	// Rebalance has partitions be where they should be, and tells where they are (default: there is one, and it is answered with 501).
	Rebalance func(context.Context) ([]wire.ClusterPlace, error)
	// Placings tells where partitions are, and has none move: what keeps a partition only its owner knows, whom the [Router] of another process asks (default: it is not asked).
	Placings func(context.Context) ([]wire.ClusterPlace, error)
	// Metrics are the program's own, which are served with those of the API and the engine. Names that collide are an error.
	Metrics []prometheus.Collector
	// PageKey gives the key, of 32 bytes, that seals page tokens, and the sessions of the page. Servers and routers of several processes need the same, so that
	// a session that one has made is good with all. Nil: one that is made once and kept in the engine's store; of a router one of its own.
	PageKey func(context.Context) ([]byte, error)
	// Partitions is how many partitions there are, of which the engine has one (default 1): see [Router].
	Partitions int
	// Shared is what the server has in common with the others of its process, of which each has an engine: see [Router]. The bounds above
	// that are by process are those of the first one that is made with it. Nil: it has nothing in common with others.
	Shared *Shared
	// Clock tells when tokens expire and how long replayed webhooks are
	// remembered (default [shell.SystemClock]). The timestamps of Standard
	// Webhooks are always compared with the machine's clock.
	Clock shell.Clock
}

// Server is the HTTP API over one engine. It is safe for concurrent use, starts
// no goroutines and needs no closing.
type Server struct {
	o        Options
	log      *slog.Logger
	engine   *shell.Engine
	handler  http.Handler
	hooks    map[string]*webhook
	replays  *replayCache
	metrics  metrics
	registry *prometheus.Registry
	// What is in the registry: of the server, and of the process.
	collectors, ofProcess []prometheus.Collector
	backup                chan struct{} // holds one element while no backup runs
	underWay              underWay

	singles    map[string]route // by method and path
	locals     func() []*Server // of a router's: those of the partitions of this process; nil: it has an engine
	pageTokens pageTokens
	recent     recentEvents
	*shared
}

// New checks the options and builds the server. The error names every field
// that is wrong.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if o.Engine == nil {
		return nil, errors.New("httpapi: Options.Engine is nil: make one with shell.New")
	}
	if err != nil {
		return nil, err
	}
	s := &Server{
		o:      o,
		log:    o.Logger,
		engine: o.Engine,
		hooks:  make(map[string]*webhook, len(o.Webhooks)),
		backup: make(chan struct{}, 1),
	}
	s.backup <- struct{}{}
	s.pageTokens.asking = make(chan struct{}, 1)
	s.shared = s.share()
	s.replays = newReplayCache(o.Clock)
	var errs []error
	for _, route := range slices.Sorted(maps.Keys(o.Webhooks)) {
		s.hooks[route], err = newWebhook(route, o.Webhooks[route])
		errs = append(errs, err, s.hooks[route].setFilter(route, o.WebhookFilters[route]))
	}
	for _, route := range slices.Sorted(maps.Keys(o.WebhookFilters)) {
		if _, ok := o.Webhooks[route]; !ok {
			errs = append(errs, fmt.Errorf("httpapi: Options.WebhookFilters[%q]: Options.Webhooks has no such route", clip(route)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := s.initMetrics(); err != nil {
		return nil, err
	}
	s.handler = s.middleware(s.mux())
	return s, nil
}

func (o Options) withDefaults() (Options, error) {
	var errs []error
	size := func(name string, n *int64, def, most int64) {
		*n = cmp.Or(*n, def)
		if *n < 1 || *n > most {
			errs = append(errs, fmt.Errorf("httpapi: Options.%s is %d: it must be between 1 and %d bytes", name, *n, most))
		}
	}
	size("MaxBodyBytes", &o.MaxBodyBytes, DefaultMaxBodyBytes, maxBodyBytes)
	size("MaxWebhookBytes", &o.MaxWebhookBytes, DefaultMaxWebhookBytes, core.MaxWebhookBytes)
	o.MaxBodyBytesInFlight = cmp.Or(o.MaxBodyBytesInFlight, max(DefaultMaxBodyBytesInFlight, o.MaxBodyBytes))
	if o.MaxBodyBytesInFlight < o.MaxBodyBytes {
		errs = append(errs, fmt.Errorf("httpapi: Options.MaxBodyBytesInFlight is %d: it must be at least MaxBodyBytes, %d", o.MaxBodyBytesInFlight, o.MaxBodyBytes))
	}
	o.MaxWebhookBytesInFlight = cmp.Or(o.MaxWebhookBytesInFlight, max(DefaultMaxWebhookBytesInFlight, o.MaxWebhookBytes+minUnverified))
	if o.MaxWebhookBytesInFlight < o.MaxWebhookBytes+minUnverified {
		errs = append(errs, fmt.Errorf("httpapi: Options.MaxWebhookBytesInFlight is %d: it must be at least MaxWebhookBytes and %d, %d together",
			o.MaxWebhookBytesInFlight, minUnverified, o.MaxWebhookBytes+minUnverified))
	}
	if err := o.Redact.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("httpapi: Options.Redact: %w", err))
	}
	if o.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("httpapi: Options.MaxConnections is %d: it must not be negative; 0 means no bound", o.MaxConnections))
	}
	count := func(name string, n *int, def, most int) {
		*n = cmp.Or(*n, def)
		if *n < 1 || *n > most {
			errs = append(errs, fmt.Errorf("httpapi: Options.%s is %d: it must be between 1 and %d", name, *n, most))
		}
	}
	count("MaxRequestsPerToken", &o.MaxRequestsPerToken, DefaultMaxRequestsPerToken, maxCount)
	count("MaxListsPerToken", &o.MaxListsPerToken, DefaultMaxListsPerToken, maxCount)
	count("MaxStreamsPerToken", &o.MaxStreamsPerToken, DefaultMaxStreamsPerToken, maxStreams)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	if o.RequestTimeout < 0 {
		errs = append(errs, fmt.Errorf("httpapi: Options.RequestTimeout is %s: it must be positive", o.RequestTimeout))
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Clock == nil {
		o.Clock = shell.SystemClock{}
	}
	o.Tokens = slices.Clone(o.Tokens)
	errs = append(errs, checkTokens(o.Tokens)...)
	errs = append(errs, o.Limits.check()...)
	if o.Partitions = cmp.Or(o.Partitions, 1); o.Partitions < 1 || o.Partitions > core.MaxPartitions {
		errs = append(errs, fmt.Errorf("httpapi: Options.Partitions is %d: it must be between 1 and %d", o.Partitions, core.MaxPartitions))
	}
	return o, errors.Join(errs...)
}

// Handler serves the API. It relies on net/http for the time-outs of slow
// connections: see [Server.HTTPServer].
func (s *Server) Handler() http.Handler { return s.handler }

// Time-outs of [Server.HTTPServer]: a slow connection does not stay open for ever.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	writeTimeout      = 90 * time.Second
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 32 << 10
)

// HTTPServer gives an [http.Server] for the API with bounds on slow and large
// requests. The caller starts it and shuts it down.
func (s *Server) HTTPServer(addr string) *http.Server {
	return boundedServer(addr, s.handler, s.conns, s.log, s.o.RequestTimeout)
}

func boundedServer(addr string, h http.Handler, conns *conns, log *slog.Logger, requestTimeout time.Duration) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      max(writeTimeout, requestTimeout+maxTakeWait+30*time.Second),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(serverLog{log.Handler(), conns}, slog.LevelDebug),
		ConnState:         conns.state,
		ConnContext:       conns.into,
	}
}
