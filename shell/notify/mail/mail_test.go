package mail_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/mail"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "s3cret-pass"

var told = notify.Message{
	ID: "0123abcd", At: time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("", 3600)), Title: `Action "nächtlich" failed`,
	Text:  "It failed.\n.\n..dots\nFrom here on " + strings.Repeat("long ", 300),
	Event: &effects.Event{ID: uuid.Max, Kind: effects.Custom("action", "failed")},
}

// options are those of a channel to that server.
func (s *server) options(t *testing.T, security mail.Security) mail.Options {
	port := s.listen(t)
	return mail.Options{
		Host: "127.0.0.1", Port: port, Security: security, TLS: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12},
		From: "Orrery <orrery@example.com>", To: []string{"ops@example.com", "Süd <south@example.com>"}, Hello: "here",
	}
}

func channel(t *testing.T, o mail.Options) *mail.Mail {
	t.Helper()
	m, err := mail.New(o)
	require.NoError(t, err)
	return m
}

// read parses a mail as a mail program does.
func read(t *testing.T, raw string) (header netmail.Header, text string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(raw))
	require.NoError(t, err)
	require.Equal(t, "quoted-printable", m.Header.Get("Content-Transfer-Encoding"))
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	require.NoError(t, err)
	return m.Header, string(body)
}

func TestAMailHasItsHeadersAndItsText(t *testing.T) {
	s := &server{}
	m := channel(t, s.options(t, mail.None))
	require.NoError(t, m.Tell(t.Context(), told))
	require.NoError(t, m.Tell(t.Context(), told))
	lines, mails := s.got()
	require.Len(t, mails, 2)
	assert.Subset(t, lines, []string{"EHLO here", "MAIL FROM:<orrery@example.com> BODY=8BITMIME", "RCPT TO:<ops@example.com>", "RCPT TO:<south@example.com>"})
	assert.NotContains(t, strings.Join(lines, "\n"), "AUTH")
	assert.Equal(t, mails[0], mails[1], "what comes again is the same, by its Message-ID and its date")
	for l := range strings.SplitSeq(mails[0], "\r\n") {
		assert.LessOrEqual(t, len(l), 998)
	}
	header, text := read(t, mails[0])
	subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
	require.NoError(t, err)
	assert.Equal(t, told.Title, subject)
	assert.Equal(t, "<orrery.0123abcd@example.com>", header.Get("Message-Id"))
	assert.Equal(t, "Tue, 10 Mar 2026 11:00:00 +0000", header.Get("Date"))
	assert.Equal(t, "auto-generated", header.Get("Auto-Submitted"))
	assert.Equal(t, "action:failed", header.Get("X-Orrery-Event"))
	to, err := header.AddressList("To")
	require.NoError(t, err)
	assert.Equal(t, []*netmail.Address{{Address: "ops@example.com"}, {Name: "Süd", Address: "south@example.com"}}, to)
	assert.Equal(t, told.Text+"\n", strings.ReplaceAll(text, "\r\n", "\n"))
}

func TestWhatIsToldCannotBecomeAHeader(t *testing.T) {
	s := &server{}
	m := channel(t, s.options(t, mail.None))
	evil := "x\r\nBcc: evil@example.com\nX-Evil: 1\r\n\r\nbody\u2028\x00"
	require.NoError(t, m.Tell(t.Context(), notify.Message{
		ID: evil, Title: evil, Text: evil, Event: &effects.Event{Kind: effects.Custom(evil, evil)},
	}))
	require.NoError(t, m.Notify(t.Context(), effects.Notify{Title: "", Message: evil}))
	lines, mails := s.got()
	assert.NotContains(t, strings.Join(lines, "\n"), "evil@")
	for _, raw := range mails {
		header, _ := read(t, raw)
		names := []string{}
		for name := range header {
			names = append(names, name)
		}
		slices.Sort(names)
		assert.Subset(t, []string{
			"Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To", "X-Auto-Response-Suppress", "X-Orrery-Event",
		}, names)
	}
	header, _ := read(t, mails[1])
	assert.Equal(t, "Orrery", header.Get("Subject"), "a mail without a subject looks like spam")
}

func TestThePasswordIsSentEncryptedOnly(t *testing.T) {
	plain := base64.StdEncoding.EncodeToString([]byte("\x00me\x00" + secret))
	for name, row := range map[string]struct {
		server   *server
		security mail.Security
		lines    []string
		want     string
	}{
		"STARTTLS":             {&server{offers: []string{"STARTTLS", "AUTH LOGIN PLAIN"}}, mail.STARTTLS, []string{"STARTTLS", "AUTH PLAIN " + plain}, ""},
		"implicit":             {&server{tls: true, offers: []string{"AUTH PLAIN"}}, mail.Implicit, []string{"AUTH PLAIN " + plain}, ""},
		"STARTTLS is missing":  {&server{offers: []string{"AUTH PLAIN"}}, mail.STARTTLS, nil, "does not support STARTTLS"},
		"no way to log in":     {&server{offers: []string{"STARTTLS", "AUTH XOAUTH2"}}, mail.STARTTLS, nil, `no way to log in that is known here, but "XOAUTH2"`},
		"it wants no password": {&server{offers: []string{"STARTTLS"}}, mail.STARTTLS, nil, "no way to log in"},
	} {
		t.Run(name, func(t *testing.T) {
			o := row.server.options(t, row.security)
			o.Username, o.Password = "me", secret
			err := channel(t, o).Tell(t.Context(), told)
			lines, mails := row.server.got()
			if row.want != "" {
				require.ErrorContains(t, err, row.want)
				assert.False(t, shell.IsPermanent(err), "it may be mended")
				assert.NotContains(t, strings.Join(lines, "\n"), plain)
				assert.Empty(t, mails)
				return
			}
			require.NoError(t, err)
			assert.Subset(t, lines, row.lines)
			assert.Len(t, mails, 1)
		})
	}
}

func TestAServerThatIsNotWhoItSaysGetsNothing(t *testing.T) {
	for _, security := range []mail.Security{mail.STARTTLS, mail.Implicit} {
		s := &server{tls: security == mail.Implicit, offers: []string{"STARTTLS", "AUTH PLAIN"}}
		o := s.options(t, security)
		o.TLS = nil // the system's authorities do not know the test's
		o.Username, o.Password = "me", secret
		err := channel(t, o).Tell(t.Context(), told)
		require.ErrorContains(t, err, "certificate")
		assert.False(t, shell.IsPermanent(err))
		_, mails := s.got()
		assert.Empty(t, mails)
	}
}

func TestWhetherAMailIsTriedAgainDependsOnTheAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		says      map[string]string
		want      string
		permanent bool
	}{
		"no such sender":      {map[string]string{"MAIL": "550 no\x07 such sender"}, `550 "no\a such sender"`, true},
		"what is that?":       {map[string]string{"MAIL": "500 what?"}, `500 "what?"`, true},
		"busy":                {map[string]string{"MAIL": "451 come back"}, `451 "come back"`, false},
		"too big":             {map[string]string{"DATA": "552 too big"}, `552 "too big"`, true},
		"a wrong password":    {map[string]string{"AUTH": "535 who are you? " + secret}, `535 "who are you? (redacted)"`, true},
		"a password too soon": {map[string]string{"AUTH": "454 later"}, `454 "later"`, false},
		"all unknown":         {map[string]string{"RCPT": "550 unknown"}, "2 of 2 recipients were refused: ops@example.com: ", true},
		"all greylisted":      {map[string]string{"RCPT": "451 greylisted"}, `451 "greylisted"`, false},
		"one is unknown":      {map[string]string{"RCPT TO:<ops": "550 unknown"}, "1 of 2 recipients were refused: ops@example.com: ", true},
		"one is not now":      {map[string]string{"RCPT TO:<south": "451 greylisted", "RCPT TO:<ops": "550 unknown"}, "2 of 2 recipients", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{offers: []string{"STARTTLS", "AUTH PLAIN"}, says: row.says}
			o := s.options(t, mail.STARTTLS)
			o.Username, o.Password = "me", secret
			err := channel(t, o).Tell(t.Context(), told)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, "mail by 127.0.0.1:")
			assert.Equal(t, row.permanent, shell.IsPermanent(err))
			assert.NotContains(t, err.Error(), secret)
		})
	}
}

func TestARecipientWhomTheServerDoesNotKnowKeepsTheMailFromNobodyElse(t *testing.T) {
	s := &server{says: map[string]string{"RCPT TO:<ops": "550 unknown"}}
	o := s.options(t, mail.None)
	require.Error(t, channel(t, o).Tell(t.Context(), told))
	lines, mails := s.got()
	require.Len(t, mails, 1)
	assert.Equal(t, 2, strings.Count(strings.Join(lines, "\n"), "RCPT TO:<south@example.com>"))
	header, _ := read(t, mails[0])
	to, err := header.AddressList("To")
	require.NoError(t, err)
	assert.Len(t, to, 2, "it says to whom it was addressed")
	assert.Empty(t, header.Get("Bcc"))
}

func TestTheOnlyRecipientIsAskedForOnce(t *testing.T) {
	s := &server{says: map[string]string{"RCPT": "550 unknown"}}
	o := s.options(t, mail.None)
	o.To = o.To[:1]
	err := channel(t, o).Tell(t.Context(), told)
	require.ErrorContains(t, err, "550")
	assert.NotContains(t, err.Error(), "1 of 1")
	assert.True(t, shell.IsPermanent(err))
	lines, _ := s.got()
	assert.Equal(t, 1, strings.Count(strings.Join(lines, "\n"), "RCPT TO:"))
}

func TestAServerIsAskedAtThePortOfItsSecurity(t *testing.T) {
	for security, want := range map[mail.Security]string{mail.STARTTLS: "mail.example.com:587", mail.Implicit: "mail.example.com:465", mail.None: "mail.example.com:25"} {
		asked := ""
		m := channel(t, mail.Options{
			Host: "mail.example.com", Security: security, From: "a@example.com", To: []string{"b@example.com"},
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				asked = address
				return nil, errors.New("no")
			},
		})
		require.ErrorContains(t, m.Tell(t.Context(), told), "mail by "+want+": ")
		assert.Equal(t, want, asked)
	}
}

func TestTheServerHasTheNameThatTheOptionsSay(t *testing.T) {
	for _, security := range []mail.Security{mail.STARTTLS, mail.Implicit} {
		s := &server{tls: security == mail.Implicit, offers: []string{"STARTTLS"}}
		o := s.options(t, security)
		o.TLS.ServerName = "other.test"
		require.ErrorContains(t, channel(t, o).Tell(t.Context(), told), "not other.test")
		o.TLS.ServerName = "example.com"
		require.NoError(t, channel(t, o).Tell(t.Context(), told))
	}
}

func TestNoVersionOfTLSIsUsedThatIsBroken(t *testing.T) {
	s := &server{tls: true}
	o := s.options(t, mail.Implicit)
	o.TLS.MinVersion, o.TLS.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	require.ErrorContains(t, channel(t, o).Tell(t.Context(), told), "no supported versions satisfy MinVersion and MaxVersion", "whatever the options say")
}

func TestWhatTheServerSaysForGoodHoldsAlsoIfTheEngineStops(t *testing.T) {
	s := &server{says: map[string]string{"MAIL": "550 no such sender"}}
	o := s.options(t, mail.None)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return watched{conn, "550 ", cancel}, err
	}
	err := channel(t, o).Tell(ctx, told)
	require.ErrorContains(t, err, "no such sender")
	assert.True(t, shell.IsPermanent(err))
}

// watched is a connection by which something is read that calls then.
type watched struct {
	net.Conn
	what string
	then func()
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if strings.Contains(string(p[:n]), w.what) {
		w.then()
	}
	return n, err
}

func TestWhatGoesWrongOnceTheServerHasTheMailDoesNotMatter(t *testing.T) {
	s := &server{says: map[string]string{"RSET": "500 what?", "QUIT": "500 what?"}}
	require.NoError(t, channel(t, s.options(t, mail.None)).Tell(t.Context(), told))
	_, mails := s.got()
	assert.Len(t, mails, 1)
}

func TestAServerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var far net.Conn
		o := mail.Options{
			Host: "mail.example.com", Security: mail.None, From: "a@example.com", To: []string{"b@example.com"}, Timeout: time.Minute,
			Dial: func(_ context.Context, network, address string) (net.Conn, error) {
				assert.Equal(t, "tcp mail.example.com:25", network+" "+address)
				near, other := net.Pipe()
				far = other
				return near, nil
			},
		}
		m := channel(t, o)
		begin := time.Now()
		err := m.Tell(t.Context(), told)
		require.EqualError(t, err, "mail by mail.example.com:25: it was not sent within 1m0s")
		assert.False(t, shell.IsPermanent(err))
		assert.Equal(t, time.Minute, time.Since(begin))
		_, err = far.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "the connection is closed")

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("the engine is stopping")) })
		begin = time.Now()
		require.EqualError(t, m.Tell(ctx, told), "mail by mail.example.com:25: the engine is stopping")
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestAServerThatIsNotThereIsTriedAgain(t *testing.T) {
	o := (&server{}).options(t, mail.None)
	o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	err := channel(t, o).Tell(t.Context(), told)
	require.ErrorContains(t, err, "connection refused")
	assert.False(t, shell.IsPermanent(err))
}

func TestWrongOptionsAreRefusedByName(t *testing.T) {
	good := mail.Options{Host: "h", Security: mail.STARTTLS, From: "a@example.com", To: []string{"b@example.com"}}
	for want, change := range map[string]func(o *mail.Options){
		`Host: "" is not the name`:     func(o *mail.Options) { o.Host = "" },
		`Host: "a b" is not the name`:  func(o *mail.Options) { o.Host = "a b" },
		"Port: 65536 is not between":   func(o *mail.Options) { o.Port = 65536 },
		"Timeout: -1ns is negative":    func(o *mail.Options) { o.Timeout = -1 },
		`Hello: "a\r\nb" is not`:       func(o *mail.Options) { o.Hello = "a\r\nb" },
		"Password: is needed beside":   func(o *mail.Options) { o.Username = "me" },
		"Username: is needed beside":   func(o *mail.Options) { o.Password = secret },
		"Password: username and pass":  func(o *mail.Options) { o.Username, o.Password = "me", secret+"\n" },
		`Security: "" is unknown: use`: func(o *mail.Options) { o.Security = "" },
		`Security: "none" would send`: func(o *mail.Options) {
			o.Security, o.Username, o.Password = mail.None, "me", secret
		},
		`From: "" is no address such`:        func(o *mail.Options) { o.From = "" },
		`From: "a@b\r\nBcc: c@d" is no`:      func(o *mail.Options) { o.From = "a@b\r\nBcc: c@d" },
		"To: has 0 addresses: want 1 to 100": func(o *mail.Options) { o.To = nil },
		"To: has 101 addresses: want 1 to":   func(o *mail.Options) { o.To = recipients(101) },
		`To[1]: "x" is no address such as`:   func(o *mail.Options) { o.To = append(o.To, "x") },
		`To[1]: "b@example.com" is there`:    func(o *mail.Options) { o.To = append(o.To, "B <b@example.com>") },
	} {
		o := good
		change(&o)
		_, err := mail.New(o)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), secret)
	}
	good.To, good.Port = recipients(100), 65535
	_, err := mail.New(good)
	require.NoError(t, err)
}

func recipients(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("r%d@example.com", i))
	}
	return list
}
