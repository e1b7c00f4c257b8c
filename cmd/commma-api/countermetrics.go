package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/commma/commma/internal/writebehind"
)

// debounceMetrics are those of debounced counters.
type debounceMetrics struct{ flushes, records *prometheus.CounterVec }

func newDebounceMetrics(r prometheus.Registerer) debounceMetrics {
	m := debounceMetrics{
		flushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commma_debounce_flushes_total", Help: "Flushes of debounced counters.",
		}, []string{"counter", "result"}),
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commma_debounce_records_total", Help: "Sessions whose counters were flushed.",
		}, []string{"counter"}),
	}
	r.MustRegister(m.flushes, m.records)
	return m
}

func (m debounceMetrics) observe(counter string) writebehind.ObserveFunc {
	return func(records int, err error) {
		m.flushes.WithLabelValues(counter, result(err)).Inc()
		if err == nil {
			m.records.WithLabelValues(counter).Add(float64(records))
		}
	}
}
