package sim_test

// wrongFleet are more defects of who has which partition.
var wrongFleet = map[string][]edit{
	"who has given a partition back has it for ever":  {{fleetGroup, "\tif s.last == t {\n\t\ts.busy = false", "\tif s.last == nil {\n\t\ts.busy = false"}},
	"a partition that is held is claimed again":       {{fleetGroup, "s.last, s.busy = &tenure{}, true", "s.last, s.busy = &tenure{}, false"}},
	"who has moved a partition takes it back":         {{fleetPlacing, "s.row.Session == s.mine && !s.moves() }", "s.row.Session == s.mine }"}},
	"who stands second waits for ever":                {{fleetPlacing, "time.Duration(rank)*g.o.Lease {", "time.Duration(rank)*1000*g.o.Lease {"}},
	"whoever sees a partition free takes it":          {{fleetPlacing, "s.overdue() < time.Duration(rank)*g.o.Lease {", "false {"}},
	"nothing is given back while others have come":    {{fleetPlacing, "now.Sub(g.since) < g.o.Lease {", "now.Sub(g.since) < 1000*g.o.Lease {"}},
	"everybody counts as able":                        {{fleetPlacing, "for _, i := range ableOf(live) {", "for _, i := range list {"}},
	"nobody else counts as able":                      {{fleetPlacing, "for _, i := range ableOf(live) {", "for _, i := range ableOf(live)[:min(1, len(live))] {"}},
	"signs of life of an instance do not count":       {{fleetRoster, "case !ok || last.beat != i.Beat:", "case !ok:"}},
	"an instance is not registered anew":              {{fleetRenew, "case !errors.Is(err, store.ErrFenced):\n\t\t\treturn err", "case true:\n\t\t\treturn err"}},
	"who leaves stays in the list":                    {{fleetRoster, "if err := p.o.Cluster.Leave(limit, p.self); err != nil {", "if err := error(nil); err != nil {"}},
	"the place is that of the least":                  {{"shell/fleet/place.go", "cmp.Compare(score(partition, b), score(partition, a))", "cmp.Compare(score(partition, a), score(partition, b))"}},
	"one's own partition is given back":               {{fleetPlacing, "if to == g.o.Name || !s.works()", "if !s.works()"}},
	"the store is not closed at the end of a term":    {{fleetAlone, "closed := st.Close()", "closed := error(nil)"}},
	"a partition that was lost is not claimed again":  {{fleetAlone, "case lost == nil:\n\t\treturn false", "default:\n\t\treturn false"}},
	"signs of life of a partition end with the first": {{fleetRenew, "all := slices.Clone(l.all)", "all := slices.Clone(l.all[:min(1, len(l.all))])"}},
}
