package config

import (
	"fmt"
	"net/url"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/jobs"
)

// MakeFeed makes what posts to the URLs of the configuration, if there are any.
func (j jobsConfig) MakeFeed() (_ *jobs.WebhookFeed, err error) {
	f := &jobs.WebhookFeed{UserAgent: "orreryd/" + version.String()}
	if f.Updates, err = feedURL("jobs.updates_url", j.UpdatesURL); err != nil {
		return nil, err
	}
	if f.Metrics, err = feedURL("jobs.metrics_url", j.MetricsURL); err != nil {
		return nil, err
	}
	name := j.FeedSecret
	if name == "" {
		return f, nil
	}
	s, ok := j.Secrets[name]
	if !ok {
		return nil, fmt.Errorf("jobs.feed_secret: there is no [jobs.secrets.%s]", text.Clip(name, 40))
	}
	secret, err := s.key("jobs.secrets." + name)
	if err != nil {
		return nil, err
	}
	if f.Signer, err = standardwebhooks.NewWebhook(secret); err != nil {
		return nil, fmt.Errorf("jobs.feed_secret: the key %q is not base64", text.Clip(name, 40))
	}
	return f, nil
}

// feedURL reads the URL of a web server, which may be a private one: the operator has named
// it. It may hold a secret: the error does not show it.
func feedURL(key, v string) (*url.URL, error) {
	if v == "" {
		return nil, nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: it is not the URL of a web server: want one such as \"https://example.com/runs\"", key)
	}
	return u, nil
}
