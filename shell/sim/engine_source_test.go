package sim_test

// wrongEngine are more defects of the engine: of keys, slots, claims and of what failed.
var wrongEngine = map[string][]edit{
	"each part of a request has one key":                {{engineOnce, "return sha256.Sum256(binary.BigEndian.AppendUint32(b, n))", "return sha256.Sum256(binary.BigEndian.AppendUint32(b, 0))"}},
	"a part that was answered comes again":              {{engineOnce, "\t\to.part++\n\t\to.seen = o.seen || o.again", "\t\to.seen = o.seen || o.again"}},
	"answers are forgotten at once":                     {{engineOnce, "b.tx.DropAnswers(b.now.Add(-AnswersKept), answersAtOnce)", "b.tx.DropAnswers(b.now, answersAtOnce)"}},
	"an answer seems to be of long ago":                 {{engineOnce, "store.Answer{At: b.now, Body: body}", "store.Answer{At: 1, Body: body}"}},
	"a slot that is free is held":                       {{engineLanes, "\ts.running--\n\ts.lane.running--", "\ts.running--"}},
	"slots of a batch that failed stay reserved":        {{engineLanes, "\t\ts.lane.reserved -= s.reserved\n\t\ts.reserved = 0", "\t\ts.reserved = 0"}},
	"a lane has more slots than it has":                 {{engineLanes, "return own+others < limit &&", "return own+others <= limit &&"}},
	"what is asked for begins whoever has slots":        {{engineWrite, "!s.waits() && !b.waiting[s.queue] && s.mayTake(most) && !s.lane.canServe(most)", "most > 0"}},
	"more is begun than slots were given":               {{engineWrite, "entries, err := b.tx.Waiting(s.queue, slots)", "entries, err := b.tx.Waiting(s.queue, slots+1)"}},
	"what was decided on top of a failed batch is lost": {{engineStaged, "\t\tl.takeBack(onTop)\n", ""}},
	"a batch whose sync failed is let go":               {{engineStaged, "\tif err := s.durable(); err != nil {\n\t\tl.drop(err, s, nil)\n\t\treturn\n\t}\n", "\t_ = s.durable()\n"}},
	"a batch whose flight failed is let go":             {{engineStaged, "\tif err != nil {\n\t\tl.drop(err, f.stagedBatch, l.ahead)\n\t\treturn\n\t}\n", "\t_ = err\n"}},
	"two instances have one claim":                      {{engineClaim, "c.Holder != \"\" {\n\t\t\t\tcontinue", "c.Holder == \"nobody\" {\n\t\t\t\tcontinue"}},
	"the claim is never renewed":                        {{engineBatch, "if b.mono.Before(b.l.nextRenew) && b.l.lastErr == nil {", "if true {"}},
	"an answer of an effect is told to nobody":          {{engineBatch, "\tif _, err := b.apply(in); err != nil {\n\t\treturn b.broken", "\tif in.Ack%5 == 0 {\n\t\tif _, err := b.apply(in); err != nil {\n\t\t\treturn b.broken\n\t\t}\n\t} else if err := b.broken; err != nil {\n\t\treturn b.broken"}},
	"a sweep begins nothing that is due":                {{"shell/engine/batch_due.go", "for i, d := range entries {", "for i, d := range entries[:len(entries)/2] {"}},
	"the run of an action has the number before":        {{coreAction, "\ta.Run++\n\ta.Attempt++", "\ta.Attempt++"}},
	"a cancelled action is told as completed":           {{"core/action_cancel.go", "status := Status{Type: StatusCancelled, Reason: reason}\n\trunning", "status := Status{Type: StatusCompleted, Reason: reason}\n\trunning"}},
	"an execution answers twice":                        {{"shell/engine/execution.go", "\tmine := !x.answered\n\tx.answered = true", "\tmine := true\n\tx.answered = true"}},
	"what hangs is never left behind":                   {{"shell/engine/execution.go", "if mine {\n\t\terr := fmt", "if mine && false {\n\t\terr := fmt"}},
}
