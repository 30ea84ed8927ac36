package sim_test

// wrongToo are more defects of the source: of the outbox, of keys, of handovers, of places and of the journal. One of the first fifteen seeds finds each.
var wrongToo = map[string][]edit{
	"what is withdrawn stays in the outbox":                     {{engineWrite, "for _, w := range b.fold.Withdrawn() {\n\t\tkey := effectKey(w.From, w.N)\n\t\tif err := b.tx", "for _, w := range b.fold.Withdrawn()[:0] {\n\t\tkey := effectKey(w.From, w.N)\n\t\tif err := b.tx"}},
	"what is handed out has another one's token":                {{engineWrite, "e.Holder, e.Token = b.l.claim, b.l.token", "e.Holder, e.Token = b.l.claim, b.l.token+1"}},
	"what has waited is begun and waits on":                     {{engineWrite, "\t\t\tb.handOut(&e, of)\n\t\t\terr = b.tx.PutOutbox(e)", "\t\t\tb.handOut(&e, of)"}},
	"slots that nobody needs are kept":                          {{engineWrite, "b.l.reserve(s, started-slots)", "b.l.reserve(s, 0)"}},
	"a key lasts a few seconds":                                 {{engineOnce, "a.At.Before(now.Add(-AnswersKept))", "a.At.Before(now.Add(-AnswersKept / 100))"}},
	"one key twice in a batch is carried out twice":             {{engineOnce, "ok && b.hasChanged(first) {", "ok && b.hasChanged(first) && false {"}},
	"a result that was reported is not told to its machine":     {{engineFormers, "for i, in := range inputs {", "for i, in := range inputs[:0] {"}},
	"signs of life of former owners do not count":               {{engineFormers, "is.Beat != s.Beat || f.looked.IsZero()", "f.looked.IsZero()"}},
	"what came of an effect after the handover is not reported": {{engineHandover, "if l.lost == nil && !o.of.dropped {", "if l.lost != nil && !o.of.dropped {"}},
	"one place is for another partition":                        {{fleetPlacing, "to := Place(n, g.able)", "to := Place(n+1, g.able)"}},
	"the journal has the number before":                         {{engineBatch, "core.NewEntry(seq+1, b.now, l.e.name)", "core.NewEntry(seq, b.now, l.e.name)"}},
	"the journal has another time than the batch":               {{engineBatch, "core.NewEntry(seq+1, b.now, l.e.name)", "core.NewEntry(seq+1, b.now+1000, l.e.name)"}},
	"the time of a batch goes back":                             {{engineBatch, "core.Clock{Now: b.now}, seq+1", "core.Clock{Now: b.now - 1000}, seq+1"}},
}
