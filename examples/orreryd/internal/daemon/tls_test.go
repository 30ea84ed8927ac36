package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writePair writes a certificate of that name and its key, as of that time.
func writePair(t *testing.T, dir, name string, at time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	for _, f := range []string{cert, key} {
		require.NoError(t, os.Chtimes(f, at, at))
	}
	return cert, key
}

func served(t *testing.T, c *certificate) string {
	t.Helper()
	got, err := c.get(nil)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(got.Certificate[0])
	require.NoError(t, err)
	return leaf.Subject.CommonName
}

func TestARenewedCertificateIsServedWithoutARestart(t *testing.T) {
	dir, then := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cert, key := writePair(t, dir, "first", then)
	c, err := loadCertificate(cert, key, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	now := then
	c.now = func() time.Time { return now }
	assert.Equal(t, "first", served(t, c))
	writePair(t, dir, "second", then.Add(time.Hour))
	assert.Equal(t, "first", served(t, c), "the files are not looked at for each connection")
	now = now.Add(certLook)
	assert.Equal(t, "second", served(t, c))

	require.NoError(t, os.WriteFile(cert, []byte("half of a file"), 0o600))
	now = now.Add(certLook)
	assert.Equal(t, "second", served(t, c), "what cannot be read is not served")
	writePair(t, dir, "third", then.Add(2*time.Hour))
	now = now.Add(certLook)
	assert.Equal(t, "third", served(t, c))
}

func TestACertificateThatCannotBeReadIsRefusedAtTheStart(t *testing.T) {
	_, err := loadCertificate("/no/cert.pem", "/no/key.pem", slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "http.tls: stat /no/cert.pem")
}
