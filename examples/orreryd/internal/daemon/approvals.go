package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/relay"
)

// approvals carries out notifications. One that says that a phase waits for an approval also says of which pipeline
// it is, and which commands answer it: the core knows no commands. One of alerts is worded as the channel words events.
type approvals struct {
	*notify.Interpreter

	hints hints
	relay *relay.Relay
}

// CarryFor implements [shell.StateInterpreter].
func (a approvals) CarryFor(ctx context.Context, s core.State, e effects.Outer) (json.RawMessage, error) {
	n, notifies := e.(effects.Notify)
	if p, ok := s.(core.Pipeline); ok && notifies && p.AwaitsApproval() {
		n.Message = a.message(p, n.Message)
		e = n
	}
	// A digest asks again by itself, and puts what comes meanwhile into its next message.
	if d, ok := s.(core.Digest); ok && notifies {
		m, err := a.relay.Alerts(d)
		if err != nil {
			return nil, err
		}
		return a.CarryMessage(ctx, n.Channel, m)
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
