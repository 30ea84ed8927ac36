package mail_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// server is an SMTP server that remembers what it was sent.
type server struct {
	cert   tls.Certificate
	roots  *x509.CertPool
	tls    bool              // from the first byte
	offers []string          // beside the greeting
	says   map[string]string // what it answers to a line with that beginning, in place of what it would

	mu    sync.Mutex
	lines []string // all commands of all connections
	mails []string
}

// certificate is one for 127.0.0.1 and example.com.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.TLS.Certificates[0], roots
}

// listen serves on a port of 127.0.0.1 until the test ends.
func (s *server) listen(t *testing.T) (port int) {
	t.Helper()
	if s.cert.Certificate == nil {
		s.cert, s.roots = certificate(t)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				if s.tls {
					conn = s.secure(conn)
				}
				s.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
}

func (s *server) secure(conn net.Conn) net.Conn {
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12})
}

func (s *server) serve(conn net.Conn) {
	say := func(line string) { _, _ = fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 test ESMTP")
	in := bufio.NewScanner(conn)
	for in.Scan() {
		line := in.Text()
		s.mu.Lock()
		s.lines = append(s.lines, line)
		answer := ""
		for begin, with := range s.says {
			if strings.HasPrefix(line, begin) {
				answer = with
			}
		}
		s.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		switch {
		case answer != "":
			say(answer)
		case verb == "EHLO":
			say("250-test")
			for _, o := range s.offers {
				say("250-" + o)
			}
			say("250 8BITMIME")
		case verb == "STARTTLS":
			say("220 go ahead")
			conn = s.secure(conn)
			in = bufio.NewScanner(conn)
		case verb == "AUTH":
			say("235 welcome")
		case verb == "DATA":
			say("354 go ahead")
			var mail strings.Builder
			for in.Scan() && in.Text() != "." {
				mail.WriteString(strings.TrimPrefix(in.Text(), ".") + "\r\n")
			}
			s.mu.Lock()
			s.mails = append(s.mails, mail.String())
			s.mu.Unlock()
			say("250 accepted")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// got gives the commands and the mails so far.
func (s *server) got() (lines, mails []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(lines, s.lines...), append(mails, s.mails...)
}
