// Package mail tells people things by e-mail: a [notify.Channel] that hands messages to an SMTP
// server. It is a package of its own for the library that it brings along.
package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
)

// Security says how the connection is protected.
type Security string

// Ways of protecting a connection. There is no default one: a server that offers no
// STARTTLS any more must not be handed a password in the clear.
const (
	STARTTLS Security = "starttls" // TLS after STARTTLS, and nothing without it
	Implicit Security = "implicit" // TLS from the first byte
	None     Security = "none"     // no TLS, and no password
)

// Options say how mail is sent.
type Options struct {
	// Host and Port are the server's. Port 0 is 587 with [STARTTLS], 465 with [Implicit], else 25.
	Host string
	Port int
	// Security is required.
	Security Security
	// TLS is what a connection begins with; nil: the system's authorities. The name that the
	// certificate must have is Host, unless ServerName says otherwise.
	TLS *tls.Config
	// Username and Password log in, by the best way that the server offers: SCRAM-SHA-256,
	// CRAM-MD5, PLAIN, LOGIN. Without Username nobody logs in.
	Username, Password string
	// From is who sends: "Orrery <orrery@example.com>" or the address alone; To are who get it.
	From string
	To   []string
	// Hello is the name by which this machine greets; empty: its own.
	Hello string
	// Timeout bounds the sending of one message. Zero means 30 seconds.
	Timeout time.Duration
	// Dial connects; nil: a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Mail is a channel that sends e-mail. One message goes to all recipients, each of whom sees the
// others. An answer from 500 to 599 says that it will never work; after others, and where the
// server cannot be reached, it may be tried again: as the Message-ID follows from what is told,
// a mail program can tell what came twice.
type Mail struct {
	o    Options
	from *netmail.Address
	to   []*netmail.Address
}

// maxRecipients bounds Options.To.
const maxRecipients = 100

// New makes a Mail. The error names the option that cannot be right. Whether there is such a
// server shows when something is sent.
func New(o Options) (*Mail, error) {
	m := &Mail{o: o}
	if err := m.checkServer(); err != nil {
		return nil, err
	}
	var err error
	if m.from, err = address(o.From); err != nil {
		return nil, fmt.Errorf("From: %w", err)
	}
	if len(o.To) == 0 || len(o.To) > maxRecipients {
		return nil, fmt.Errorf("To: has %d addresses: want 1 to %d", len(o.To), maxRecipients)
	}
	for i, text := range o.To {
		to, err := address(text)
		if err != nil {
			return nil, fmt.Errorf("To[%d]: %w", i, err)
		}
		if slices.ContainsFunc(m.to, func(has *netmail.Address) bool { return has.Address == to.Address }) {
			return nil, fmt.Errorf("To[%d]: %s is there already", i, quoted(to.Address))
		}
		m.to = append(m.to, to)
	}
	m.o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	return m, nil
}

// checkServer checks what concerns the connection, and fills in the port.
func (m *Mail) checkServer() error {
	o := &m.o
	switch {
	case o.Host == "" || strings.ContainsFunc(o.Host, func(r rune) bool { return r <= ' ' || r == '/' || r == '@' || r > unicode.MaxASCII }):
		return fmt.Errorf("Host: %s is not the name or the address of a server", quoted(o.Host))
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("Port: %d is not between 1 and 65535", o.Port)
	case o.Timeout < 0:
		return fmt.Errorf("Timeout: %v is negative", o.Timeout)
	case strings.ContainsFunc(o.Hello, func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII }):
		return fmt.Errorf("Hello: %s is not the name of a machine", quoted(o.Hello))
	case o.Username == "" && o.Password != "":
		return errors.New("Username: is needed beside a password")
	case o.Username != "" && o.Password == "":
		return errors.New("Password: is needed beside a username")
	case strings.ContainsFunc(o.Username+o.Password, unicode.IsControl):
		return errors.New("Password: username and password must have no control characters")
	}
	switch o.Security {
	case STARTTLS:
		o.Port = cmp.Or(o.Port, 587)
	case Implicit:
		o.Port = cmp.Or(o.Port, 465)
	case None:
		if o.Username != "" {
			return fmt.Errorf("Security: %q would send the password in the clear: use %q or %q, or no username", None, STARTTLS, Implicit)
		}
		o.Port = cmp.Or(o.Port, 25)
	default:
		return fmt.Errorf("Security: %s is unknown: use %q, %q or %q", quoted(string(o.Security)), STARTTLS, Implicit, None)
	}
	return nil
}

// address reads an address, with a name or without.
func address(text string) (*netmail.Address, error) {
	a, err := netmail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsFunc(a.Address, func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII || r == '<' || r == '>' }) {
		return nil, fmt.Errorf("%s is no address such as %q or %q", quoted(text), "ops@example.com", "Ops <ops@example.com>")
	}
	return a, nil
}

func quoted(s string) string { return strconv.Quote(texts.Clip(s, 96)) }

// Notify sends a title and a message that somebody has written.
func (m *Mail) Notify(ctx context.Context, n effects.Notify) error {
	return m.Tell(ctx, notify.MessageOf(effects.Ref{}, n))
}

// Tell sends a message.
func (m *Mail) Tell(ctx context.Context, message notify.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.o.Timeout, fmt.Errorf("it was not sent within %v", m.o.Timeout))
	defer cancel()
	conn := &connection{ctx: ctx, o: &m.o}
	defer conn.close()
	client, err := m.client(conn)
	if err != nil {
		return shell.Permanent(fmt.Errorf("mail: %w", err))
	}
	return m.failed(ctx, m.send(ctx, client, message))
}

// send connects, and hands over the message. What goes wrong once the server has accepted it
// does not matter.
func (m *Mail) send(ctx context.Context, client *gomail.Client, message notify.Message) error {
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.CloseWithSMTPClient(session) }() // it has the message, or not
	err = handOver(client, session, m.compose(message, nil))
	if refused, ok := errors.AsType[*gomail.SendError](err); ok && refused.Reason == gomail.ErrSMTPRcptTo && len(m.to) > 1 {
		return m.sendEach(client, session, message)
	}
	return err
}

// handOver sends one mail.
func handOver(client *gomail.Client, session *smtp.Client, msg *gomail.Msg) error {
	if err := client.SendWithSMTPClient(session, msg); !msg.IsDelivered() {
		return cmp.Or(err, errors.New("it was not sent"))
	}
	return nil
}

// sendEach hands over the message once for each recipient, so that one whom the server does not
// know keeps it from nobody else. The error tells which ones it refused, and is temporary where
// one of them was refused for now.
func (m *Mail) sendEach(client *gomail.Client, session *smtp.Client, message notify.Message) error {
	var refused []string
	var worst error
	for _, to := range m.to {
		err := handOver(client, session, m.compose(message, to))
		if err == nil {
			continue
		}
		refused = append(refused, to.Address+": "+said(err))
		if worst == nil || !isPermanent(err) {
			worst = err
		}
	}
	if worst == nil {
		return nil
	}
	return partly{fmt.Sprintf("%d of %d recipients were refused: %s", len(refused), len(m.to), strings.Join(refused, "; ")), worst}
}

// partly is the error of a message that not all of its recipients got.
type partly struct {
	text  string
	worst error
}

func (p partly) Error() string { return p.text }
func (p partly) Unwrap() error { return p.worst }

// failed says of an error which server it is about, and whether trying again is pointless.
func (m *Mail) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	permanent := isPermanent(err)
	if cause := context.Cause(ctx); cause != nil && !permanent {
		err = cause
	}
	text := strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, said(err)), "\uFFFD")
	if m.o.Password != "" {
		text = strings.ReplaceAll(text, m.o.Password, "(redacted)")
	}
	out := fmt.Errorf("mail by %s: %s", m.address(), texts.Clip(text, 600))
	if permanent {
		return shell.Permanent(out)
	}
	return out
}

// said is an error without the recipients and the Message-ID that the library adds.
func said(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", affected ")
	return text
}

// isPermanent reports whether the server said so: a certificate that is not right, or a server
// that lacks STARTTLS for a while, may be mended.
func isPermanent(err error) bool {
	if e, ok := errors.AsType[*gomail.SendError](err); ok {
		return e.ErrorCode() >= 500 && !e.IsTemp()
	}
	e, ok := errors.AsType[*textproto.Error](err)
	return ok && e.Code >= 500
}

// address is the server's.
func (m *Mail) address() string { return net.JoinHostPort(m.o.Host, strconv.Itoa(m.o.Port)) }

// client makes the client of one message.
func (m *Mail) client(conn *connection) (*gomail.Client, error) {
	options := []gomail.Option{ // its own time limit must not come first: its error says less
		gomail.WithPort(m.o.Port), gomail.WithTimeout(m.o.Timeout + time.Minute), gomail.WithTLSConfig(m.tls()),
		gomail.WithDialContextFunc(conn.dial), gomail.WithoutNoop(), gomail.WithTLSPolicy(gomail.NoTLS),
		gomail.WithoutSMTPUTF8(), // all of it is ASCII: a server on the way that lacks it must not refuse it
	}
	if m.o.Security == STARTTLS {
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if m.o.Hello != "" {
		options = append(options, gomail.WithHELO(m.o.Hello))
	}
	if m.o.Username != "" {
		options = append(options, gomail.WithSMTPAuthCustom(&login{username: m.o.Username, password: m.o.Password, host: m.o.Host}))
	}
	return gomail.NewClient(m.o.Host, options...)
}

// tls gives what a connection to the server begins with.
func (m *Mail) tls() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.o.TLS != nil {
		c = m.o.TLS.Clone()
		c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	}
	c.ServerName = cmp.Or(c.ServerName, m.o.Host)
	return c
}

// connection is that of one message. It breaks when the context ends: the library watches it
// only until it is made.
type connection struct {
	ctx  context.Context //nolint:containedctx // that of the message, which begins and ends with it
	o    *Options
	conn net.Conn
	stop func() bool
}

// dial connects, with TLS if that comes first.
func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial := c.o.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	c.stop = context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	if c.o.Security != Implicit {
		return conn, nil
	}
	secure := tls.Client(conn, (&Mail{o: *c.o}).tls())
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure, nil
}

func (c *connection) close() {
	if c.conn != nil {
		c.stop()
		_ = c.conn.Close() // it is closed already where all went well
	}
}

// maxTitle bounds a subject, in bytes.
const maxTitle = 200

// compose makes the mail. Nothing that is told can become a header: the subject is one line,
// which is encoded where it is not plain ASCII, and the addresses are the operator's. Only is
// who gets it of those to whom it is addressed; nil: all.
func (m *Mail) compose(message notify.Message, only *netmail.Address) *gomail.Msg {
	msg := gomail.NewMsg(gomail.WithCharset(gomail.CharsetUTF8), gomail.WithEncoding(gomail.EncodingQP), gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(m.from)
	if only == nil {
		msg.ToMailAddress(m.to...)
	} else {
		all := make([]string, len(m.to))
		for i, to := range m.to {
			all[i] = to.String()
		}
		msg.SetGenHeaderPreformatted("To", strings.Join(all, ",\r\n "))
		msg.BccMailAddress(only)
	}
	msg.Subject(subject(message.Title))
	msg.SetMessageIDWithValue(messageID(message.ID, m.from.Address))
	at := message.At
	if at.IsZero() || at.Unix() <= 0 {
		at = time.Now()
	}
	msg.SetDateWithValue(at.UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: nobody answers by machine
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	if message.Event != nil {
		msg.SetGenHeader("X-Orrery-Event", headerText(message.Event.Kind.String()))
	}
	msg.SetBodyString(gomail.TypeTextPlain, strings.ReplaceAll(strings.TrimRight(message.Text, "\n")+"\n", "\n", "\r\n"))
	return msg
}

// subject is a title as a header can have it.
func subject(title string) string {
	return cmp.Or(texts.Bound(headerText(title), maxTitle), "Orrery")
}

// headerText is one line.
func headerText(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, texts.Valid(s)))
}

// messageID names a message, within the domain of who sends it. An id that has other characters
// than a Message-ID may have, or none, is replaced by what follows from it.
func messageID(id, from string) string {
	plain := id != "" && len(id) <= 128 && strings.Trim(id, "-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	if !plain {
		id = notify.MessageOf(effects.Ref{}, effects.Notify{Title: id}).ID
	}
	return "orrery." + id + from[strings.LastIndexByte(from, '@'):]
}

// login logs in by the best way that the server offers.
type login struct {
	username, password, host string
	chosen                   smtp.Auth
}

// Start chooses the way.
func (l *login) Start(server *smtp.ServerInfo) (proto string, toServer []byte, err error) {
	if !server.TLS {
		return "", nil, errors.New("the connection is not encrypted: the password is not sent")
	}
	offers := func(way string) bool {
		return slices.ContainsFunc(server.Auth, func(s string) bool { return strings.EqualFold(s, way) })
	}
	switch {
	case offers("SCRAM-SHA-256"):
		l.chosen = smtp.ScramSHA256Auth(l.username, l.password)
	case offers("CRAM-MD5"):
		l.chosen = smtp.CRAMMD5Auth(l.username, l.password)
	case offers("PLAIN"):
		l.chosen = smtp.PlainAuth("", l.username, l.password, l.host, false)
	case offers("LOGIN"):
		l.chosen = smtp.LoginAuth(l.username, l.password, l.host, false)
	default:
		return "", nil, fmt.Errorf("the server offers no way to log in that is known here, but %q: want SCRAM-SHA-256, CRAM-MD5, PLAIN or LOGIN", strings.Join(server.Auth, " "))
	}
	return l.chosen.Start(server)
}

// Next goes on in the way that was chosen.
func (l *login) Next(fromServer []byte, more bool) ([]byte, error) {
	return l.chosen.Next(fromServer, more)
}
