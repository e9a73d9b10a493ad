package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	scrapeTime = 5 * time.Second
	// mostOperators bounds the operators that have metrics: those of the queries that come first by name.
	mostOperators = 5000
)

// metrics are what Prometheus gets. Labels have few values: routes, states, and the names of the queries
// that run with those of their operators.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(b Backend) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_api_requests_total", Help: "Requests to the API.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_api_request_seconds", Help: "Time for an answer; of a stream, until its end.",
			Buckets: []float64{0.001, 0.01, 0.1, 1, 10},
		}, []string{"route"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.seconds, &queryCollector{b}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 2 * scrapeTime, ErrorHandling: promhttp.ContinueOnError,
	})
	return m
}

func (h *handler) scrape(w http.ResponseWriter, r *http.Request) error {
	h.metrics.handler.ServeHTTP(w, r)
	return nil
}

// called counts a request.
func (m *metrics) called(rt route, method string, status int, d time.Duration) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodHead:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(rt.path, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(rt.path).Observe(d.Seconds())
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_"+name, help, labels, nil)
}

var (
	descLeader     = describe("leader", "1 if this scheduler leads.")
	descQueries    = describe("queries", "Queries by state.", "state")
	descEpoch      = describe("query_checkpoint_epoch", "Epoch of the last complete checkpoint; -1 after the last one.", "query")
	descAge        = describe("query_checkpoint_age_seconds", "Time since the last checkpoint was complete.", "query")
	descWorkers    = describe("query_workers", "Worker processes that are up.", "query")
	descWanted     = describe("query_workers_wanted", "Worker processes that there should be.", "query")
	descRestarts   = describe("query_restarts_total", "Tasks that were launched again.", "query")
	descGeneration = describe("query_generations", "Sum of the generations of all tasks.", "query")
	descBare       = describe("query_tasks_unprotected", "Tasks whose copies or standbys are missing.", "query")
	descBacklog    = describe("query_backlog_bytes", "Bytes that wait to be worked on.", "query")
	descRetained   = describe("query_retained_bytes", "Bytes that are kept for replays.", "query")
	descIn         = describe("operator_rows_in_total", "Rows that an operator has taken.", "query", "operator")
	descOut        = describe("operator_rows_out_total", "Rows that an operator has given.", "query", "operator")
	descLate       = describe("operator_rows_late_total", "Rows that came too late.", "query", "operator")
	descSkipped    = describe("operator_rows_skipped_total", "Bad rows that were passed over or sent to the output for errors.", "query", "operator")
)

// queryCollector asks the backend when it is asked.
type queryCollector struct{ b Backend }

// Describe implements prometheus.Collector.
func (c *queryCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descLeader, descQueries, descEpoch, descAge, descWorkers, descWanted, descRestarts, descGeneration, descBare,
		descBacklog, descRetained, descIn, descOut, descLate, descSkipped,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *queryCollector) Collect(to chan<- prometheus.Metric) {
	if c.b.Lead() == nil {
		to <- gauge(descLeader, 0)
		return
	}
	to <- gauge(descLeader, 1)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	queries, err := c.b.Queries(ctx)
	if err != nil {
		return
	}
	states := map[string]int{}
	operators := 0
	for i := range queries {
		q := &queries[i]
		states[q.State]++
		if Ended(q.State) {
			continue
		}
		collectQuery(to, q)
		if operators += len(q.Operators); operators <= mostOperators {
			collectOperators(to, q)
		}
	}
	for _, s := range States {
		to <- gauge(descQueries, states[s], s)
	}
}

func gauge[N int | int64](d *prometheus.Desc, v N, labels ...string) prometheus.Metric {
	return constant(d, prometheus.GaugeValue, float64(v), labels)
}

func counter(d *prometheus.Desc, v int64, labels ...string) prometheus.Metric {
	return constant(d, prometheus.CounterValue, float64(v), labels)
}

func constant(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels []string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(d, kind, v, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return m
}

func collectQuery(to chan<- prometheus.Metric, q *Query) {
	var backlog, retained, generations int64
	bare := 0
	for _, t := range q.Tasks {
		backlog, retained, generations = backlog+t.Backlog, retained+t.Retained, generations+t.Generation
		if t.Unprotected {
			bare++
		}
	}
	to <- gauge(descEpoch, q.Checkpoint, q.Name)
	if q.CheckpointTime != nil {
		to <- constant(descAge, prometheus.GaugeValue, time.Since(*q.CheckpointTime).Seconds(), []string{q.Name})
	}
	to <- gauge(descWorkers, len(q.Processes), q.Name)
	to <- gauge(descWanted, q.Workers, q.Name)
	to <- counter(descRestarts, q.Restarts, q.Name)
	to <- gauge(descGeneration, generations, q.Name)
	to <- gauge(descBare, bare, q.Name)
	to <- gauge(descBacklog, backlog, q.Name)
	to <- gauge(descRetained, retained, q.Name)
}

func collectOperators(to chan<- prometheus.Metric, q *Query) {
	for _, o := range q.Operators {
		to <- counter(descIn, o.In, q.Name, o.Name)
		to <- counter(descOut, o.Out, q.Name, o.Name)
		to <- counter(descLate, o.Late, q.Name, o.Name)
		to <- counter(descSkipped, o.Skipped+o.Dead, q.Name, o.Name)
	}
}
