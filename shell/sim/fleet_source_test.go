package sim_test

// wrongFleet are more defects of who has which partition.
var wrongFleet = map[string][]edit{
	"who has given a partition back has it for ever":  {{fleetGroup, "\tif s.last == t {\n\t\ts.busy = false", "\tif s.last == nil {\n\t\ts.busy = false"}},
	"a partition that is held is claimed again":       {{fleetGroup, "s.last, s.busy = &tenure{}, true", "s.last, s.busy = &tenure{}, false"}},
	"nothing is given back while others have come":    {{fleetPlacing, "now.Sub(g.since) < g.o.Lease {", "now.Sub(g.since) < 1000*g.o.Lease {"}},
	"everybody counts as able":                        {{fleetPlacing, "for _, i := range ableOf(live) {", "for _, i := range list {"}},
	"nobody else counts as able":                      {{fleetPlacing, "for _, i := range ableOf(live) {", "for _, i := range ableOf(live)[:min(1, len(live))] {"}},
	"signs of life of an instance do not count":       {{fleetRoster, "case !ok || last.beat != i.Beat:", "case !ok:"}},
	"one's own partition is given back":               {{fleetPlacing, "if to == g.o.Name || !s.works()", "if !s.works()"}},
	"signs of life of a partition end with the first": {{fleetRenew, "all := slices.Clone(l.all)", "all := slices.Clone(l.all[:min(1, len(l.all))])"}},
}
