package config

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/orrery-go/orrery/shell/watchdog"
)

// watchdogConfig says who is told that the daemon works.
type watchdogConfig struct {
	URL          string  `toml:"url"` // empty: nobody
	EverySeconds float64 `toml:"every_seconds"`
}

// Make makes the watchdog; nil where none is configured.
func (w watchdogConfig) Make(healthy func(context.Context) error, log *slog.Logger) (*watchdog.Watchdog, error) {
	if w.URL == "" {
		return nil, nil //nolint:nilnil // none is configured
	}
	return watchdog.New(watchdog.Options{URL: w.URL, Every: Seconds(w.EverySeconds), Healthy: healthy, Logger: log})
}

// validate names the key that cannot be right.
func (w watchdogConfig) validate() error {
	if s := w.EverySeconds; !(s >= watchdog.MinEvery.Seconds() && s <= watchdog.MaxEvery.Seconds()) {
		return fmt.Errorf("watchdog.every_seconds: %v is not between %v and %v", s, watchdog.MinEvery.Seconds(), watchdog.MaxEvery.Seconds())
	}
	if w.URL == "" {
		return nil
	}
	if _, err := watchdog.New(watchdog.Options{URL: w.URL, Every: time.Minute, Healthy: func(context.Context) error { return nil }}); err != nil {
		return fmt.Errorf("watchdog.url: it is not the URL of a web server: want one such as \"https://hc-ping.com/ID\"")
	}
	return nil
}
