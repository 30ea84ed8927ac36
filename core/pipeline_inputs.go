package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/effects/texts"
)

// CheckInputs refuses a name among those of the values that a creator gives which is no input of a definition that
// declares some, and to which nothing in it refers: it is misspelt. The error calls it a member of field, and says
// what may have been meant. What a [Worker] gives, "item", and what a subscriber gives, "event", is none.
//
// No [Pipeline] asks this: it is for those who take a request.
func (d PipelineDef) CheckInputs(field string, given []string) error {
	declared := make([]string, 0, len(d.Inputs))
	for _, in := range d.Inputs {
		declared = append(declared, in.Name)
	}
	var odd []string
	for _, name := range given {
		if name != "item" && name != "event" && name != d.Result && !slices.Contains(declared, name) {
			odd = append(odd, name)
		}
	}
	if len(declared) == 0 || len(odd) == 0 {
		return nil
	}
	slices.Sort(odd)
	refs := d.references()
	for _, name := range odd {
		if refs[name] {
			continue
		}
		meant := fmt.Sprintf("did you mean %q?", clip(texts.Nearest(name, declared)))
		if texts.Nearest(name, declared) == "" {
			meant = "it declares " + clip(strings.Join(declared, ", "))
		}
		return fmt.Errorf("%s.%s: pipeline %q declares no input %q: %s", field, clip(name), clip(d.Name), clip(name), meant)
	}
	return nil
}

// references lists the names of the context to which the phases refer.
func (d PipelineDef) references() map[string]bool {
	refs := &refChecker{used: map[string]bool{}}
	for _, phase := range d.Phases {
		if phase.When != nil {
			_ = refs.reference(phase.When.Ref) // what is wrong with it, Validate tells
		}
		phase.rewrite(refs)
	}
	return refs.used
}
