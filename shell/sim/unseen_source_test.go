package sim_test

// unseen are defects that no run has shown so far, and why, where that is known: another thing mends the same later, or no rule speaks of it. Where a run shows one, it belongs to the lists of those
// that are found.
var unseen = map[string][]edit{
	"a batch is under way at a handover":                {{engineHandover, "l.lastErr != nil || l.flight != nil || len(l.running)", "l.lastErr != nil || len(l.running)"}, {engineStop, "\tif l.gives && len(l.requests) == 0 && len(l.outcomes) == 0 {\n\t\tl.settle()", "\tif l.gives && len(l.requests) == 0 && len(l.outcomes) == 0 {"}},
	"a fenced instance goes on with what it knew":       {{engineClaim, "\tl.cache.init()\n\tl.lastSeq = 0\n", ""}},                                        // the number of the last batch drops the cache
	"a former owner has nothing in hand":                {{engineHandover, "\tf.count()\n\tctx, cancel := l.briefly(h)", "\tctx, cancel := l.briefly(h)"}}, // its first report says what it has
	"a lapsed claim is taken back whole":                {{engineRecover, "return err == nil && e.Repeatable()", "return err == nil || e.Repeatable()"}},   // likewise
	"a partition that was lost is not claimed again":    {{fleetAlone, "case lost == nil:\n\t\treturn false", "default:\n\t\treturn false"}},
	"a share that waits is forgotten":                   {{engineWrite, "b.waiting[s.queue] = len(entries) == slots", "b.waiting[s.queue] = false"}},                                                                         // the next one that waits there has it found
	"a stop cancels nothing":                            {{engineStop, "\t\t\tl.cut(x)\n\t\t\tcut++", "\t\t\tcut++"}},                                                                                                        // likewise
	"an action that is cancelled and runs goes on":      {{"core/action_cancel.go", "return append(a.endCancelled(reason, c), effects.Withdraw{N: a.Run, Kill: e.Mode == CancelKill})", "return a.endCancelled(reason, c)"}}, // likewise
	"an answer is kept although nothing has changed":    {{engineOnce, "rep.Err != nil || !changed(r, rep)", "rep.Err != nil"}},                                                                                              // no request of the workload becomes possible later
	"an answer is kept without what it was":             {{engineOnce, "if k.Result, err = keepResult(rep.Result); err != nil {", "if k.Result, err = keepResult(core.Result{}); err != nil {"}},                             // likewise
	"an instance is not registered anew":                {{fleetRenew, "case !errors.Is(err, store.ErrFenced):\n\t\t\treturn err", "case true:\n\t\t\treturn err"}},                                                          // no two have one name
	"an interrupt is told, and its entry stays":         {{engineRecover, "Actor: \"recovery\", Event: ev, Ack: o.Key.N}); err != nil {", "Actor: \"recovery\", Event: ev}); err != nil {"}},
	"results that wait are lost by a handover":          {{engineHandover, "len(l.running) == 0 || len(l.outcomes) > 0 || len(l.requests) > 0", "len(l.running) == 0 || len(l.requests) > 0"}},
	"the cache has what was not stored":                 {{engineLoop, "\tl.cache.init()\n\tl.lastSeq = 0\n}", "}"}},                                                                                            // likewise
	"the note of who has told all stays":                {{engineHandover, "if err := f.h.Through.Depart(ctx, f.is.Partition, f.is.Session, f.is.Session); err != nil {", "if err := ctx.Err(); err != nil {"}}, // the owner takes it out after a lease
	"the second of two with one key gets nothing":       {{engineOnce, "b.replies[i] = b.replies[first]", "b.replies[i] = Reply{}"}},                                                                            // likewise
	"the state of an answer is that of now":             {{engineOnce, "k.Kind, k.State = keepState(rep.State)", "k.Kind, k.State = keepState(nil)"}},                                                           // no check looks at what a repeated answer says
	"the store is not closed at the end of a term":      {{fleetAlone, "closed := st.Close()", "closed := error(nil)"}},                                                                                         // whoever is to have it waits for a lease
	"what has ended within a batch is begun":            {{engineWrite, "if !core.Awaits(state, key.N) {", "if false {"}},                                                                                       // no tool is asked for and given up within one batch
	"what is cancelled before it is begun is begun":     {{"shell/engine/execution.go", "errors.Is(context.Cause(ctx), ErrStopping) {", "false {"}},                                                             // nothing happens between the two in the simulation
	"what is handed back has been an attempt":           {{coreAction, "\ta.Attempt--\n", ""}},
	"what is to stop runs on":                           {{"shell/engine/batch_stop.go", "\t\tb.stops = append(b.stops, key)\n", ""}}, // the time limit of its tool ends it
	"what is withdrawn runs on":                         {{engineWrite, "drop(effectKey(w.From, w.N), why)", "_ = why"}},              // likewise
	"what the lost one holds is another token's":        {{engineRecover, "case o.Token != h.token:", "case false:"}},
	"what waits and is to stop waits on":                {{"shell/engine/batch_stop.go", "case !e.Waiting():", "case !e.Waiting() || e.Waiting():"}}, // it gets its slot, and is told then
	"what waits as an engine begins is unseen":          {{engineClaim, "for _, name := range lanes {", "for _, name := range lanes[:0] {"}},         // whoever looks for the lost ones finds it, too
	"what was reported is lost by an unconfirmed batch": {{engineStaged, "l.formers.arrived = slices.Concat(s.arrived, l.formers.arrived)", "_ = s.arrived"}},
	"what was told of former owners is decided never":   {{engineFormers, "\tcase len(f.arrived) > 0:\n\t\treturn true", "\tcase len(f.arrived) > 0:\n\t\treturn false"}},   // the next batch, for whatever it is, decides it
	"when something is due next is forgotten":           {{"shell/engine/batch_due.go", "\tb.nextDue = at\n", "\tb.nextDue = 0\n\t_ = at\n"}},                               // the next tick finds it
	"who has moved a partition takes it back":           {{fleetPlacing, "s.row.Session == s.mine && !s.moves() }", "s.row.Session == s.mine }"}},                           // likewise
	"who is gone is not fenced":                         {{engineRecover, "if err := b.tx.Fence(c.Name); err != nil {", "if err := error(nil); err != nil {"}},              // its machines are told all the same, and a result has the number of its run
	"who leaves stays in the list":                      {{fleetRoster, "if err := p.o.Cluster.Leave(limit, p.self); err != nil {", "if err := limit.Err(); err != nil {"}}, // it counts as gone after a lease
	"who stands second waits for ever":                  {{fleetPlacing, "time.Duration(rank)*g.o.Lease {", "time.Duration(rank)*1000*g.o.Lease {"}},                        // who stands first comes back, or the list is shorter soon
	"whoever is seen is gone":                           {{engineRecover, "if lapses, gone := b.silence(c); gone > 0 &&", "if lapses, gone := b.silence(c); gone < 0 &&"}},  // nothing says of a store that all use whether a claim was taken back too early
	"whoever sees a partition free takes it":            {{fleetPlacing, "s.overdue() < time.Duration(rank)*g.o.Lease {", "false {"}},                                       // it moves on later
}
