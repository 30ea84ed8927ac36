package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/locked"
)

// certified is a certificate of a client that has that name, and its key, as PEM.
func certified(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// who is the caller by its token or its certificate.
func who(q *http.Request) string {
	if len(q.TLS.PeerCertificates) > 0 {
		return q.TLS.PeerCertificates[0].Subject.CommonName
	}
	return strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer ")
}

func TestCredentialsThatAreRefusedAreReadAgain(t *testing.T) {
	tests := []struct {
		name string
		user func(t *testing.T, dir, name string) string // writes the files of a user, and gives its entry
	}{
		{"a token in the kubeconfig", func(_ *testing.T, _, name string) string { return "token: " + name }},
		{"a file with the token", func(t *testing.T, dir, name string) string {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(name), 0o600))
			return "tokenFile: " + filepath.Join(dir, "token")
		}},
		{"a certificate in the kubeconfig", func(t *testing.T, _, name string) string {
			t.Helper()
			certificate, key := certified(t, name)
			return fmt.Sprintf("client-certificate-data: %s, client-key-data: %s", base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key))
		}},
		{"files with the certificate", func(t *testing.T, dir, name string) string {
			t.Helper()
			certificate, key := certified(t, name)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "crt"), certificate, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), key, 0o600))
			return fmt.Sprintf("client-certificate: %s, client-key: %s", filepath.Join(dir, "crt"), filepath.Join(dir, "key"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var path, dir string
			var refused, taken atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if who(q) != "second" {
					if refused.Add(1) == 1 { // they are renewed a little late
						writeUser(t, path, tt.user(t, dir, "second"))
					}
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				if noJobs(w, q) {
					return
				}
				taken.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"}}`)
			}))
			server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
			server.StartTLS()
			defer server.Close()
			path, dir = kubeconfig(t, server.URL), t.TempDir()
			writeUser(t, path, tt.user(t, dir, "first"))
			r, err := New(Options{Kubeconfig: path})
			require.NoError(t, err)

			_, err = r.Create(t.Context(), run(attempt))

			require.NoError(t, err)
			assert.EqualValues(t, 1, refused.Load(), "the next call has the new ones")
			assert.EqualValues(t, 1, taken.Load())
		})
	}
}

// writeUser replaces the kubeconfig's user.
func writeUser(t *testing.T, path, user string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if !assert.NoError(t, err) {
		return
	}
	before, after, _ := strings.Cut(string(text), "user: {")
	_, after, _ = strings.Cut(after, "}")
	assert.NoError(t, os.WriteFile(path, []byte(before+"user: {"+user+"}"+after), 0o600))
}

func TestAKubeconfigThatCannotBeReadAgainLeavesTheCredentialsAsTheyAre(t *testing.T) {
	var path string
	var calls atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			assert.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	path = kubeconfig(t, server.URL)
	said := &locked.Buffer{}
	r, err := New(Options{Kubeconfig: path, Logger: slog.New(slog.NewTextHandler(said, nil))})
	require.NoError(t, err)

	_, err = r.Create(t.Context(), run(attempt))

	assert.True(t, shell.IsPermanent(err), "the server answered: %v", err)
	assert.Contains(t, said.String(), "cannot be read again")
}
