package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
)

func TestWhatCannotBeReloadedIsToldAndTheRestIsReloadedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newReloads(slog.New(slog.NewTextHandler(&log, nil)))
		var bad error
		n := 0
		r.add("first", func(context.Context) ([]slog.Attr, error) { return nil, bad })
		r.add("second", func(context.Context) ([]slog.Attr, error) {
			n++
			return []slog.Attr{slog.Int("n", n)}, nil
		})
		began := time.Now()
		told := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.run(ctx, told)
		}()
		<-time.After(time.Hour)
		bad = errors.New("half a file")
		told <- struct{}{}
		synctest.Wait()
		assert.Contains(t, log.String(), `level=ERROR msg="could not be reloaded: what was read before stays in force" what=first error="half a file"`+"\n")
		assert.Contains(t, log.String(), `level=INFO msg=reloaded what=second n=1`+"\n")
		stamp := func(d time.Duration) string { return strconv.FormatFloat(float64(began.Add(d).Unix()), 'g', -1, 64) }
		assert.Equal(t, []string{
			`orrery_reload_success_timestamp_seconds{what="first"} ` + stamp(0), `orrery_reload_success_timestamp_seconds{what="second"} ` + stamp(time.Hour),
			`orrery_reload_successful{what="first"} 0`, `orrery_reload_successful{what="second"} 1`,
			`orrery_reload_total{outcome="done",what="first"} 0`, `orrery_reload_total{outcome="done",what="second"} 1`,
			`orrery_reload_total{outcome="failed",what="first"} 1`, `orrery_reload_total{outcome="failed",what="second"} 0`,
		}, scraped(t, r))

		bad = nil
		<-time.After(time.Hour)
		told <- struct{}{}
		synctest.Wait()
		got := scraped(t, r)
		assert.Contains(t, got, `orrery_reload_success_timestamp_seconds{what="first"} `+stamp(2*time.Hour))
		assert.Contains(t, got, `orrery_reload_successful{what="first"} 1`)
		assert.Contains(t, got, `orrery_reload_total{outcome="done",what="first"} 1`)
		cancel()
		<-done
	})
}

func TestWhatCouldNotBeReadAtTheStartWasNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(slog.New(slog.DiscardHandler))
		bad := errors.New("half a file")
		r.first(t.Context(), "set", func(context.Context) ([]slog.Attr, error) { return nil, bad })
		assert.Equal(t, []string{
			`orrery_reload_successful{what="set"} 0`, `orrery_reload_total{outcome="done",what="set"} 0`, `orrery_reload_total{outcome="failed",what="set"} 1`,
		}, scraped(t, r), "no time at which it was read")
		bad = nil
		<-time.After(time.Hour)
		r.all(t.Context())
		assert.Contains(t, scraped(t, r), `orrery_reload_success_timestamp_seconds{what="set"} `+strconv.FormatFloat(float64(time.Now().Unix()), 'g', -1, 64))
	})
}

// scraped gives the values that a scrape reads of a collector.
func scraped(t *testing.T, c prometheus.Collector) (values []string) {
	t.Helper()
	all := prometheus.NewRegistry()
	require.NoError(t, all.Register(c))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			values = append(values, strings.TrimSpace(line))
		}
	}
	return values
}

func TestTheCertificateIsReadAgainWhenTheDaemonIsToldTo(t *testing.T) {
	dir, then := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cert, key := writePair(t, dir, "first", then)
	c, err := loadCertificate(cert, key, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c.now = func() time.Time { return then }
	assert.Equal(t, "first", served(t, c))
	writePair(t, dir, "second", then)
	_, err = c.reload(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "second", served(t, c), "although the files are as old, and were looked at just now")
	require.NoError(t, os.WriteFile(key, []byte("half of a file"), 0o600))
	_, err = c.reload(t.Context())
	require.ErrorContains(t, err, "http.tls: "+cert)
	assert.Equal(t, "second", served(t, c))
}

func TestOfTheSettingsTheLevelOfTheLogIsReloadedAndTheOthersAreNamed(t *testing.T) {
	var log bytes.Buffer
	var level slog.LevelVar
	d := &daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	d.c.LogLevel, d.c.Listen, d.c.Engine.MaxBatch = "info", "127.0.0.1:0", 7
	now, fails := d.c, error(nil)
	reload := d.reloadConfig(func() (config.Config, error) { return now, fails }, &level)

	now.LogLevel = "debug"
	says, err := reload(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []slog.Attr{slog.String("log_level", "debug")}, says)
	assert.Equal(t, slog.LevelDebug, level.Level())
	assert.Empty(t, log.String())

	now.Engine.MaxBatch = 8
	_, err = reload(t.Context())
	require.NoError(t, err)
	assert.Contains(t, log.String(), `keys=[engine.max_batch]`)

	now.LogLevel = "error"
	for _, bad := range []func(){func() { fails = errors.New("orrery.toml:1:1: no") }, func() { fails, now.Listen = nil, "0.0.0.0:7460" }} {
		bad()
		_, err = reload(t.Context())
		require.Error(t, err)
		assert.Equal(t, slog.LevelDebug, level.Level(), "a bad file changes nothing")
	}
}
