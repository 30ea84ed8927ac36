package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// MaxTemplateWork bounds the bytes that the references of one definition may lead to: for each
// reference and each member in it the context once, as large as the definition lets it become.
// Phases that do not wait follow one another in one step, so that all of them count.
const MaxTemplateWork = 256 << 20

// Given gives an input as it is taken from outside of the system: it refuses what would take
// too long to decide on, and cuts the reasons that are compared with patterns. It stands before
// the journal, so that what earlier versions took is still applied as it was. The error is an
// [*effects.Refused].
func Given(in Input) (Input, error) {
	e, err := bounded(in.Event)
	if err == nil && in.BySet != nil {
		err = in.BySet.check()
	}
	if err != nil {
		return in, &effects.Refused{To: in.To, Event: e.EventType(), Code: effects.CodeInvalid, Reason: err.Error()}
	}
	in.Event = e
	return in, nil
}

func bounded(e Event) (Event, error) {
	switch e := e.(type) {
	case ActionCreate:
		return e, e.Spec.Policy.checkGiven()
	case DedupClaim:
		return e, e.Create.Policy.checkGiven()
	case RecurringCreate:
		return e, e.Spec.Policy.checkGiven()
	case RecurringUpdate:
		if p := e.Patch.Policy; p != nil {
			return e, p.checkGiven()
		}
	case PipelineCreate:
		return e, e.Spec.Definition.checkGiven("definition")
	case StrategyCreate:
		return e, checkGivenApproaches("approaches", e.Spec.Approaches)
	case WorkerConfigure:
		return e, e.Spec.Do.checkGiven("do")
	case QueueCreate:
		return e, e.Config.Retry.checkGiven("config.retry")
	case QueueConfigure:
		return e, e.Config.Retry.checkGiven("config.retry")
	case BusSubscribe:
		if start := e.Subscriber.Do.StartPipeline; start != nil {
			return e, start.Definition.checkGiven("do.start_pipeline.definition")
		}
	case PhaseFailed:
		e.Error = texts.Bound(e.Error, MaxTextBytes)
		return e, nil
	case StrategyEvaluate:
		e.Error = texts.Bound(e.Error, MaxTextBytes)
		return e, nil
	case TaskFail:
		e.Error = texts.Bound(e.Error, MaxTextBytes)
		return e, nil
	}
	return e, nil
}

func (r Retry) checkGiven(field string) error {
	fields := make([]string, len(r.NoRetry))
	for i := range r.NoRetry {
		fields[i] = fmt.Sprintf("%s.no_retry[%d]", field, i)
	}
	return checkPatternSizes(fields, r.NoRetry)
}

func checkGivenApproaches(field string, approaches []Approach) error {
	for i, a := range approaches {
		var fields, patterns []string
		for j, f := range a.FallbackOn {
			fields = append(fields, fmt.Sprintf("%s[%d].fallback_on[%d].error", field, i, j))
			patterns = append(patterns, f.Error)
		}
		if err := checkPatternSizes(fields, patterns); err != nil {
			return err
		}
	}
	return nil
}

// checkGiven bounds also what the references to one item may lead to, whose data may be as large
// as an input.
func (d WorkerDo) checkGiven(field string) error {
	var refs referenceCounter
	d.rewrite(&refs)
	if int64(refs)*MaxInputBytes > MaxTemplateWork {
		return fmt.Errorf("%s: its references have %d names and members, each of which may lead to an item of %d bytes: more than %d are too many", field, refs, MaxInputBytes, MaxTemplateWork/MaxInputBytes)
	}
	switch {
	case d.Pipeline != nil:
		return d.Pipeline.checkGiven(field + ".pipeline")
	case d.Strategy != nil:
		return checkGivenApproaches(field+".strategy.approaches", d.Strategy.Approaches)
	}
	return nil
}

// CheckGiven refuses a definition that [Given] would refuse, without the "definition." before
// the field: for who validates a definition before it comes into an input.
func (d PipelineDef) CheckGiven() error {
	err := d.checkGiven("definition")
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "definition."), "definition: "))
}

func (d PipelineDef) checkGiven(field string) error {
	var refs referenceCounter
	for i, p := range d.Phases {
		if err := p.checkGiven(fmt.Sprintf("%s.phases[%d]", field, i)); err != nil {
			return err
		}
		p.rewrite(&refs)
		if p.When != nil {
			refs.count(p.When.Ref)
		}
	}
	if limit := d.contextLimit(); int64(refs)*int64(limit) > MaxTemplateWork {
		return fmt.Errorf("%s: its references have %d names and members, each of which may lead to a context of %d bytes: together more than %d bytes: lower context_limit to at most %d, or refer to less",
			field, refs, limit, MaxTemplateWork, MaxTemplateWork/int64(refs))
	}
	return nil
}

func (d PhaseDef) checkGiven(field string) error {
	if err := d.Retry.checkGiven(field + ".retry"); err != nil {
		return err
	}
	if d.Strategy != nil {
		if err := checkGivenApproaches(field+".strategy.approaches", d.Strategy.Approaches); err != nil {
			return err
		}
	}
	if d.Pipelines == nil {
		return nil
	}
	for i, start := range d.Pipelines.Start {
		if err := start.Definition.checkGiven(fmt.Sprintf("%s.pipelines.start[%d].definition", field, i)); err != nil {
			return err
		}
	}
	return nil
}

// referenceCounter counts the names and members in all references of a definition.
type referenceCounter int

func (n *referenceCounter) count(ref string) { *n += referenceCounter(1 + strings.Count(ref, ".")) }

func (n *referenceCounter) text(_, s string) string {
	parts, _ := splitTemplate(s) // the machine refuses what is none
	for _, p := range parts {
		if p.ref != "" {
			n.count(p.ref)
		}
	}
	return s
}

// json counts the references in the strings of a value.
func (n *referenceCounter) json(field string, v json.RawMessage) json.RawMessage {
	_ = eachString(v, func(_, str []byte) error { // which gives no error but its own
		var s string
		if str != nil && json.Unmarshal(str, &s) == nil {
			n.text(field, s)
		}
		return nil
	})
	return v
}
