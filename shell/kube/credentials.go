package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// renewEvery is how often credentials that are refused are read again at most.
const renewEvery = time.Second

// loader reads the kubeconfig, or the service account, as it is now.
func (o Options) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
}

// renewing is a transport that reads its credentials again once the API server refuses
// them (401): the next call has what the kubeconfig, the files it names or the service
// account say by then. client-go alone would see a new token within a minute, a new
// certificate within five, and what stands in the kubeconfig itself never.
type renewing struct {
	load func() (http.RoundTripper, error)
	log  *slog.Logger

	mu     sync.Mutex
	now    http.RoundTripper
	loaded time.Time
}

// RoundTrip implements [http.RoundTripper].
func (t *renewing) RoundTrip(q *http.Request) (*http.Response, error) {
	with := t.transport()
	answer, err := with.RoundTrip(q)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		t.renew(with)
	}
	return answer, err
}

func (t *renewing) transport() http.RoundTripper {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// renew replaces the transport whose credentials were refused, unless that was done.
func (t *renewing) renew(refused http.RoundTripper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != refused || time.Since(t.loaded) < renewEvery {
		return
	}
	t.loaded = time.Now()
	next, err := t.load()
	if err != nil { // it may be half written: the next call tries again
		t.log.Warn("kube: the credentials were refused, and cannot be read again", "error", err)
		return
	}
	t.now = next
	utilnet.CloseIdleConnectionsFor(refused)
}

// WrappedRoundTripper lets client-go reach the transport within.
func (t *renewing) WrappedRoundTripper() http.RoundTripper { return t.transport() }

// renewedTransport is a transport with the credentials as they are now. Certificates are
// read here: client-go would go on with those it has.
func renewedTransport(o Options, prepare func(*rest.Config)) (http.RoundTripper, error) {
	cfg, err := o.loader().ClientConfig()
	if err != nil {
		return nil, err
	}
	prepare(cfg)
	for _, f := range []struct {
		path string
		data *[]byte
	}{{cfg.CertFile, &cfg.CertData}, {cfg.KeyFile, &cfg.KeyData}} {
		if f.path == "" || len(*f.data) > 0 {
			continue
		}
		if *f.data, err = os.ReadFile(f.path); err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
	}
	return rest.TransportFor(cfg)
}
