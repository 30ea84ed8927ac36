//go:build unix

package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

func TestADaemonThatStandsByReadsAgainOnAHangup(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	first := start(t, "--database", database, "--config", member(t, "first"))
	const cluster = "[cluster]\nname = 'second'\nlease_seconds = 2\n"
	file := write(t, "second.toml", cluster)
	second := begin(t, []string{"ORRERY_DATABASE=" + database}, "orchestrate", "--listen", "127.0.0.1:0", "--config", file)
	second.url = urlIn.FindString(await(t, second.out, `stands by at http://`))
	reload := func(config, want string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
		second.signal(syscall.SIGHUP)
		await(t, second.errs, want)
	}
	reload(cluster+"[engine]\nmax_batch = 0\n", `level=ERROR msg="could not be reloaded: .*" what=configuration error=.*max_batch`)
	metrics := second.metrics()
	assert.Contains(t, metrics, `orrery_reload_total{outcome="failed",what="configuration"} 1`)
	assert.Contains(t, metrics, "\norrery_standby 1\n")
	const token = "0123456789-0123456789"
	reload("log_level = 'debug'\n"+strings.Replace(cluster, "= 2", "= 3", 1)+"[engine]\nmax_batch = 7\n[[tokens]]\nname = 'adm'\nadmin = true\ntoken = '"+token+"'\n",
		`level=WARN msg="settings have changed .* restart the daemon for them" keys=\[cluster.lease_seconds\]`)
	await(t, second.errs, `msg=reloaded what=configuration log_level=debug need_restart=1`)

	first.signal(syscall.SIGTERM)
	assert.Zero(t, first.code())
	second.works()
	status := func(with string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, second.url+"/v1/actions", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", with)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	assert.Equal(t, http.StatusUnauthorized, status(""), "the settings that were read while it stood by hold")
	assert.Equal(t, http.StatusOK, status("Bearer "+token))
	second.signal(syscall.SIGTERM)
	assert.Zero(t, second.code())
}

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{t, key, cert}
}

// pem gives its own certificate.
func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// sign writes a certificate of that serial number and its key into files.
func (a authority) sign(cert, key string, serial int64) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "orreryd"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, private.Public(), a.key)
	require.NoError(a.t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.t, err)
	require.NoError(a.t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(a.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
}

func TestDaemonsTrustTheAuthorityOfTheirCluster(t *testing.T) {
	t.Parallel()
	database, dir := postgrestest.Database(t), t.TempDir()
	ours, others := newAuthority(t), newAuthority(t)
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ours.sign(cert, key, 2)
	require.NoError(t, os.WriteFile(ca, others.pem(), 0o600))
	daemon := func(name, says string) *process {
		file := write(t, name+".toml", fmt.Sprintf("[cluster]\nname = %q\nlease_seconds = 2\nca_file = %q\n[http.tls]\ncert = %q\nkey = %q\n", name, ca, cert, key))
		p := begin(t, []string{"ORRERY_DATABASE=" + database}, "orchestrate", "--listen", "127.0.0.1:0", "--config", file)
		p.url = regexp.MustCompile(`https://\S+`).FindString(await(t, p.out, says+` at https://`))
		return p
	}
	first := daemon("first", "is ready")
	second := daemon("second", "stands by")

	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: patience}
	ask := func(p *process) (status int, text string, serial int64) {
		t.Helper()
		resp, err := client.Get(p.url + "/v1/cluster")
		require.NoError(t, err)
		all, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, string(all), resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	status, text, serial := ask(second)
	assert.Equal(t, http.StatusServiceUnavailable, status, "%s", text)
	assert.Contains(t, text, "nothing was done")
	assert.EqualValues(t, 2, serial)
	await(t, second.errs, `a request could not be passed on.*certificate signed by unknown authority`)

	require.NoError(t, os.WriteFile(ca, ours.pem(), 0o600))
	ours.sign(cert, key, 3)
	second.signal(syscall.SIGHUP)
	await(t, second.errs, `msg=reloaded what=certificate cert=`)
	await(t, second.errs, `msg=reloaded what=configuration`)
	status, text, serial = ask(second)
	assert.Equal(t, http.StatusOK, status, "%s", text)
	assert.Contains(t, text, `"instance":"first"`, "it was passed on")
	assert.EqualValues(t, 3, serial)

	require.NoError(t, os.WriteFile(ca, []byte("nothing"), 0o600))
	second.signal(syscall.SIGHUP)
	await(t, second.errs, `level=ERROR msg="could not be reloaded: .*" what=configuration error=.*cluster.ca_file: \S+ has no certificate in the form PEM`)
	status, text, _ = ask(second)
	assert.Equal(t, http.StatusOK, status, "%s", text)
	for _, p := range []*process{second, first} {
		p.signal(syscall.SIGTERM)
		assert.Zero(t, p.code())
	}
}
