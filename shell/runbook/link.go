package runbook

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// Limits of a definition with all that it starts: core's, less a starter's own part.
const (
	maxDefinition = core.MaxDefinitionBytes - 256
	maxLevels     = core.MaxJSONDepth - 16
	startLevels   = 5 // of JSON from a definition to one that it starts
)

// link puts into each pipeline those that it starts, and has core look at them.
func (c *compiler) link() []core.PipelineDef {
	names := c.names["pipelines"]
	for _, name := range names {
		for _, s := range c.pipelines[name].starts {
			c.noteUser(s)
		}
	}
	for _, name := range names {
		c.validate(c.pipelines[name])
	}
	var out []core.PipelineDef
	for _, name := range names {
		p := c.pipelines[name]
		c.fill(p, nil)
		out = append(out, p.def)
	}
	return out
}

// noteUser tells a pipeline who starts it, or says that the file has no such pipeline.
func (c *compiler) noteUser(s start) {
	if p := c.pipelines[s.child]; p != nil {
		p.users = append(p.users, s)
	} else if s.child != "" {
		c.say(s.off, s.field, "there is no [pipelines.%s]%s", clip.Text(s.child, maxQuoted), didYouMean(s.child, c.names["pipelines"], true))
	}
}

// shallow is the definition with stubs for what it starts and for phases that are wrong.
func (p *pipeline) shallow() core.PipelineDef {
	d := p.def
	if p.headless {
		d.Phases = stub("").Phases
		return d
	}
	d.Phases = slices.Clone(d.Phases)
	for i, phase := range d.Phases {
		switch {
		case phase.Kind() == "": // it has been said what is wrong
			d.Phases[i] = core.PhaseDef{Name: phase.Name, Output: phase.Output, Checkpoint: &core.CheckpointPhase{Message: "stub"}}
		case phase.Pipelines != nil:
			pipelines := *phase.Pipelines
			pipelines.Start = slices.Clone(pipelines.Start)
			for k := range pipelines.Start {
				pipelines.Start[k].Definition = stub("stub")
			}
			d.Phases[i].Pipelines = &pipelines
		}
	}
	return d
}

// validate asks core about one pipeline, first with all values that anybody
// gives it, then with those of each who starts it.
func (c *compiler) validate(p *pipeline) {
	var all []string
	for _, u := range p.users {
		all = append(all, u.names...)
	}
	slices.Sort(all)
	before := len(c.errs)
	c.marks = p.marks
	d := p.shallow()
	if err := d.CheckGiven(); err != nil { // before what is large is compiled
		c.check("", err)
	} else {
		c.check("", d.ValidateWith(slices.Compact(all)...))
	}
	sound := len(c.errs) == before
	seen := map[string]error{}
	for _, u := range p.users {
		c.inputs(p, u)
		if !sound {
			continue
		}
		key := strings.Join(slices.Sorted(slices.Values(u.names)), "\x00")
		err, ok := seen[key]
		if !ok && len(seen) == maxStarters {
			c.say(u.off, u.field, "pipeline %q is started with more than %d different sets of values", clip.Text(u.child, maxQuoted), maxStarters)
			break
		}
		if !ok {
			err = d.ValidateWith(u.names...)
			seen[key] = err
		}
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			c.say(u.off, u.field, "pipeline %q cannot be started from here: %s", clip.Text(u.child, maxQuoted), first)
		}
	}
	p.bytes, p.levels = measure(d)
}

// inputs compares what a pipeline is given with what it declares.
func (c *compiler) inputs(p *pipeline, u start) {
	var declared []string
	for _, in := range p.def.Inputs {
		declared = append(declared, in.Name)
		if in.Required && !slices.Contains(u.names, in.Name) {
			c.say(u.off, u.field, "pipeline %q needs the input %q, which it is not given here", clip.Text(u.child, maxQuoted), clip.Text(in.Name, maxQuoted))
		}
	}
	if !u.always {
		return
	}
	for _, name := range u.names {
		if !slices.Contains(declared, name) {
			c.warn(u.off, u.field, "pipeline %q has no input %q%s", clip.Text(u.child, maxQuoted), clip.Text(name, maxQuoted), didYouMean(name, declared, false))
		}
	}
}

// fill puts into a pipeline what it starts, unless that is endless or too large.
func (c *compiler) fill(p *pipeline, path []string) {
	if p.linked || p.visiting {
		return
	}
	p.visiting = true
	path = append(path, p.def.Name)
	within := p.bytes <= maxDefinition && p.levels <= maxLevels
	var children []*pipeline
	for _, s := range p.starts {
		child := c.pipelines[s.child]
		if child == nil {
			continue
		}
		if child.visiting {
			from := slices.Index(path, child.def.Name)
			c.say(s.off, s.field, "pipelines that start each other for ever: %s", strings.Join(clipped(append(slices.Clone(path[from:]), child.def.Name)), " → "))
			continue
		}
		c.fill(child, path)
		within = within && child.bytes <= maxDefinition && child.levels <= maxLevels
		p.bytes = min(p.bytes+child.bytes, maxDefinition+1)
		p.levels = min(max(p.levels, child.levels+startLevels), maxLevels+1)
		children = append(children, child)
	}
	switch {
	case p.bytes > maxDefinition && (within || len(children) == 0):
		c.say(p.in.off, p.in.field, "with the pipelines that it starts it has more than %d bytes of JSON", maxDefinition)
	case p.levels > maxLevels && (within || len(children) == 0):
		c.say(p.in.off, p.in.field, "with the pipelines that it starts it is nested deeper than %d levels", maxLevels)
	case len(c.errs) == 0 && c.expand(p.bytes, p.in.off, p.in.field):
		p.putIn(c)
	}
	p.visiting, p.linked = false, true
}

// putIn puts in the definitions, which are complete by now.
func (p *pipeline) putIn(c *compiler) {
	for _, s := range p.starts {
		p.def.Phases[s.phase].Pipelines.Start[s.place].Definition = c.pipelines[s.child].def
	}
}

func clipped(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, clip.Text(n, maxQuoted))
		if len(out) == 8 && len(names) > 9 {
			return append(out, "…", clip.Text(names[len(names)-1], maxQuoted))
		}
	}
	return out
}

// measure gives the size of a definition's JSON and how deep it is nested.
func measure(d core.PipelineDef) (size, levels int) {
	b, err := json.Marshal(d)
	if err != nil {
		return maxDefinition + 1, 0
	}
	depth := 0
	for tokens := json.NewDecoder(bytes.NewReader(b)); ; {
		switch token, err := tokens.Token(); {
		case err != nil: // the end
			return len(b), levels
		case token == json.Delim('['), token == json.Delim('{'):
			depth++
			levels = max(levels, depth)
		case token == json.Delim(']'), token == json.Delim('}'):
			depth--
		}
	}
}
