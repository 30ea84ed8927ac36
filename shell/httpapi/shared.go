package httpapi

import "sync"

// Shared is what the servers of one process have in common, of which each has an engine of its own, and the [Router] before them: the
// tokens, and what is counted by process and not by engine, which are rates, requests under way, streams, connections, and who tries
// tokens. The zero value is good for use; it takes its bounds from the options of the first one that is made with it.
// What is set by [Server.SetTokens] on one of them holds for all.
type Shared struct {
	once sync.Once
	of   *shared
}

type shared struct {
	streams slots // of events, that are open
	live    slots // of pages that show changes
	tails   slots // of logs, that are followed
	reads   slots // of logs, that are not
	audits  slots // of the log of requests, that is read

	tokens     tokens
	pageReads  chan struct{} // holds one element for each chunk of a list that is being read
	rates      rates
	unverified share   // bytes of bodies whose signature is not checked yet, or that are being stored
	senders    senders // addresses that send bodies whose signature is not checked yet
	guesses    guesses // addresses whose requests were refused with 401
	conns      *conns
	parts      parts
}

// share gives what a server has in common with others, or what it has for itself.
func (s *Server) share() *shared {
	in := s.o.Shared
	if in == nil {
		in = new(Shared)
	}
	in.once.Do(func() {
		in.of = &shared{pageReads: make(chan struct{}, maxPageReads)}
		s.shared = in.of
		s.initInFlight()
		s.unverified.most = s.o.MaxWebhookBytesInFlight
		s.senders.most = max(s.o.MaxWebhookBytesInFlight/addressPart, s.o.MaxWebhookBytes+minUnverified)
		s.conns = newConns(s.o.MaxConnections, s.o.Logger, s.o.Clock)
	})
	return in.of
}
