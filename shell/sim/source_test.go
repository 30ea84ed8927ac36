package sim_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/brokentest"
	"github.com/orrery-go/orrery/shell/sim"
)

// edit breaks a file of the repository: what stands in it once is replaced.
type edit struct{ File, Is, Becomes string }

const (
	engineBatch    = "shell/engine/batch.go"
	engineWrite    = "shell/engine/batch_write.go"
	engineRecover  = "shell/engine/batch_recover.go"
	engineStaged   = "shell/engine/staged.go"
	engineOutbox   = "shell/engine/outbox.go"
	engineLoop     = "shell/engine/loop.go"
	engineFormers  = "shell/engine/formers.go"
	engineHandover = "shell/engine/handover.go"
	coreAction     = "core/action.go"
	fleetGroup     = "shell/fleet/group.go"
	fleetPlacing   = "shell/fleet/placing.go"
	fleetRenew     = "shell/fleet/renew.go"
)

// What keeps an owner out that was replaced, each by itself. Where the claim or the version goes alone, what it keeps out another one does.
var (
	noFence = []edit{
		{"shell/sim/database.go", "case h.stale():", "case false:"}, // who was replaced reads and writes on
	}
	noClaim = []edit{ // what an instance that counts as gone decides is taken
		{engineBatch, "CheckClaim(l.claim, l.token); err != nil", "CheckClaim(l.claim, l.token); false"},
		{engineBatch, "b.l.e.o.LeaseTTL, b.now); err != nil", "b.l.e.o.LeaseTTL, b.now); false"},
	}
	noNumber = []edit{ // nobody notices that another one wrote
		{engineBatch, "if seq != l.lastSeq {", "if l.lastSeq == 0 {"},
	}
	noVersion = []edit{ // what was written meanwhile is written over
		{"store/memory/write.go", "if old.Version != w.Prev.Version {", "if false {"},
		{"store/memory/write.go", "if err := checkPrev(old, w.Prev); err != nil {", "if err := checkPrev(old, w.Prev); false {"},
	}
	oldCache = []edit{ // what is remembered of some batches is what was before them
		{engineWrite, "\t\tl.remember(b)\n", "\t\tif b.entry.Seq%3 != 0 {\n\t\t\tl.remember(b)\n\t\t}\n"},
	}
	noRun = []edit{ // a result counts, whichever run it is of
		{coreAction, "a.Status.Type == StatusRunning && run == a.Run", "a.Status.Type == StatusRunning"},
	}
)

// guarded are defects that no run shows alone, by design.
var guarded = map[string][]edit{
	"no claim is looked at":                          noClaim,
	"no version is looked at":                        noVersion,
	"what runs goes on after a claim was taken over": {{"shell/engine/claim.go", "\tl.dropAll()\n\tl.cache.init()", "\tl.cache.init()"}},
	"a result is told twice":                         {{engineBatch, "for _, o := range b.l.outcomes {", "for _, o := range slices.Concat(b.l.outcomes, b.l.outcomes) {"}},
}

// wrong are defects of the source, each of which the simulation finds.
var wrong = map[string][]edit{
	"who was replaced reads and writes on":                    noFence,
	"nobody notices that another one wrote":                   noNumber,
	"nothing keeps out an owner that was replaced":            slices.Concat(noFence, noClaim, noNumber, noVersion),
	"neither fence nor claim, and a result of any run counts": slices.Concat(noFence, noClaim, noRun),
	"neither fence nor number nor version":                    slices.Concat(noFence, noNumber, noVersion),
	"a staged commit is written although another one owns the store": {
		{"shell/sim/staging.go", "if err := s.usable(); err != nil || n <= s.upTo {", "if err := error(nil); n <= s.upTo {"},
	},
	"what a former owner runs is taken from it":        {{engineFormers, "return f.seen[c.Session] != nil && !f.gone[c.Session]", "return false"}},
	"what was read first is what there is":             {{engineFormers, "f.l, f.known = l, l.e.o.Handover == nil\n\tif f.known {", "f.l, f.known = l, true\n\tif l.e.o.Handover == nil {"}, {engineFormers, "\tif !f.known {\n\t\tf.next = now", "\tif f.told != nil {\n\t\tf.next = now"}},
	"a former owner departs before it has told all":    {{engineHandover, "if len(l.running) == 0 && len(f.owed) == 0 {", "if len(l.running) == 0 {"}},
	"what former owners report is deleted unread":      {{engineFormers, "for _, r := range b.l.formers.arrived {", "for _, r := range b.l.formers.arrived[:0] {"}},
	"nobody takes over from who is silent":             {{fleetAlone, "row.Session == mine || silent >= m.o.Lease", "row.Session == mine || silent < 0"}},
	"nobody takes a partition over from who is silent": {{fleetPlacing, "s.left() || s.silent >= s.o.Lease)", "s.left())"}},
	"a partition stays where it is":                    {{fleetPlacing, "if to == g.o.Name || !s.works()", "if true || !s.works()"}},
	"the work on what is to move goes on":              {{fleetGroup, "\tt.end(ErrMoved)\n", "\ts.o.Scheduler.Add(-1)\n"}},
	"a move that nobody has taken up is waited for":    {{fleetPlacing, "again := m.works()", "again := false"}},
	"an instance that is gone has its place":           {{fleetRoster, "Alive: silent < p.o.Lease", "Alive: true"}},
	"what was taken in place of another one is kept":   {{fleetPlacing, "now.Add(kept * g.o.Lease)", "now.Add(1000 * kept * g.o.Lease)"}},
	"what a tool gave is not told":                     {{engineBatch, "for _, o := range b.l.outcomes {", "for _, o := range b.l.outcomes[:0] {"}},
	"what was answered stays in the outbox":            {{engineBatch, "\terr := b.tx.DeleteOutbox(key)\n\tif err == nil {", "\terr := error(nil)\n\tif err == nil {"}},
	"a key is not looked up":                           {{engineBatch, "rep; before {", "rep; before && false {"}},
	"an answer is not kept":                            {{engineWrite, "if err := b.keepAnswer(r, b.replies[i]); err != nil {", "if err := error(nil); err != nil {"}},
	"the journal lacks some inputs":                    {{engineBatch, "if res.Changed {\n\t\tb.entry.Inputs", "if res.Changed && len(b.entry.Inputs)%4 < 3 {\n\t\tb.entry.Inputs"}},
	"the journal has what was refused":                 {{engineBatch, "if res.Changed {\n\t\tb.entry.Inputs", "if true {\n\t\tb.entry.Inputs"}},
	"the cache keeps what was changed":                 oldCache,
	"nothing is begun":                                 {{engineWrite, "for _, launch := range b.launches {", "for _, launch := range b.launches[:0] {"}},
	"what is handed out is begun before it is stored": {
		{engineWrite, "\tl.adrift = false\n", "\tl.adrift = false\n\tfor _, launch := range b.launches {\n\t\tl.e.stats.running.Add(1)\n\t\tl.start(launch)\n\t}\n\tb.launches = nil\n"},
	},
	"a request is answered before it is stored": {
		{engineLoop, "\t\ts.durable, s.nothing = durable, nothing\n", "\t\ts.durable, s.nothing = durable, nothing\n\t\tfor i, r := range s.requests {\n\t\t\tr.answer(b.replies[i])\n\t\t}\n\t\ts.requests = nil\n"},
	},
	"a request is answered well although its commit failed": {{engineLoop, `r.answer(Reply{Err: fmt.Errorf("%s: %w", became, err)})`, "_ = fmt.Sprint(became)\n\t\tr.answer(Reply{})"}},
	"what waits for a slot never gets one":                  {{engineWrite, "if b.l.stopping || b.l.paused {\n\t\treturn nil\n\t}\n\tnames", "if true {\n\t\treturn nil\n\t}\n\tnames"}},
	"slots are not given back":                              {{engineOutbox, "\tl.vacate(x.queue)\n\tl.e.stats", "\tl.e.stats"}},
	"what the lost one had in hand is not taken back":       {{engineRecover, "for i, in := range inputs {", "for i, in := range inputs[:0] {"}},
	"a batch is decided on top of two":                      {{engineStaged, "return l.flight != nil && (l.ahead != nil || l.adrift || l.lastErr != nil)", "return false"}},
	"the batch behind the sync is forgotten":                {{engineStaged, "\tif l.ahead != nil {\n\t\tl.takeOff(l.ahead)\n\t}\n", "\tl.ahead = nil\n"}},
	"an attempt is carried out twice":                       {{"shell/engine/execution.go", "\t\terr := x.attempt()\n", "\t\t_, _ = x.p.Call(x.ctx)\n\t\terr := x.attempt()\n"}},
	"one attempt more than the policy has":                  {{"core/action_retry.go", "a.Attempt >= a.Policy.MaxAttempts || e.Permanent", "a.Attempt > a.Policy.MaxAttempts || e.Permanent"}},
	"what was interrupted is retried always":                {{coreAction, "a.Policy.OnInterrupt != InterruptRetry || a.Attempt >= a.Policy.MaxAttempts {", "false {"}},
	"what was interrupted is never ended":                   {{coreAction, "\t\teffs := a.finish(Status{Type: StatusFailed, Reason: reason}, c)\n\t\tif a.Policy", "\t\teffs := []effects.Effect(nil)\n\t\tif a.Policy"}},
	"a lock's token starts anew":                            {{"core/lock.go", "\t\tToken: l.Token, CreatedAt", "\t\tToken: l.Token % 2, CreatedAt"}},
}

const (
	withinSeeds    = 300
	withinHandings = 700 // for what is told between the owners of a partition, which is seldom
)

// TestSeedsOfABrokenSource is run by the tests below, in a copy.
func TestSeedsOfABrokenSource(t *testing.T) {
	brokentest.Inside(t)
	for seed := uint64(1); seed <= withinSeeds; seed++ {
		o := options(seed)
		o.Losses, o.MaxSteps = false, 3000
		switch {
		case o.Partitions > 0:
			o.MaxSteps = 20_000
		case o.Fleet:
			o.MaxSteps = 15_000
		}
		rep, err := sim.Run(seed, o)
		require.NoError(t, err, "seed %d", seed)
		require.False(t, rep.Failed(), "%s", rep)
		rep, err = sim.Run(seed, stopping(seed))
		require.NoError(t, err, "seed %d", seed)
		require.False(t, rep.Failed(), "stopping: %s", rep)
		if seed%3 == 0 {
			o = handing(seed)
			o.MaxSteps = 15_000
			rep, err = sim.Run(seed, o)
			require.NoError(t, err, "seed %d", seed)
			require.False(t, rep.Failed(), "handing over: %s", rep)
		}
	}
	for seed := uint64(1); seed <= withinHandings; seed++ {
		o := handing(seed)
		o.MaxSteps = 15_000
		rep, err := sim.Run(seed, o)
		require.NoError(t, err, "seed %d", seed)
		require.False(t, rep.Failed(), "handing over: %s", rep)
	}
}

// all gives the defects that are found, of all lists.
func all() map[string][]edit {
	list := map[string][]edit{}
	for _, some := range []map[string][]edit{wrong, wrongToo, wrongAfterFailure, wrongWithFormers, wrongFleet, wrongEngine} {
		maps.Copy(list, some)
	}
	return list
}

func TestWhatIsWrongInTheSourceIsFound(t *testing.T) {
	list := all()
	names := brokentest.Few(t, list, "nothing keeps out an owner that was replaced", "what is handed out is begun before it is stored", "a partition stays where it is",
		"a former owner counts as gone at once", "an owner of a partition counts as gone at once", "what waits of others is unseen, whenever", "an outcome that is not decided counts as not begun",
		"what was reported is deleted before it is decided")
	broken := brokentest.Build(t, list)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			found := broken.Found(t, name, "TestSeedsOfABrokenSource")
			assert.NotEmpty(t, found, "it is not found within %d seeds", withinSeeds)
			t.Log(found)
		})
	}
}

func TestWhatAnotherThingGuardsIsNotSeen(t *testing.T) {
	list := maps.Clone(guarded)
	maps.Copy(list, unseen)
	names := brokentest.Few(t, list)
	broken := brokentest.Build(t, list)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, broken.Found(t, name, "TestSeedsOfABrokenSource"), "then it is a defect that is found: put it there")
		})
	}
}
