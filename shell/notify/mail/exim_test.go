//go:build unix

package mail_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"mime"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/mail"
)

// eximConfig is a server that takes mail for ops@example.com and south@example.com from clients that have logged in, and puts
// each into a file. Its spool is its own.
var eximConfig = template.Must(template.New("").Parse(`
primary_hostname = mail.example.com
spool_directory = {{.Dir}}/spool
log_file_path = {{.Dir}}/log/%slog
pid_file_path = {{.Dir}}/exim.pid
local_interfaces = 127.0.0.1
daemon_smtp_ports = {{.Port}}
{{if not .Root}}exim_user = {{.User}}
exim_group = {{.Group}}
{{end}}deliver_drop_privilege
tls_advertise_hosts = *
tls_certificate = {{.Dir}}/cert.pem
tls_privatekey = {{.Dir}}/key.pem
auth_advertise_hosts = ${if eq{$tls_in_cipher}{}{}{*}}
acl_smtp_rcpt = rcpt
keep_environment =
message_size_limit = 100K

begin acl
rcpt:
  deny message = log in first
    !authenticated = *
  defer message = greylisted
    local_parts = later
  deny message = unknown here
    !local_parts = ops : south
  accept domains = example.com

begin routers
{{range .People}}{{.}}:
  driver = accept
  domains = example.com
  local_parts = {{.}}
  transport = {{.}}
{{end}}
begin transports
{{range .People}}{{.}}:
  driver = appendfile
  directory = {{$.Dir}}/mail/{{.}}
  maildir_format
  create_directory
{{end}}
begin authenticators
cram:
  driver = cram_md5
  public_name = CRAM-MD5
  server_secret = ${if eq{$auth1}{cram}{{"{"}}{{.Password}}}fail}
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${if and{{"{{"}}eq{$auth2}{orrery}}{eq{$auth3}{{"{"}}{{.Password}}{{"}}}"}}}
  server_set_id = $auth2
`))

// exim is Debian's mail server on a port of its own.
type exim struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
	out  bytes.Buffer
}

func newExim(t *testing.T) (*exim, *x509.CertPool) {
	t.Helper()
	if os.Getenv("ORRERY_SLOW") != "1" {
		t.Skip("with a real mail server; set ORRERY_SLOW=1 to run it")
	}
	path, err := exec.LookPath("exim4")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/exim4") // which few have in their path
	}
	if err != nil {
		if os.Getenv("ORRERY_REQUIRE_PROGRAMS") != "" {
			require.NoError(t, err)
		}
		t.Skipf("this test needs exim4 (Debian: exim4-daemon-light): %v", err)
	}
	e := &exim{t: t, dir: t.TempDir()}
	require.NoError(t, os.Chmod(filepath.Dir(e.dir), 0o755)) // its users are not the test's
	for _, dir := range []string{"", "mail", "log", "spool"} {
		require.NoError(t, os.MkdirAll(filepath.Join(e.dir, dir), 0o777))
		require.NoError(t, os.Chmod(filepath.Join(e.dir, dir), 0o777))
	}
	cert, roots := certificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	for name, block := range map[string]pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		require.NoError(t, os.WriteFile(filepath.Join(e.dir, name), pem.EncodeToMemory(&block), 0o644)) // a key of the standard library's tests
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e.port = l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	require.NoError(t, l.Close())
	var config bytes.Buffer
	require.NoError(t, eximConfig.Execute(&config, map[string]any{
		"Dir": e.dir, "Port": e.port, "Root": os.Geteuid() == 0, "User": os.Geteuid(), "Group": os.Getegid(), "Password": secret, "People": []string{"ops", "south"},
	}))
	require.NoError(t, os.WriteFile(filepath.Join(e.dir, "exim.conf"), config.Bytes(), 0o644)) // its users are not the test's
	e.cmd = &exec.Cmd{Path: path}
	t.Cleanup(e.stop)
	return e, roots
}

// start runs the server until stop, and waits until it answers.
func (e *exim) start() {
	e.t.Helper()
	e.cmd = exec.CommandContext(context.Background(), e.cmd.Path, "-bdf", "-q1m", "-C", filepath.Join(e.dir, "exim.conf")) // stop ends it
	e.cmd.Stdout, e.cmd.Stderr = &e.out, &e.out
	require.NoError(e.t, e.cmd.Start())
	require.Eventually(e.t, func() bool {
		conn, err := new(net.Dialer).DialContext(e.t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(e.port)))
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	}, 30*time.Second, 10*time.Millisecond, "it does not answer: %s", &e.out)
}

func (e *exim) stop() {
	if e.cmd.Process != nil {
		_ = e.cmd.Process.Signal(syscall.SIGTERM)
		_ = e.cmd.Wait() // ended by a signal
		e.cmd = &exec.Cmd{Path: e.cmd.Path}
	}
}

// delivered gives the mails that somebody has, once there are so many.
func (e *exim) delivered(who string, want int) (mails []string) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		files, err := filepath.Glob(filepath.Join(e.dir, "mail", who, "new", "*"))
		require.NoError(e.t, err)
		mails = nil
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(e.t, err)
			mails = append(mails, string(b))
		}
		return len(mails) >= want
	}, 30*time.Second, 10*time.Millisecond, "%s has no %d mails: %s%s", who, want, &e.out, e.log())
	require.Len(e.t, mails, want)
	return mails
}

func (e *exim) log() string {
	b, _ := os.ReadFile(filepath.Join(e.dir, "log", "mainlog"))
	return string(b)
}

// TestARealMailServerDeliversWhatIsTold: Debian's exim4, with STARTTLS and each way to log in.
func TestARealMailServerDeliversWhatIsTold(t *testing.T) {
	e, roots := newExim(t)
	options := mail.Options{
		Host: "127.0.0.1", Port: e.port, Security: mail.STARTTLS, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Username: "cram", Password: secret, From: "Orrery <orrery@example.com>", To: []string{"ops@example.com", "Süd <south@example.com>"},
	}
	with := func(change func(*mail.Options)) *mail.Mail {
		o := options
		change(&o)
		return channel(t, o)
	}
	all := with(func(*mail.Options) {})
	require.ErrorContains(t, all.Tell(t.Context(), told), "connection refused", "it is down")

	e.start()
	require.NoError(t, all.Tell(t.Context(), told))
	for _, who := range []string{"ops", "south"} {
		header, text := read(t, e.delivered(who, 1)[0])
		subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
		require.NoError(t, err)
		assert.Equal(t, told.Title, subject)
		assert.Equal(t, "<orrery.0123abcd@example.com>", header.Get("Message-Id"))
		assert.Equal(t, "Tue, 10 Mar 2026 11:00:00 +0000", header.Get("Date"))
		assert.Contains(t, header.Get("Received"), "with esmtpsa", "it was encrypted, and it has logged in")
		assert.Equal(t, told.Text, strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"))
	}

	evil := "x\r\nBcc: evil@example.com\r\n\r\nbody"
	require.NoError(t, with(func(o *mail.Options) { o.To = o.To[:1] }).Tell(t.Context(), notify.Message{ID: "x1", Title: evil, Text: evil}))
	evils := e.delivered("ops", 2)
	header, _ := read(t, evils[len(evils)-1])
	assert.Empty(t, header.Get("Bcc"))
	assert.NotContains(t, e.log(), "evil@example.com")

	for name, row := range map[string]struct {
		change    func(*mail.Options)
		want      string
		permanent bool
	}{
		"a wrong password":             {func(o *mail.Options) { o.Password = "not the password" }, "535", true},
		"nobody logs in":               {func(o *mail.Options) { o.Username, o.Password = "", "" }, "log in first", true},
		"in the clear":                 {func(o *mail.Options) { o.Security, o.Username, o.Password = mail.None, "", "" }, "log in first", true},
		"one is unknown":               {func(o *mail.Options) { o.To = []string{"nobody@example.com"} }, "unknown here", true},
		"one is greylisted":            {func(o *mail.Options) { o.To = []string{"later@example.com"} }, "greylisted", false},
		"it is signed by a stranger":   {func(o *mail.Options) { o.TLS = nil }, "certificate", false},
		"it speaks no TLS at once":     {func(o *mail.Options) { o.Security = mail.Implicit }, "", false},
		"it has another name":          {func(o *mail.Options) { o.TLS = o.TLS.Clone(); o.TLS.ServerName = "other.example" }, "certificate", false},
		"a mail that it finds too big": {func(o *mail.Options) { o.To = o.To[:1] }, "552", true},
	} {
		m := told
		if strings.HasPrefix(name, "a mail") {
			m.Text = strings.Repeat("0123456789\n", 20_000)
		}
		err := with(row.change).Tell(t.Context(), m)
		require.ErrorContains(t, err, row.want, name)
		assert.Equal(t, row.permanent, shell.IsPermanent(err), "%s: %v", name, err)
		assert.NotContains(t, err.Error(), secret)
	}
	e.delivered("ops", 2) // none of these was delivered

	// By the other way to log in, to one whom it knows and one whom it does not.
	err := with(func(o *mail.Options) {
		o.Username, o.To = "orrery", []string{"nobody@example.com", "south@example.com"}
	}).Tell(t.Context(), told)
	require.ErrorContains(t, err, "535", "the server prefers CRAM-MD5, which knows another name")
	err = with(func(o *mail.Options) { o.To = []string{"nobody@example.com", "south@example.com"} }).Tell(t.Context(), told)
	require.ErrorContains(t, err, "1 of 2 recipients were refused: nobody@example.com: ")
	mails := e.delivered("south", 2)
	header, _ = read(t, mails[1])
	assert.Equal(t, "<orrery.0123abcd@example.com>", header.Get("Message-Id"), "what comes again has the same id")

	e.stop()
	err = all.Tell(t.Context(), told)
	require.ErrorContains(t, err, fmt.Sprintf("mail by 127.0.0.1:%d: ", e.port))
	assert.False(t, shell.IsPermanent(err), "it may come back")
	e.start()
	require.NoError(t, all.Tell(t.Context(), told))
	e.delivered("south", 3)
}
