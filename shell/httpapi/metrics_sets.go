package httpapi

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/shell"
)

// setMetrics count the sets of files that were applied by requests. Their names are no labels: whoever may apply a set chooses them.
type setMetrics struct {
	applies, changes *prometheus.CounterVec
	succeeded        prometheus.Gauge
}

// Outcomes of applying a set. A dry run has none.
const (
	setChanged   = "changed"
	setUnchanged = "unchanged"
	setRefused   = "refused"
	setFailed    = "failed"
)

func newSetMetrics() setMetrics {
	m := setMetrics{
		applies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_set_applies_total", Help: "Sets of files that requests have applied, by outcome.",
		}, []string{"outcome"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_set_changes_total", Help: "What applying sets has done, by action.",
		}, []string{"action"}),
		succeeded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "orrery_set_apply_success_timestamp_seconds", Help: "When a request last applied a set that was not refused; 0: none has.",
		}),
	}
	for _, outcome := range []string{setChanged, setUnchanged, setRefused, setFailed} {
		m.applies.WithLabelValues(outcome)
	}
	for _, action := range []shell.SetAction{shell.SetCreates, shell.SetUpdates, shell.SetAdopts, shell.SetRemoves} {
		m.changes.WithLabelValues(string(action))
	}
	return m
}

// applied notes what became of a set that was applied.
func (s *Server) applied(res shell.SetResult, err error) {
	m := s.metrics.sets
	switch {
	case err != nil && classify(err).status >= http.StatusInternalServerError:
		m.applies.WithLabelValues(setFailed).Inc()
	case err != nil:
		m.applies.WithLabelValues(setRefused).Inc()
	case !res.Applied: // a dry run
	case res.Changed():
		m.applies.WithLabelValues(setChanged).Inc()
	default:
		m.applies.WithLabelValues(setUnchanged).Inc()
	}
	if err != nil || !res.Applied {
		return
	}
	m.succeeded.Set(float64(s.now().Std().UnixMilli()) / 1000)
	for _, c := range res.Changes {
		if c.Action != shell.SetKeeps && c.Action != shell.SetLeaves {
			m.changes.WithLabelValues(string(c.Action)).Inc()
		}
	}
}
