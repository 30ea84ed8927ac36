package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/notify"
)

// approvals carries out notifications. One that says that a phase waits for an approval also says of which pipeline
// it is, and which commands answer it: the core knows no commands.
type approvals struct {
	*notify.Interpreter

	hints hints
}

// CarryFor implements [shell.StateInterpreter].
func (a approvals) CarryFor(ctx context.Context, s core.State, e effects.Outer) (json.RawMessage, error) {
	n, notifies := e.(effects.Notify)
	if p, ok := s.(core.Pipeline); ok && notifies && p.AwaitsApproval() {
		n.Message = a.message(p, n.Message)
		e = n
	}
	// A digest asks again by itself, and puts what comes meanwhile into its next message. Two may say the same on
	// different days: when it began with this one tells them apart.
	if d, ok := s.(core.Digest); ok && notifies && d.Message != nil {
		n.Message += "\n\nTo see which alerts are open:\n    " + a.hints.show(d)
		return a.CarryUnder(ctx, fmt.Sprintf("%s %s", d.Ref(), d.Message.BegunAt), n)
	}
	return a.Carry(ctx, s.Ref(), e)
}

// message is what somebody reads who is to approve.
func (a approvals) message(p core.Pipeline, asked string) string {
	if asked != "" {
		asked += "\n\n"
	}
	return fmt.Sprintf("%sPhase %q of pipeline %s waits for it.\nApprove: %s\nReject:  %s", asked, p.Phase.Name, p.ID, a.hints.approve(p), a.hints.reject(p))
}
