package sim_test

// wrongAfterFailure are defects of what an engine puts back when a commit is not confirmed, of signs of life, and of recovery. The simulation finds each by
// commits that are not confirmed, by callers whom nobody answers, and by a fleet that is watched for a while once all has ended.
var wrongAfterFailure = map[string][]edit{
	"the results of a batch that is not confirmed are lost":             {{engineStaged, "l.outcomes = slices.Concat(s.outcomes, l.outcomes)", "_ = s.outcomes"}},
	"the requests of a batch that is not confirmed are lost":            {{engineStaged, "l.requests = slices.Concat(s.requests, l.requests)", "_ = s.requests"}},
	"nobody finds out what an unconfirmed batch has begun":              {{engineConfirm, "if !b.l.adrift {", "if true {"}},
	"the slots of a batch that is not confirmed are lost":               {{engineStaged, "\t\tl.vacate(launch.queue)\n", "\t\t_ = launch\n"}},
	"what runs counts as not begun after an unconfirmed batch":          {{engineConfirm, "begun[key] = true", "begun[key] = false"}},
	"the record cache has the version before":                           {{engineWrite, "version: w.Prev.Version + 1, seq", "version: w.Prev.Version, seq"}},
	"who has asked for what a commit that failed had is never answered": {{engineLoop, `r.answer(Reply{Err: fmt.Errorf("%s: %w", became, err)})`, "_, _ = r, fmt.Sprint(became)"}},
	"a batch after an unconfirmed one leaves half of the outcomes":      {{engineLoop, "l.flight != nil || l.adrift || ", "l.flight != nil || "}},
	"a sign of life of an owner is not stored":                          {{fleetRenew, "Cluster.Renew(limit, p.self, owned...)", "Cluster.Renew(limit, p.self)"}},
	"a sign of life of an instance is not stored":                       {{fleetRenew, "Cluster.Renew(limit, p.self, owned...)\n", "Cluster.Renew(limit, store.Instance{}, owned...)\n\t\tif *registered {\n\t\t\terr = nil\n\t\t}\n"}},
	"the claims of others are unseen":                                   {{engineRecover, `if c.Holder == "" || c.Name == b.l.claim {`, "if true {"}},
	"a drained instance counts as able":                                 {{fleetPlacing, "return i.Draining }", "return false }"}},
	"a drained instance gives nothing back":                             {{fleetPlacing, "if to == g.o.Name || !s.works()", "if to == g.o.Name || g.draining || !s.works()"}},
}
