package sim_test

const (
	engineConfirm = "shell/engine/batch_confirm.go"
	engineClaim   = "shell/engine/claim.go"
	engineOnce    = "shell/engine/once.go"
	engineLanes   = "shell/engine/lanes.go"
	engineStop    = "shell/engine/stop.go"
	fleetAlone    = "shell/fleet/fleet.go"
	fleetRoster   = "shell/fleet/roster.go"
	fleetSilence  = "shell/fleet/silence.go"
)

// wrongWithFormers are defects of what becomes of runs whose partition has moved or whose process is gone, and of who counts as gone.
var wrongWithFormers = map[string][]edit{
	"a former owner counts as gone at once":              {{engineFormers, "silent >= lease && !f.gone[is.Session]", "silent >= 0 && !f.gone[is.Session]"}},
	"a former owner counts as gone after half a lease":   {{engineFormers, "silent >= lease && !f.gone[is.Session]", "silent >= lease/2 && !f.gone[is.Session]"}},
	"an outage counts as silence of a former owner":      {{engineFormers, "is.Beat != s.Beat || f.looked.IsZero() || a.began.Sub(f.looked) >= lease/2 {", "is.Beat != s.Beat {"}},
	"an owner counts as gone at once":                    {{fleetAlone, "silent >= m.o.Lease\n", "silent >= 0\n"}},
	"an owner counts as gone after half a lease":         {{fleetAlone, "silent >= m.o.Lease\n", "silent >= m.o.Lease/2\n"}},
	"an owner of a partition counts as gone at once":     {{fleetPlacing, "s.silent >= s.o.Lease)", "true)"}, {fleetPlacing, "return s.silent - s.o.Lease", "return s.silent"}},
	"an owner of a partition counts as gone after half":  {{fleetPlacing, "s.silent >= s.o.Lease)", "s.silent >= s.o.Lease/2)"}, {fleetPlacing, "return s.silent - s.o.Lease", "return s.silent - s.o.Lease/2"}},
	"an outage counts as silence of an owner":            {{fleetSilence, "s.looked.IsZero() || sign || began.Sub(s.looked) >= s.lease/2", "sign"}},
	"an owner is taken for gone by its first look":       {{fleetSilence, "s.since = ended", "s.since = began.Add(-s.lease)"}},
	"what waits of other processes is unseen":            {{engineRecover, "for _, name := range lanes {\n\t\tb.waiting", "for _, name := range lanes[:0] {\n\t\tb.waiting"}},
	"what waits of others is unseen, whenever":           {{engineRecover, "for _, name := range lanes {\n\t\tb.waiting", "for _, name := range lanes[:0] {\n\t\tb.waiting"}, {engineClaim, "for _, name := range lanes {", "for _, name := range lanes[:0] {"}},
	"an outcome that is not decided counts as not begun": {{engineConfirm, "begun[o.of.key] = true", "_ = o"}},
	"a report that fails is forgotten":                   {{engineHandover, "\t\tif f.tried++; f.tried == 1 {", "\t\tf.owed = f.owed[n:]\n\t\tif f.tried++; f.tried == 1 {"}},
	"of several results one is reported":                 {{engineHandover, "f.owed = append(f.owed, store.", "f.owed = append(f.owed[:0], store."}},
	"what was reported is deleted before it is decided":  {{engineFormers, "f.arrived = append(f.arrived, r)", "f.taken = append(f.taken, r)"}},
	"what was reported is never deleted":                 {{engineFormers, "f.taken = append(f.taken, b.arrived...)", "_ = b.arrived"}},
	"a deletion of reports that fails is forgotten":      {{engineFormers, "f.taken = append(a.taken, f.taken...)", "_ = a.taken"}},
	"the note of who is gone stays":                      {{engineFormers, "q.departs = append(q.departs, session)", "_ = session"}},
	"results of former owners are told to nobody's run":  {{engineFormers, "case !b.holder(claims, r.Session, o):", "case b.holder(claims, r.Session, o):"}},
	"former owners are asked once":                       {{engineFormers, "f.next = f.l.now().Add(h.every())", "f.next = f.l.now().Add(1000 * h.Lease)"}},
}
