package config

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAWatchdogIsMadeOfItsURLAlone(t *testing.T) {
	healthy := func(context.Context) error { return nil }
	w, err := watchdogConfig{EverySeconds: 60}.Make(healthy, slog.Default())
	require.NoError(t, err)
	assert.Nil(t, w, "without an URL there is none")
	w, err = watchdogConfig{URL: "https://hc.example.com/s3cret", EverySeconds: 1}.Make(healthy, slog.Default())
	require.NoError(t, err)
	assert.NotNil(t, w)
}

func TestAWatchdogThatCannotBeIsRefusedWithoutItsURL(t *testing.T) {
	for want, w := range map[string]watchdogConfig{
		"watchdog.url: it is not the URL of a web server":          {URL: "s3cret", EverySeconds: 60},
		"watchdog.every_seconds: 0.5 is not between 1 and 86400":   {EverySeconds: 0.5},
		"watchdog.every_seconds: 90000 is not between 1 and 86400": {EverySeconds: 90_000},
	} {
		err := w.validate()
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "s3cret")
	}
	c := Config{Watchdog: watchdogConfig{URL: "https://hc.example.com/s3cret", EverySeconds: 60}}
	assert.NotContains(t, c.Redacted().Watchdog.URL+c.Shown(), "s3cret")
}
