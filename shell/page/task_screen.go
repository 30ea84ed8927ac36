package page

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// screenEvery is after how many seconds the page of a task loads its session's screen again.
const screenEvery = 3

// sentChanges is how many changes of a task are looked at for what was sent to its session.
const sentChanges = 100

// taskScreen shows the session of a task: its screen as it is now, and what was sent to it.
func (q *visit) taskScreen(k core.Task) ([]block, error) {
	var s wire.TaskScreen
	if err := q.get(pathOf("tasks", k.ID.String(), "screen"), nil, &s); err != nil {
		return nil, err
	}
	screen := block{Title: "Screen of the session", ID: "screen"}
	switch {
	case s.Live:
		screen.Note = "Captured at " + q.moment(s.At).Text + "; " + strconv.Itoa(s.Columns) + " columns, " + strconv.Itoa(s.Rows) + " rows."
	case s.At.IsZero():
		screen.Note = "Not captured: " + s.Why + "."
	default:
		screen.Note = "Not captured: " + s.Why + ". This is the end of it as the last heartbeat has told it, at " + q.moment(s.At).Text + "."
	}
	switch {
	case s.Screen != "":
		screen.Text = longText(s.Screen)
		screen.Text.Wrap = !s.Live // a terminal has lines of its own
	case s.Live:
		screen.Empty = "It shows nothing."
	default:
		screen.Empty = "Nothing was seen of it yet."
	}
	sent, err := q.sentTo(k)
	if err != nil {
		return nil, err
	}
	return []block{screen, sent}, nil
}

// sentTo shows what was typed into the session: what it has not taken yet, what the journal has of what it was told, and the prompt.
func (q *visit) sentTo(k core.Task) (block, error) {
	t := &table{Caption: "Sent to the session, newest first", Head: []string{"When", "By", "What", "State", "Text"}}
	for _, o := range k.Pending.Open {
		switch e := o.Effect.(type) {
		case effects.SendInput:
			t.Rows = append(t.Rows, []cell{{}, {}, textOf("input"), badge("waiting"), textOf(clip(e.Input, 2000)).wide()})
		case effects.Nudge:
			t.Rows = append(t.Rows, []cell{{}, {}, textOf("nudge"), badge("waiting"), textOf(cmp.Or(clip(k.Config.Nudge, 2000), "return")).wide()})
		}
	}
	var got wire.ChangeList
	if _, err := q.getPart(pathOf("changes", string(core.KindTask), k.ID.String()), url.Values{"limit": {strconv.Itoa(sentChanges)}, "asked": {"true"}}, &got); err != nil {
		return block{}, err
	}
	for _, c := range got.Changes {
		for _, in := range c.Inputs {
			if what, text := sentBy(in, k.Config.Nudge); what != "" {
				t.Rows = append(t.Rows, []cell{q.at(c.At), textOf(clip(in.Actor, 100)), textOf(what), {}, textOf(clip(text, 2000)).wide()})
			}
		}
	}
	if k.Prompt != "" {
		s := badge("pending")
		if k.Spawned || k.State.Type == core.TaskDone {
			s = state("with the session's start", toneNone)
		}
		t.Rows = append(t.Rows, []cell{q.at(k.State.StartedAt), {}, textOf("prompt"), s, textOf(clip(k.Prompt, 2000)).wide()})
	}
	note := "What the task types by itself, to nudge the session, stands among its changes."
	if got.Before != 0 {
		note = "Of the last " + howMany(uint64(len(got.Changes)), "change") + " that somebody asked for. " + note
	}
	if len(t.Rows) == 0 {
		return block{Title: "Sent to the session", Empty: "It has no prompt, and nobody has typed into the session. " + note}, nil
	}
	return block{Title: "Sent to the session", Note: note, Table: t}, nil
}

// sentBy gives what an input of a task has typed into its session; what is "" if it has typed nothing.
func sentBy(in wire.ChangeInput, nudge string) (what, text string) {
	var data struct {
		Text   string              `json:"text"`
		Action core.RecoveryAction `json:"action"`
	}
	if err := json.Unmarshal(in.Data, &data); err != nil {
		return "", ""
	}
	switch {
	case in.Event == "input":
		return "input", data.Text
	case in.Event == "recover" && data.Action == core.RecoverNudge:
		return "nudge", cmp.Or(nudge, "return")
	case in.Event == "recover" && data.Action == core.RecoverRestart:
		return "restart", "the session was started again"
	}
	return "", ""
}
