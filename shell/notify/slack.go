package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/webhook"
)

// SlackOptions say where Slack takes messages.
type SlackOptions struct {
	// URL is that of an incoming webhook. It is a secret: errors name its host alone.
	URL string
	// Timeout bounds one request. Zero means 10 seconds.
	Timeout time.Duration
	// Transport makes the requests; nil means a clone of [http.DefaultTransport].
	Transport http.RoundTripper
}

// Slack is a channel that posts to an incoming webhook of Slack, or of a program that takes the
// same, such as Mattermost. It shows all text as it is, but for blocks of code, which begin at the end
// of a line with three backticks and end with three at the beginning of one: nothing that a program
// has printed calls people, makes links or is markup.
//
// While Slack answers 429, it is left alone for as long as it says.
type Slack struct{ post webhook.Post }

// Slack's limits, in characters, of which one beyond U+FFFF counts for two here.
// https://docs.slack.dev/reference/block-kit/blocks has those of a header and a section, and how
// many blocks a message has. How much all blocks may have together is not documented: messages
// with more than some 10,000 characters are refused as msg_blocks_too_long.
const (
	slackHeader  = 150
	slackSection = 3000
	slackBlocks  = 50
	slackAll     = 8000
	slackText    = 3000 // of the text that stands in notifications; 4,000 are recommended at most
)

// NewSlack makes a Slack. The error names the option that cannot be right.
func NewSlack(o SlackOptions) (*Slack, error) {
	w, err := NewWebhook(WebhookOptions{URL: o.URL, Timeout: o.Timeout, Transport: o.Transport})
	if err != nil {
		return nil, err
	}
	return &Slack{w.post}, nil
}

// Notify posts a title and a message that somebody has written.
func (s *Slack) Notify(ctx context.Context, n effects.Notify) error {
	return s.Tell(ctx, Message{Title: n.Title, Text: n.Message})
}

// Tell posts a message.
func (s *Slack) Tell(ctx context.Context, m Message) error {
	body, err := json.Marshal(slackBody(m))
	if err != nil {
		return shell.Permanent(fmt.Errorf("encode the message: %w", err))
	}
	return deliver(ctx, s.post, body)
}

// RetryDelay is how long a channel's error says that the other side is to be left alone; false
// where it does not say so.
func RetryDelay(err error) (time.Duration, bool) {
	var r interface{ RetryDelay() time.Duration }
	if !errors.As(err, &r) {
		return 0, false
	}
	return r.RetryDelay(), true
}

type slackMessage struct {
	Text   string       `json:"text"`   // in notifications, and where blocks cannot be shown
	Mrkdwn bool         `json:"mrkdwn"` // whether Text has markup
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type string    `json:"type"`
	Text slackPart `json:"text"`
}

type slackPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`    // of plain_text: whether :name: becomes a picture
	Verbatim bool   `json:"verbatim,omitempty"` // of mrkdwn: addresses and names in it make no links
}

// slackPlain is a text that is shown as it is.
func slackPlain(s string) slackPart { return slackPart{Type: "plain_text", Text: s, Emoji: new(false)} }

// slackCode is a block of code. In mrkdwn nothing but its end, "&", "<" and ">" means anything in it.
func slackCode(s string) slackPart {
	return slackPart{Type: "mrkdwn", Text: fence + "\n" + s + "\n" + fence, Verbatim: true}
}

// slackBody is the body that tells a message.
func slackBody(m Message) slackMessage {
	title := cmp.Or(line(m.Title), "Orrery") // a header must have a text
	out := slackMessage{Text: slackEscape(slackClip(title, slackText/6))}
	out.Blocks = append(out.Blocks, slackBlock{"header", slackPlain(slackClip(title, slackHeader))})
	for _, part := range slackSections(strings.TrimSpace(plainText(m.Text))) {
		out.Blocks = append(out.Blocks, slackBlock{"section", part})
	}
	return out
}

var slackEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackEscape makes a text of which Slack shows each character.
func slackEscape(s string) string { return slackEscaper.Replace(s) }

// slackLen is how many characters Slack counts, at most.
func slackLen(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// slackClip keeps the beginning of a text.
func slackClip(s string, most int) string {
	if slackLen(s) <= most {
		return s
	}
	return slackHead(s, most-1) + "…"
}

// slackHead is the beginning of a text, of most characters at most; no character and no escape
// is parted.
func slackHead(s string, most int) string {
	at, n := 0, 0
	for at < len(s) {
		size, count := slackUnit(s[at:])
		if n+count > most {
			break
		}
		at, n = at+size, n+count
	}
	return s[:at]
}

// slackUnit is what must not be parted at the beginning of a text: how many bytes it has, and
// how many characters.
func slackUnit(s string) (size, count int) {
	for _, escape := range []string{"&amp;", "&lt;", "&gt;"} {
		if strings.HasPrefix(s, escape) {
			return len(escape), len(escape)
		}
	}
	r, size := utf8.DecodeRuneInString(s)
	return size, max(utf16.RuneLen(r), 1)
}

// slackSections parts a text into sections, of plain text and of code, at the ends of lines where
// that can be. What is too long for a message is cut, and the last section says so.
func slackSections(s string) []slackPart {
	p := &slackParts{}
	for s != "" && !p.cut {
		one, rest, _ := strings.Cut(s, "\n")
		s = rest
		before, opens := strings.CutSuffix(one, fence)
		after, closes := strings.CutPrefix(one, fence)
		switch {
		case p.inCode && closes:
			p.flush()
			p.inCode = false
			p.take(after)
		case p.inCode:
			p.take(slackEscape(strings.ReplaceAll(one, fence, "'''")))
		case opens && !strings.Contains(before, fence):
			p.take(before)
			p.flush()
			p.inCode = true
		default:
			p.take(one)
		}
	}
	p.flush()
	if p.cut {
		p.out = append(p.out, slackPlain("… and more: "+texts.Thousands(slackAll)+" characters are shown at most"))
	}
	return p.out
}

// slackParts are the sections of a text, while it is being parted.
type slackParts struct {
	out    []slackPart
	b      strings.Builder // the present one
	length int             // of the present one
	all    int             // of all together
	inCode bool
	cut    bool
}

// take adds a line.
func (p *slackParts) take(line string) {
	const room = slackSection - 2*(len(fence)+1)
	for first := true; (first || line != "") && !p.cut; first = false {
		piece := slackHead(line, room)
		line = line[len(piece):]
		n := slackLen(piece) + 1
		if p.all+n > slackAll {
			piece, p.cut = slackHead(piece, max(slackAll-p.all, 0)), true
		}
		if p.length+n > room {
			p.flush()
		}
		p.b.WriteString(piece + "\n")
		p.length, p.all = p.length+n, p.all+n
	}
}

// flush ends the present section. There is room for the header, and for a section that says that there is more.
func (p *slackParts) flush() {
	text := strings.Trim(p.b.String(), "\n")
	p.b.Reset()
	p.length = 0
	switch {
	case strings.TrimSpace(text) == "":
	case len(p.out) == slackBlocks-2:
		p.cut = true
	case p.inCode:
		p.out = append(p.out, slackCode(text))
	default:
		p.out = append(p.out, slackPlain(text))
	}
}
