package page

import (
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/core"
)

func pipelineActs() []act {
	const on = "/pipelines/{id}"
	return append(phaseActs(),
		act{
			on: "/pipelines", name: "new", method: "POST", api: "/v1/pipelines", label: "New pipeline", done: "The pipeline was created.",
			says: "Runs the phases of a definition in order.", load: (*visit).newPipeline, after: afterMade("/pipelines/"),
		},
		act{
			on: on, name: "start", method: "POST", api: "/v1/pipelines/{id}/start", label: "Start", main: true, done: "The pipeline was started.",
			says: "The pipeline was made to wait for this: its first phase begins.",
		},
		act{
			on: on, name: "unblock", method: "POST", api: "/v1/pipelines/{id}/unblock", label: "Unblock", danger: true, done: "The pipeline runs.",
			says: "It runs now, although pipelines that it depends on are not done. Their results are missing in its context.",
		},
		act{
			on: on, name: "retry", method: "POST", api: "/v1/pipelines/{id}/retry", label: "Retry", main: true, done: "The phase that failed runs again.",
			says: "The phase that failed runs again, and what follows it. What was done before is not done again.", notes: (*visit).retryNotes,
		},
		act{
			on: on, name: "cancel", method: "POST", api: "/v1/pipelines/{id}/cancel", label: "Cancel", danger: true, done: "The pipeline was cancelled.",
			says:   "It ends now, and so does all that its phase has started. It cannot be retried. Its locks are given back.",
			fields: []field{reasonField},
		},
		act{
			on: on, name: "signal", method: "POST", api: "/v1/pipelines/{id}/signal", label: "Signal", done: "The signal was sent.",
			says: "A phase that waits for this signal goes on with the data as its result. A signal that comes before its phase is kept.", load: (*visit).signalFields,
		},
		act{
			on: on, name: "approve", method: "POST", api: "/v1/pipelines/{id}/approve", label: "Approve", main: true, done: "It was approved.",
			says: "The phase ends, and the pipeline goes on. Your token's name is recorded with the comment.", load: (*visit).approvalFields, amend: amendApproval(true), notes: (*visit).approvalNotes,
		},
		act{
			on: on, name: "reject", method: "POST", api: "/v1/pipelines/{id}/approve", label: "Reject", danger: true, done: "It was rejected.",
			says: "The phase fails, and with it the pipeline unless its definition knows a way around. Your token's name is recorded with the comment.",
			load: (*visit).approvalFields, amend: amendApproval(false), notes: (*visit).approvalNotes,
		},
		act{
			on: on, name: "checkpoint", method: "POST", api: "/v1/pipelines/{id}/checkpoint", label: "Note a checkpoint", done: "The checkpoint was noted.",
			says: "Notes in the pipeline's record how far it has come. It changes nothing else.", fields: []field{{Name: "message", Label: "Message", Type: fieldArea, Required: true}},
		},
	)
}

// phaseActs answer a phase that waits for an answer from outside.
func phaseActs() []act {
	const on = "/pipelines/{id}/phases/{phase}"
	toPipeline := func(q *visit, _ *answer) string { return q.page(pathOf("pipelines", q.PathValue("id"))) }
	return []act{
		{
			on: on, name: "complete", method: "POST", api: "/v1/pipelines/{id}/phases/{phase}/complete", label: "Complete the phase", main: true, done: "The phase is done.",
			says: "The phase that waits is done, with this result. The pipeline goes on.", after: toPipeline, load: (*visit).completeFields,
		},
		{
			on: on, name: "fail", method: "POST", api: "/v1/pipelines/{id}/phases/{phase}/fail", label: "Fail the phase", danger: true, done: "The phase failed.",
			says: "The attempt has failed. What follows is what the definition says: another attempt, a way around, or the end of the pipeline.", after: toPipeline, load: (*visit).failFields,
		},
	}
}

func (q *visit) newPipeline() ([]field, error) {
	return append(q.scopeFields(), []field{
		{Name: "label", Label: "Label", Help: "What people call it."},
		{Name: "definition", Label: "Definition", Type: fieldJSON, Required: true, Help: `A name and phases, such as {"name":"release","phases":[{"name":"build","run":{"tool":"command","input":{"argv":["make"]}}}]}.`},
		{Name: "context", Label: "Context", Type: fieldJSON, Help: "A JSON object: the values that it begins with."},
		{Name: "depends_on", Label: "Depends on", Type: fieldLines, Help: "Ids of pipelines that must be done first, one a line."},
		{Name: "hold", Label: "Wait until somebody starts it", Type: fieldCheck},
	}...), nil
}

func (q *visit) retryNotes() ([]block, error) {
	p, err := q.loadPipeline()
	return whyNotice(p.Phase.Error, toneBad), err
}

func (q *visit) approvalNotes() ([]block, error) {
	p, err := q.loadPipeline()
	if err != nil {
		return nil, err
	}
	return q.waitBlocks(p), nil
}

// approvalFields name the phase that the visitor was shown, so that no other one is approved meanwhile.
func (q *visit) approvalFields() ([]field, error) {
	p, err := q.loadPipeline()
	return []field{{Name: "phase", Type: fieldHidden, Value: p.Phase.Name}, {Name: "comment", Label: "Comment", Type: fieldArea}}, err
}

// amendApproval says which of the two answers an approval is given.
func amendApproval(approved bool) func(*visit, map[string]any, url.Values) error {
	return func(_ *visit, body map[string]any, _ url.Values) error {
		body["approved"] = approved
		return nil
	}
}

func (q *visit) signalFields() ([]field, error) {
	p, err := q.loadPipeline()
	if err != nil {
		return nil, err
	}
	name := field{Name: "name", Label: "Signal", Required: true}
	for _, d := range p.Definition.Phases {
		if d.Signal != nil {
			name.List = append(name.List, d.Signal.Name)
		}
	}
	if p.Waiting.For == core.WaitSignal {
		name.Value = p.Waiting.Name
	}
	return []field{name, {Name: "payload", Label: "Data", Type: fieldJSON, Help: "JSON: the result of the phase that waits for it."}}, nil
}

// attemptField names the attempt that the visitor was shown.
func (q *visit) attemptField() (field, error) {
	p, err := q.loadPipeline()
	return field{Name: "attempt", Label: "Attempt", Type: fieldNumber, Value: strconv.FormatUint(uint64(p.Attempt), 10), Help: "An answer to another attempt than the one that runs is refused."}, err
}

func (q *visit) completeFields() ([]field, error) {
	attempt, err := q.attemptField()
	return []field{{Name: "result", Label: "Result", Type: fieldJSON, Help: "JSON, which goes into the context; left out: none."}, attempt}, err
}

func (q *visit) failFields() ([]field, error) {
	attempt, err := q.attemptField()
	return []field{
		{Name: "error", Label: "Why", Type: fieldArea},
		{Name: "permanent", Label: "No retry can help", Type: fieldCheck, Help: "The pipeline's failure is final then."}, attempt,
	}, err
}
