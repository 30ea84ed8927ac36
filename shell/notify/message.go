package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// Message is a notification as a channel tells it: with its title and its text as they are to
// be read, and with what programs may want to know of it.
type Message struct {
	// ID names the notification: it is the same each time that one is delivered again.
	ID string
	// At is when that happened which is told, or the zero time.
	At time.Time
	// Title is one line; Text may have many, and may be empty.
	Title string
	Text  string
	// Sound asks for a sound, where the channel has one.
	Sound bool
	// Event is the event of the bus that is told; nil for a notification that a runbook or a
	// constraint has written itself.
	Event *effects.Event
	// Commands are those that show and act. The default templates have them in Text already.
	Commands []Hint
}

// Hint is a command line that a reader can type.
type Hint struct {
	Does string `json:"does"` // what for: "show", "approve"
	Line string `json:"line"`
}

// Teller is a [Channel] that is handed all of a message, not its title and text alone.
type Teller interface {
	Channel
	Tell(ctx context.Context, m Message) error
}

// Tell has a channel tell a message: a [Teller] gets all of it, another one what
// [effects.Notify] holds.
func Tell(ctx context.Context, c Channel, m Message) error {
	if t, ok := c.(Teller); ok {
		return t.Tell(ctx, m)
	}
	return c.Notify(ctx, effects.Notify{Title: m.Title, Message: m.Text, Sound: m.Sound})
}

// MessageOf gives the message of a notification that the machine ref has asked for. Its ID
// follows from the machine and from what is said, not from the number of the effect, which is
// another one when the machine asks once more because it does not know what became of it.
func MessageOf(ref effects.Ref, n effects.Notify) Message {
	return Message{
		ID:    digest(string(ref.Kind), ref.ID.String(), n.Title, n.Message),
		Title: n.Title, Text: n.Message, Sound: n.Sound,
	}
}

// digest is a name that follows from all of the parts.
func digest(parts ...string) string {
	text, _ := json.Marshal(parts) // strings always encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
