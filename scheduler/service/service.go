package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/transport"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/scheduler"
	"sluice/scheduler/api"
	"sluice/scheduler/store"
)

// Options say how a Service is made. All fields must be set but those with a default.
type Options struct {
	Store store.Store
	// StateRoot is a folder that all schedulers and workers share, for the state directories of queries.
	StateRoot string
	Clusters  OpenClusters
	// Transport carries the control streams.
	Transport transport.Transport
	// Compile checks and compiles a query. The diagnostics are those of the spec; without errors among them
	// there is a Compiled, whose Deploy has the variables of Submission.Env that the spec names. Other errors are
	// *api.Error, or of the moment.
	//
	// replicas are those of operators that must have another number than the submission says.
	Compile func(s *api.Submission, replicas map[string]int) (*Compiled, dataflow.Diagnostics, error)
	Catalog dataflow.Catalog
	// URL is where others find the API of this scheduler.
	URL string
	// Cluster describes the cluster for as long as this scheduler does not lead.
	Cluster string
	// MaxQueries is how many queries may run at a time. Default 1000.
	MaxQueries int
	Log        *slog.Logger
}

// Compiled is a query that is ready to run. The Service adds State and Spill to the Deploy.
type Compiled struct {
	Config scheduler.Config
	Deploy metaquery.Deploy
	// Outputs are the files and folders that the sinks write. No two queries that run have one in common.
	Outputs []Output
	// Build and OpenSource are those of the workers, for an edit: the sources and sinks are tried here before any
	// worker has them. state is the state directory.
	Build      executor.Builder
	OpenSource func(state string) func(*operators.Context) (operators.Source, error)
}

const (
	usualMaxQueries = 1000
	leadPause       = 500 * time.Millisecond // after an attempt to lead that has failed
)

// Service runs queries while this process leads. It is an api.Backend.
type Service struct {
	o    Options
	ring *api.Ring

	mu    sync.Mutex
	reign *reign // nil while another one leads
	fails error  // why the last attempt to lead has failed; nil if it has not
}

// New makes a Service, which does nothing before Run.
func New(o Options) *Service {
	if o.MaxQueries == 0 {
		o.MaxQueries = usualMaxQueries
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{o: o, ring: api.NewRing()}
}

// Run waits until this process leads, and then runs all queries, again and again until ctx is done. Queries whose
// workers end with this process are then brought to a checkpoint, which takes some seconds at most; when now is done
// Run ends at once.
func (s *Service) Run(ctx, now context.Context) {
	for ctx.Err() == nil {
		err := s.lead(ctx, now)
		if err == nil || ctx.Err() != nil {
			continue
		}
		s.mu.Lock()
		s.fails = err
		s.mu.Unlock()
		s.o.Log.Warn("this scheduler cannot lead", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(leadPause):
		}
	}
}

// lead waits for the leadership and holds it until it is lost or ctx is done.
func (s *Service) lead(ctx, now context.Context) error {
	l, err := s.o.Store.Lead(ctx, []byte(s.o.URL))
	if err != nil {
		return err
	}
	r := newReign(ctx, now, s, l)
	err = r.begin()
	if err == nil {
		s.mu.Lock()
		s.reign, s.fails = r, nil
		s.mu.Unlock()
		s.o.Log.Info("this scheduler leads", "term", l.Term())
		<-r.ctx.Done()
		s.tellEnd(ctx, l)
	}
	s.mu.Lock()
	s.reign = nil
	s.mu.Unlock()
	r.end()
	return errors.Join(err, l.Resign())
}

// tellEnd says why this process leads no longer.
func (s *Service) tellEnd(ctx context.Context, l store.Leadership) {
	lost := false
	select {
	case <-l.Lost():
		lost = true
	default:
	}
	switch {
	case ctx.Err() != nil:
		s.o.Log.Info("this scheduler leads no longer, for it ends", "term", l.Term())
	case lost:
		s.o.Log.Warn("this scheduler leads no longer: the store says so, or has not answered for too long; it waits to lead again", "term", l.Term())
	default:
		s.o.Log.Warn("this scheduler leads no longer: another one has the cluster; it waits to lead again", "term", l.Term())
	}
}

// leads is the reign of this process; an error if there is none.
func (s *Service) leads() (*reign, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reign == nil || s.reign.ctx.Err() != nil || s.reign.leaving.Load() {
		return nil, api.Errorf(api.NoLeader, "this scheduler does not lead any more; try again")
	}
	return s.reign, nil
}

// Lead implements api.Backend.
func (s *Service) Lead() <-chan struct{} {
	r, err := s.leads()
	if err != nil {
		return nil
	}
	return r.ctx.Done()
}

// Leader implements api.Backend.
func (s *Service) Leader(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	url, err := s.o.Store.Leader(ctx)
	if err != nil || string(url) == s.o.URL {
		return "" // it does not lead yet
	}
	return string(url)
}

// Events implements api.Backend.
func (s *Service) Events() *api.Ring { return s.ring }

// Health implements api.Backend.
func (s *Service) Health(ctx context.Context) api.Health {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	h := api.Health{Status: api.StatusStandby, Store: "ok", Cluster: s.o.Cluster}
	trouble := func(format string, args ...any) {
		h.Status = api.StatusTrouble
		h.Reason = cmp.Or(h.Reason, fmt.Sprintf(format, args...))
	}
	url, err := s.o.Store.Leader(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.Store = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			h.Store = fmt.Sprintf("the store has not answered for %v", askTime)
		}
		trouble("%s", h.Store)
	}
	h.URL = string(url)
	r, err := s.leads()
	if err != nil {
		s.mu.Lock()
		fails := s.fails
		s.mu.Unlock()
		if other := h.URL != "" && h.URL != s.o.URL; fails != nil && !other {
			trouble("this scheduler cannot lead: %v", fails)
		}
		return h
	}
	h.Leader, h.Term, h.Cluster, h.URL = true, r.term, r.clusters.About(), s.o.URL
	if h.Status != api.StatusTrouble {
		h.Status = api.StatusOK
	}
	if c, ok := r.clusters.(interface{ Connected() error }); ok {
		if err := c.Connected(); err != nil {
			trouble("%v", err)
		}
	}
	for _, q := range r.all() {
		if !api.Ended(q.state()) {
			h.Queries++
		}
	}
	return h
}

// event tells what has happened.
func (s *Service) event(kind, query string, data *api.EventData, format string, args ...any) api.Event {
	text := fmt.Sprintf(format, args...)
	e := s.ring.Add(api.Event{Type: kind, Query: query, Text: text, Data: data})
	level := slog.LevelInfo
	switch kind {
	case api.EventCheckpoint:
		level = slog.LevelDebug
	case api.EventAlert, api.EventFailed, api.EventFailover:
		level = slog.LevelWarn
	}
	s.o.Log.Log(context.Background(), level, text, "event", kind, "query", query)
	return e
}
