// Package notify tells people things: it carries out [effects.Notify] by way of
// channels, which are a webhook, Slack, a command, the desktop, the log, e-mail (package mail)
// or an embedder's own (003 Notify). Package relay has channels tell events of the bus, and
// delivers later what a channel does not take now.
//
// notify.go has the interpreter with its channels by name, and that of the log; message.go
// what a channel is handed, notice.go what is said of an event, template.go how it is worded;
// webhook.go has the webhook, slack.go Slack, command.go the command and the desktop.
package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
)

// Channel is a way to reach people. It must be safe for concurrent use, and
// return soon after its context has ended.
//
// An error with a method Permanent() bool that gives true says that trying again
// is pointless; after any other one the notification may be tried again. One
// whose sender died may be sent twice.
type Channel interface {
	Notify(ctx context.Context, n effects.Notify) error
}

// ChannelFunc makes a Channel of a function.
type ChannelFunc func(ctx context.Context, n effects.Notify) error

// Notify calls f.
func (f ChannelFunc) Notify(ctx context.Context, n effects.Notify) error { return f(ctx, n) }

// DefaultTimeLimit bounds a notification where [Options.TimeLimit] is zero.
const DefaultTimeLimit = 30 * time.Second

// Options are the operator's choices.
type Options struct {
	// Channels are all channels by the name that a notification gives.
	Channels map[string]Channel
	// Default names the channel of notifications that name none. Empty: the only
	// one, where there is one channel; otherwise such notifications fail.
	Default string
	// TimeLimit bounds one notification. Zero means [DefaultTimeLimit], negative
	// means none besides the channel's own.
	TimeLimit time.Duration
	// Later is handed what a channel cannot take now: with it, a notification is carried out once
	// it is told or, if Later gives no error, is going to be, as Later of package relay sees to;
	// nil: it has failed, and the machine's own retries decide.
	Later func(ctx context.Context, channel string, m Message) error
}

// Interpreter carries out notifications. It is safe for concurrent use and needs
// no closing.
type Interpreter struct {
	channels  map[string]Channel
	otherwise string
	limit     time.Duration
	later     func(ctx context.Context, channel string, m Message) error
}

// New makes an Interpreter. The error names the option that cannot be right.
func New(o Options) (*Interpreter, error) {
	i := &Interpreter{
		channels: maps.Clone(o.Channels), otherwise: o.Default, limit: cmp.Or(o.TimeLimit, DefaultTimeLimit), later: o.Later,
	}
	for _, name := range i.names() {
		if name == "" {
			return nil, errors.New("Channels: one has no name")
		}
		if i.channels[name] == nil {
			return nil, fmt.Errorf("Channels: %q is nil", name)
		}
	}
	if _, ok := i.channels[o.Default]; o.Default != "" && !ok {
		return nil, fmt.Errorf("Default: there is no channel %q: %s", o.Default, i.known())
	}
	if o.Default == "" && len(i.channels) == 1 {
		i.otherwise = i.names()[0]
	}
	return i, nil
}

func (i *Interpreter) names() []string { return slices.Sorted(maps.Keys(i.channels)) }

func (i *Interpreter) known() string {
	if len(i.channels) == 0 {
		return "none is configured"
	}
	return "use one of " + strings.Join(i.names(), ", ")
}

// Carry carries out a notification of the machine ref. The result is
// {"channel":"ops"}, with "later":true where it was handed to [Options.Later]. An error that is
// an [*Error] tells by Permanent whether trying again is pointless; an effect that is no
// notification is one.
func (i *Interpreter) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	n, ok := e.(effects.Notify)
	if !ok {
		return nil, &Error{Problem: fmt.Sprintf("%s asks for %T, which is no notification", ref, e), permanent: true}
	}
	var result struct {
		Channel string `json:"channel"`
		Later   bool   `json:"later,omitempty"`
	}
	var err error
	if result.Channel, result.Later, err = i.say(ctx, n, MessageOf(ref, n), i.later); err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// CarryMessage has a channel tell the message of a machine that asks again by itself while the channel
// cannot be reached, as a digest of alerts does, and gathers more meanwhile: it is not handed to
// [Options.Later]. The message has the same ID for each time that it asks for the same, and another one
// for what merely says the same.
func (i *Interpreter) CarryMessage(ctx context.Context, channel string, m Message) (json.RawMessage, error) {
	name, _, err := i.say(ctx, effects.Notify{Channel: channel, Title: m.Title, Message: m.Text, Sound: m.Sound}, m, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Channel string `json:"channel"`
	}{name})
}

// messageUnder gives the message of a notification that a key names.
func messageUnder(key string, n effects.Notify) Message {
	m := MessageOf(effects.Ref{}, n)
	m.ID = digest("key", key, m.ID)
	return m
}

// Say carries out a notification that no machine waits for. The key, with what is said, names it:
// who says it again under the same one says the same.
func (i *Interpreter) Say(ctx context.Context, key string, n effects.Notify) error {
	_, _, err := i.say(ctx, n, messageUnder(key, n), i.later)
	return err
}

// say has the channel of a notification tell it, now or, unless that is nil, later.
func (i *Interpreter) say(
	ctx context.Context, n effects.Notify, m Message, put func(ctx context.Context, channel string, m Message) error,
) (name string, later bool, err error) {
	name, channel, err := i.channel(n.Channel)
	if err != nil {
		return name, false, err
	}
	if err := i.carry(ctx, channel, n, m); err != nil {
		permanent := shell.IsPermanent(err)
		if permanent || put == nil || ctx.Err() != nil || put(ctx, name, m) != nil {
			return name, false, &Error{Channel: name, Problem: err.Error(), permanent: permanent, Err: err}
		}
		return name, true, nil
	}
	return name, false, nil
}

// Test has a channel tell a message, now and once.
func (i *Interpreter) Test(ctx context.Context, name string, m Message) error {
	_, channel, err := i.channel(name)
	if err != nil {
		return err
	}
	ctx, cancel := i.limited(ctx)
	defer cancel()
	return Tell(ctx, channel, m)
}

// Default names the channel of notifications that name none; empty: there is none.
func (i *Interpreter) Default() string { return i.otherwise }

// Names are those of all channels, in their order.
func (i *Interpreter) Names() []string { return i.names() }

// channel gives the channel of a name, or the default one.
func (i *Interpreter) channel(name string) (string, Channel, error) {
	name = cmp.Or(name, i.otherwise)
	channel, ok := i.channels[name]
	switch {
	case !ok && name == "":
		return name, nil, &Error{Problem: "the notification names no channel, and there is no default one: " + i.known(), permanent: true}
	case !ok:
		return name, nil, &Error{Channel: name, Problem: "there is no such channel: " + i.known(), permanent: true}
	}
	return name, channel, nil
}

// limited bounds one notification.
func (i *Interpreter) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if i.limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, i.limit, fmt.Errorf("it reached the time limit of %v", i.limit))
}

// carry has a channel tell what is asked for.
func (i *Interpreter) carry(ctx context.Context, c Channel, n effects.Notify, m Message) error {
	ctx, cancel := i.limited(ctx)
	defer cancel()
	if t, ok := c.(Teller); ok {
		return t.Tell(ctx, m)
	}
	return c.Notify(ctx, n)
}

// NewLog gives a channel that writes to a log; nil: the default one.
func NewLog(log *slog.Logger) Channel {
	return ChannelFunc(func(ctx context.Context, n effects.Notify) error {
		cmp.Or(log, slog.Default()).InfoContext(ctx, "notification", "title", n.Title, "message", n.Message)
		return nil
	})
}

// Error says why a notification was not delivered.
type Error struct {
	Channel string // its name; empty where none was found out
	Problem string
	Err     error // what the channel said; nil where none was asked

	permanent bool
}

// Error names the channel and the problem.
func (e *Error) Error() string {
	if e.Channel == "" {
		return "notify: " + e.Problem
	}
	return fmt.Sprintf("notify channel %q: %s", quoted(e.Channel), e.Problem)
}

// Unwrap gives what the channel said.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether trying again is pointless.
func (e *Error) Permanent() bool { return e.permanent }

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 512

// quoted shortens a value that is quoted in an error. Errors are stored as the reason of a
// failure: bytes that are not UTF-8 become U+FFFD, as in all that is stored.
func quoted(s string) string { return strings.ToValidUTF8(texts.Clip(s, maxQuoted), "\uFFFD") }
