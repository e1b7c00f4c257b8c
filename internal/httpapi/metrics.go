package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the server's own. Every label has a fixed set of values: routes are patterns, methods are HTTP's. So the
// number of series does not depend on what is sent.
type metrics struct {
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

// newMetrics registers the metrics. It fails when they are registered already.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "commma_http_request_duration_seconds",
			Help: "Time from the first line of a request to the end of its answer.",
			// From a board page out of Redis to the deadline of a request.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commma_http_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
	}
	for _, c := range []prometheus.Collector{m.duration, m.inFlight} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts an answered request. The histogram's count is the number of requests; there is no counter beside it.
func (m *metrics) observe(route, method string, status int, took time.Duration) {
	m.duration.WithLabelValues(route, method, strconv.Itoa(status)).Observe(took.Seconds())
}

// metricsHandler shows what the registry holds. One collector that fails does not hide the others.
func metricsHandler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
