// Package forward lets any of several processes on one database answer any request: one that stands by ([fleet.Member]) passes it on to
// the one that works.
//
// A [Forwarder] passes on all that it is given. A [Front] is for programs that answer at one address whether they work or not: it gives requests to the
// program's own handler while that is set, and passes them on else.
//
//	member, err := fleet.New(fleet.Options{Cluster: cluster, Name: "a", Address: "http://10.0.0.7:7460"})
//	…
//	passes, err := forward.New(forward.Options{Member: member, Name: "a"})
//	…
//	front := forward.NewFront(passes)
//	go server.Serve(listener) // whose Handler is front
//	err = member.Run(ctx, func(ctx context.Context, t fleet.Term) error {
//		… // the engine, and the API on it
//		defer front.Own(api.Handler())()
//		return engine.Run(ctx)
//	})
//
// # What is sent again
//
// A request to the API that changes something is given an Idempotency-Key, unless it has one, and its body is kept. If the process that works dies before
// it has answered, or another one works meanwhile, the request is sent again to whoever works then, with the same key: what it changes is changed once. So are
// requests that only read. Requests whose receiver knows no keys, such as webhooks, bodies above [Options.MaxBody], and those of unknown length are sent
// once; where nobody knows what became of one, or of one attempt of several, the answer is 502. Where nothing was done it is 503 with Retry-After.
//
// # Whom the one that works trusts
//
// A request is passed on with its caller's rights, as it came. What its headers say of where it came from (Forwarded, X-Forwarded-For and others) is passed on
// only if it came from one of [Options.TrustedProxies], since the one that works takes this process for a proxy that it trusts. Whoever can write
// to the database can say where requests go.
package forward
