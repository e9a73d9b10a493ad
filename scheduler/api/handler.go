package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"sluice/dataflow"
	"sluice/specs/xmlspec"
)

// Prefix begins the paths of the API.
const Prefix = "/api/v1"

// Bounds of requests.
const (
	maxSubmission = 2*xmlspec.MaxSize + 1<<20 // bytes; a spec with all of its quotes escaped
	maxBody       = 1 << 20
	maxHeader     = 64 << 10
	callTime      = 30 * time.Second // for an answer that is no stream
	setTime       = 70 * time.Second // a change may be tried ten times
)

// Options say how a Handler is made.
type Options struct {
	Backend Backend
	Auth    Auth
	Log     *slog.Logger
	// Extra are handlers of other paths, such as /artifacts/, which need no token.
	Extra map[string]http.Handler
}

// handler is the API. Its methods may be called from any goroutine.
type handler struct {
	o       Options
	b       Backend
	metrics *metrics
	streams chan struct{} // has an element for each stream of events
}

// route is a path of the API with a method.
type route struct {
	method, path string
	open         bool // needs no token
	anywhere     bool // answered by a scheduler that does not lead too
	limit        int64
	params       []string // that the address may have behind "?"
	serve        func(h *handler, w http.ResponseWriter, r *http.Request) error
}

// eventParams are those of streams of events.
var eventParams = []string{"after", "follow"}

// routes are all routes; openapi.json describes them.
var routes = []route{
	{method: "POST", path: "/queries", limit: maxSubmission, serve: (*handler).submit},
	{method: "GET", path: "/queries", serve: (*handler).list},
	{method: "GET", path: "/queries/{name}", serve: (*handler).show},
	{method: "PUT", path: "/queries/{name}", limit: maxSubmission, params: []string{"allowDrop", "revision"}, serve: (*handler).replace},
	{method: "DELETE", path: "/queries/{name}", serve: (*handler).cancel},
	{method: "GET", path: "/queries/{name}/submission", serve: (*handler).submission},
	{method: "POST", path: "/queries/{name}/drain", serve: (*handler).drain},
	{method: "POST", path: "/queries/{name}/stop", serve: (*handler).stop},
	{method: "POST", path: "/queries/{name}/resume", serve: (*handler).resume},
	{method: "POST", path: "/queries/{name}/set", serve: (*handler).set},
	{method: "GET", path: "/queries/{name}/events", params: eventParams, serve: (*handler).events},
	{method: "GET", path: "/events", params: eventParams, serve: (*handler).events},
	{method: "GET", path: "/rules", anywhere: true, serve: (*handler).rules},
	{method: "GET", path: "/rules/{name}", anywhere: true, serve: (*handler).rule},
	{method: "GET", path: "/health", open: true, anywhere: true, serve: (*handler).health},
	{method: "GET", path: "/live", open: true, anywhere: true, serve: (*handler).live},
	{method: "GET", path: "/openapi.json", open: true, anywhere: true, serve: (*handler).openapi},
}

// metricsPath is beside the API, where Prometheus looks for it.
const metricsPath = "/metrics"

// NewHandler makes the handler of all paths of a scheduler.
func NewHandler(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &handler{o: o, b: o.Backend, metrics: newMetrics(o.Backend), streams: make(chan struct{}, maxStreams)}
	mux := http.NewServeMux()
	known := map[string]bool{}
	for _, r := range routes {
		mux.Handle(r.method+" "+Prefix+r.path, h.wrap(r))
		if !known[r.path] {
			known[r.path] = true
			mux.Handle(Prefix+r.path, h.wrap(route{path: r.path, open: true, anywhere: true, serve: badMethod(r.path)}))
		}
	}
	scrape := route{path: metricsPath, anywhere: true, serve: (*handler).scrape}
	mux.Handle("GET "+metricsPath, h.wrap(scrape))
	mux.Handle("GET "+Prefix+metricsPath, h.wrap(scrape))
	for pattern, extra := range o.Extra {
		mux.Handle(pattern, extra)
	}
	mux.Handle("/", h.wrap(route{path: "other", open: true, anywhere: true, serve: unknownPath}))
	clean := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/") && r.URL.Path != "/" {
			// The mux would send it to another path, where it is another call.
			h.wrap(route{path: "other", open: true, anywhere: true, serve: unknownPath}).ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(h.wrap(route{path: "other", open: true, anywhere: true, serve: crossOrigin}))
	return cross.Handler(clean)
}

// NewServer makes a server with bounds and timeouts for a handler.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// badMethod refuses methods that a path does not have, and says which it has.
func badMethod(path string) func(*handler, http.ResponseWriter, *http.Request) error {
	var methods []string
	for _, r := range routes {
		if r.path == path {
			methods = append(methods, r.method)
		}
		if r.path == path && r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	allow := strings.Join(methods, ", ")
	return func(_ *handler, w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", allow)
		return Errorf(BadMethod, "%s is no method of %s, which has %s", r.Method, r.URL.Path, allow)
	}
}

func unknownPath(_ *handler, _ http.ResponseWriter, r *http.Request) error {
	return Errorf(UnknownPath, "there is no path %q; %s/openapi.json lists those that there are", r.URL.Path, Prefix)
}

func crossOrigin(*handler, http.ResponseWriter, *http.Request) error {
	return Errorf(Forbidden, "the request comes from a page of another site")
}

// wrap makes the handler of a route: it checks who calls, bounds what comes, sends elsewhere what is for
// the leader, and turns errors and panics into answers.
func (h *handler) wrap(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		out := &response{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				h.o.Log.Error("a fault in the program", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				h.fail(out, Errorf(Internal, "a fault in the program; the log of the scheduler has more"))
			}
			h.metrics.called(rt, r.Method, out.status, time.Since(began))
		}()
		out.Header().Set("X-Content-Type-Options", "nosniff")
		out.Header().Set("Cache-Control", "no-store")
		if err := h.pass(rt, out, r); err != nil {
			h.fail(out, err)
		}
	})
}

// pass serves a request if it may be.
func (h *handler) pass(rt route, w *response, r *http.Request) error {
	if err := h.o.Auth.check(r, rt.open); err != nil {
		if err.Code == Unauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		return err
	}
	if err := rt.checkParams(r); err != nil {
		return err
	}
	if !rt.anywhere && h.b.Lead() == nil {
		return h.redirect(w, r)
	}
	limit := rt.limit
	if limit == 0 {
		limit = maxBody
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	return rt.serve(h, w, r)
}

// checkParams refuses parameters that a route does not have, as bodies are refused with fields that are not known.
func (rt *route) checkParams(r *http.Request) *Error {
	if rt.method == "" {
		return nil // no route of the API
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Errorf(BadRequest, "the parameters of the address cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case !slices.Contains(rt.params, name):
			return Errorf(BadRequest, "%s", dataflow.Diagnostic{
				Message: fmt.Sprintf("%s %s has no parameter %q", rt.method, r.URL.Path, name), Suggestion: dataflow.Nearest(name, rt.params),
			})
		case len(given[name]) > 1:
			return Errorf(BadRequest, "the parameter %s is given %d times", name, len(given[name]))
		}
	}
	return nil
}

// redirect sends a request to the leader.
func (h *handler) redirect(w http.ResponseWriter, r *http.Request) error {
	url := h.b.Leader(r.Context())
	if url == "" {
		w.Header().Set("Retry-After", "1")
		return Errorf(NoLeader, "no scheduler leads at the moment; try again")
	}
	w.Header().Set("Location", strings.TrimSuffix(url, "/")+r.URL.RequestURI())
	w.WriteHeader(http.StatusTemporaryRedirect)
	return nil
}

// fail answers with an error.
func (h *handler) fail(w *response, err error) {
	var e *Error
	if !errors.As(err, &e) {
		h.o.Log.Error("a fault in the program", "error", err)
		e = Errorf(Internal, "%v", err)
	}
	if w.status != 0 {
		return // it is too late
	}
	c, known := codes[e.Code]
	if !known {
		c.status = http.StatusInternalServerError
	}
	if err := reply(w, c.status, Failure{*e}); err != nil {
		h.o.Log.Debug("an answer could not be sent", "error", err)
	}
}

// response notes the status that was sent.
type response struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *response) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// reply answers with v.
func reply(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone wants no answer
	return nil
}

// during bounds a call.
func during(r *http.Request, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(r.Context(), d, fmt.Errorf("no answer within %v", d))
}
