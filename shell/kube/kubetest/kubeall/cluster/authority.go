package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority issues the certificates of the cluster: NAME.crt and NAME.key in dir.
type authority struct {
	dir    string
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	serial int64
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, key: key}
	t := a.template("test-ca", "")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, a.write("ca.crt", "CERTIFICATE", der)
}

func (a *authority) template(name, organization string) *x509.Certificate {
	a.serial++
	t := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if organization != "" {
		t.Subject.Organization = []string{organization}
	}
	return t
}

// issue makes a certificate for server and client, for an organization (a group
// of Kubernetes) where one is given.
func (a *authority) issue(file, name, organization string, ips ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := a.template(name, organization)
	t.DNSNames = []string{"localhost"}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, ip := range ips {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	if err := a.write(file+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	return a.writeKey(file, key)
}

// issueServiceAccounts makes the pair of keys that signs their tokens.
func (a *authority) issueServiceAccounts() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := a.write("accounts.pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return a.writeKey("accounts", key)
}

func (a *authority) writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return a.write(file+".key", "PRIVATE KEY", der)
}

func (a *authority) write(file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
