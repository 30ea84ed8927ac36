package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/coreversion"
)

// instancesEvery is after how many seconds the pages of the cluster are loaded again: no machine announces that a daemon has gone silent.
const instancesEvery = 5

const drainAPI = "/v1/cluster/drain"

func instanceViews() []viewRoute {
	return []viewRoute{
		{"/instances", "/instances", (*visit).instances},
		{"/instances/{name}", "/instances", (*visit).instance},
	}
}

// A roster is what the API tells of the daemons on one database, with what follows from it.
type roster struct {
	wire.Cluster
	owns map[string]int // the number of partitions by their owners
	runs map[string]int // the number of runs that former owners go on with
	able string         // what the instance that answers is able to do
	core int            // the version of the core that an instance must have to take partitions
}

func (q *visit) loadRoster() (roster, error) {
	r := roster{owns: make(map[string]int), runs: make(map[string]int)}
	if err := q.get("/cluster", nil, &r.Cluster); err != nil {
		return r, err
	}
	for _, p := range r.Partitions {
		if p.Owner != "" {
			r.owns[p.Owner]++
		}
		for _, f := range p.FormerOwners {
			r.runs[f.Instance] += f.Running
		}
	}
	var versions []string
	for _, i := range r.Instances {
		if i.Name == r.Instance {
			r.able = i.Able
		}
		if i.Alive && !i.Draining {
			versions = append(versions, i.Core)
		}
	}
	r.core = coreversion.Counts(versions)
	return r, nil
}

// takes reports whether an instance takes partitions: it is alive, does not drain, and its core is the one that counts.
func (r roster) takes(i wire.ClusterInstance) bool {
	return i.Alive && !i.Draining && coreversion.Number(i.Core) == r.core
}

// instances shows the daemons on one database, and which of them works on which partition.
func (q *visit) instances() (view, error) {
	r, err := q.loadRoster()
	if err != nil {
		return view{}, err
	}
	v := view{Title: "Instances", Every: instancesEvery}
	v.Body = append(append(v.Body, r.notices()...), q.stoppedTable(r)...)
	v.Body = append(v.Body, block{Facts: facts(
		fact{"Database", codeOf(r.Database)}, fact{"This page was answered by", codeOf(r.Instance).to(q.page(pathOf("instances", r.Instance)))}, fact{"Partitions", number(len(r.Partitions))},
	)})
	t := &table{
		Caption: "Instances", Head: []string{"Instance", "State", "Partitions", "Runs left", "Address", "Version", "Rules of the core", "Silent for", "Abilities"},
		Empty: "No daemon is on the database.",
	}
	for _, i := range r.Instances {
		t.Rows = append(t.Rows, []cell{
			codeOf(i.Name).to(q.page(pathOf("instances", i.Name))).wide(), r.stateOf(i), number(r.owns[i.Name]), number(r.runs[i.Name]), codeOf(i.Address), textOf(i.Version), textOf(i.Core),
			textOf(seconds(i.SilentSeconds)), r.abilities(i),
		})
	}
	daemons := block{Title: "Daemons on the database", Note: runsLeftNote, Table: t}
	if r.able != "" {
		daemons.Note += " " + abilitiesNote
	}
	return withBlocks(v, daemons,
		block{Title: "Partitions", ID: "partitions", Note: "Each tenant lives in one partition, on which one daemon at a time works.", Table: q.partitionTable(r, r.Partitions)}), nil
}

// notices say what needs a look: partitions that were stopped, and those without an owner, as for a moment while one moves.
func (r roster) notices() (out []block) {
	stopped, free := 0, 0
	for _, p := range r.Partitions {
		switch {
		case p.Stopped != "":
			stopped++
		case p.Owner == "":
			free++
		}
	}
	of := " of " + strconv.Itoa(len(r.Partitions)) + " partitions: "
	if stopped > 0 {
		out = append(out, whyNotice("Nobody may work on "+strconv.Itoa(stopped)+of+"requests about their tenants are answered with 503, and nothing of them fires. The table of stopped partitions has the reasons.", toneBad)...)
	}
	if free > 0 {
		out = append(out, whyNotice("Nobody works on "+strconv.Itoa(free)+of+"for less than a second while they move, and for a lease after their owner was lost. Requests about their tenants wait.", toneWait)...)
	}
	return out
}

// stateOf says what an instance does.
func (r roster) stateOf(i wire.ClusterInstance) cell {
	owns := r.owns[i.Name]
	switch {
	case !i.Alive:
		return state("silent", toneBad)
	case i.Draining && owns > 0:
		return state("gives its partitions away", toneWait)
	case i.Draining:
		return state("drained", toneOff)
	case owns > 0:
		return badge("works")
	case !r.takes(i):
		c := state("takes no partition", toneWait)
		c.Hint = "The rules of its core are " + i.Core + ", and half of the daemons or more have " + strconv.Itoa(r.core) + "."
		return c
	}
	return state("stands by", toneOff)
}

const runsLeftNote = "Runs left are those of tools that a daemon goes on with in partitions that it has given back since it began them."

const abilitiesNote = "Abilities are a hash of the names of tools, webhook routes, runners and channels. Where they differ from those of the daemon that answered, the two cannot carry out the same."

// abilities compares what an instance is able to do with what the one that answers is: the hashes say that they differ, and not in what.
func (r roster) abilities(i wire.ClusterInstance) cell {
	if i.Able == "" {
		return cell{}
	}
	c := codeOf(i.Able)
	if i.Able != r.able && r.able != "" {
		c.More = append(c.More, state("differ", toneWait))
	}
	return c
}

// partitionTable shows who works on what.
func (q *visit) partitionTable(r roster, all []wire.ClusterPartition) *table {
	t := &table{
		Caption: "Partitions", Head: []string{"Partition", "State", "Owner", "Address", "Fencing token", "Last commit", "To read at a takeover", "Runs left with"},
		Empty: "It works on no partition.",
	}
	for _, p := range all {
		var owner, address cell
		if p.Owner != "" {
			owner, address = codeOf(p.Owner).to(q.page(pathOf("instances", p.Owner))), codeOf(p.Address)
		}
		t.Rows = append(t.Rows, []cell{number(p.Number), r.partitionState(p), owner.wide(), address, number(p.Token), number(p.Commit), number(p.Behind), q.runsLeft(p)})
	}
	return t
}

// runsLeft says which daemons go on with runs of tools in a partition that they have given back, and with how many.
func (q *visit) runsLeft(p wire.ClusterPartition) (all cell) {
	for n, f := range p.FormerOwners {
		c := textOf(f.Instance + ": " + strconv.Itoa(f.Running)).to(q.page(pathOf("instances", f.Instance)))
		if n == 0 {
			all = c
		} else {
			all.More = append(all.More, c)
		}
	}
	return all
}

func (r roster) partitionState(p wire.ClusterPartition) cell {
	switch {
	case p.Stopped != "":
		return state("stopped", toneBad) // the table of stopped partitions says why
	case p.Owner == "":
		return state("nobody works on it", toneWait)
	case r.silent(p.Owner):
		return state("its owner is silent", toneBad)
	}
	return badge("works")
}

// silent reports whether an owner gives no sign of life: another daemon takes its partition over.
func (r roster) silent(owner string) bool {
	return !slices.ContainsFunc(r.Instances, func(i wire.ClusterInstance) bool { return i.Name == owner && i.Alive })
}

// loadInstance gives the instance whose name is in the address.
func (q *visit) loadInstance() (roster, wire.ClusterInstance, error) {
	r, err := q.loadRoster()
	if err != nil {
		return r, wire.ClusterInstance{}, err
	}
	name := q.PathValue("name")
	at := slices.IndexFunc(r.Instances, func(i wire.ClusterInstance) bool { return i.Name == name })
	if at < 0 {
		return r, wire.ClusterInstance{}, &apiError{Status: http.StatusNotFound, Text: "no daemon of the name " + strconv.Quote(clip(name, 100)) + " is on the database: a daemon that ends leaves the list"}
	}
	return r, r.Instances[at], nil
}

// partitionsOf gives the partitions on which an instance works.
func (r roster) partitionsOf(name string) (out []wire.ClusterPartition) {
	for _, p := range r.Partitions {
		if p.Owner == name {
			out = append(out, p)
		}
	}
	return out
}

// instance shows one daemon, with the acts on it.
func (q *visit) instance() (view, error) {
	r, i, err := q.loadInstance()
	if err != nil {
		return view{}, err
	}
	s := r.stateOf(i)
	v := view{Kind: "Instance", Title: i.Name, State: &s, Every: instancesEvery, Crumbs: []link{{Text: "Instances", Href: q.page("/instances")}}}
	switch {
	case !q.p.o.API.CanDrain():
	case i.Draining:
		v.Acts = q.actLinks("/instances/{name}", "undrain")
	default:
		v.Acts = q.actLinks("/instances/{name}", "drain")
	}
	return withBlocks(v, block{Facts: facts(
		fact{"Address", codeOf(i.Address)}, fact{"Version", textOf(i.Version)}, fact{"Rules of the core", textOf(i.Core)}, fact{"Silent for", textOf(seconds(i.SilentSeconds))}, fact{"Runs left", number(r.runs[i.Name])}, fact{"Abilities", r.abilities(i)},
	)}, block{Title: "Partitions on which it works", Table: q.partitionTable(r, r.partitionsOf(i.Name))}), nil
}

func instanceActs() []act {
	const on = "/instances/{name}"
	return []act{
		{
			on: on, name: "drain", method: http.MethodPost, api: drainAPI, label: "Drain", done: "The daemon gives its partitions away.", amend: namesInstance, notes: (*visit).drainNotes,
			says: "The daemon gives its partitions to the others, one after the other, and takes none until it is told to take part again, or is started anew. It goes on to answer requests. " +
				"A partition that has terminal sessions, worktrees or programs of a local runner on its machine stays until they have ended.",
		},
		{
			on: on, name: "undrain", method: http.MethodPost, api: drainAPI, label: "Take part again", main: true, done: "The daemon takes part again.",
			says: "The daemon takes partitions again, as those do that were not drained.",
			amend: func(q *visit, body map[string]any, form url.Values) error {
				body["undo"] = true
				return namesInstance(q, body, form)
			},
		},
	}
}

// namesInstance has a request name the instance of the address.
func namesInstance(q *visit, body map[string]any, _ url.Values) error {
	body["instance"] = q.PathValue("name")
	return nil
}

// drainNotes say what a drain would move, and whether another daemon is there to take it.
func (q *visit) drainNotes() ([]block, error) {
	r, i, err := q.loadInstance()
	if err != nil {
		return nil, err
	}
	others := slices.ContainsFunc(r.Instances, func(o wire.ClusterInstance) bool { return o.Name != i.Name && r.takes(o) })
	if !others {
		return whyNotice("No other daemon takes partitions now: this one keeps those that it has until there is one.", toneBad), nil
	}
	return whyNotice("Partitions on which it works: "+strconv.Itoa(r.owns[i.Name])+".", toneWait), nil
}
