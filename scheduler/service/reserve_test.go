package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/scheduler/api"
)

// failed are two queries that have failed and can be resumed.
func (b *bench) failed(one, two *api.Submission) {
	b.t.Helper()
	for _, s := range []*api.Submission{one, two} {
		in := filepath.Join(s.Dir, "in.csv")
		err := os.WriteFile(in, []byte("a\nx\n"), 0o600)
		b.submit(s)
		b.state(s.Name, api.Failed)
		if err = errors.Join(err, os.WriteFile(in, []byte("a\n9\n"), 0o600)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// atOnce resumes two queries at the same time, and wants the error for one of them.
func (b *bench) atOnce(want api.Code) {
	b.t.Helper()
	errs := make(chan error, 2)
	for _, name := range []string{"one", "two"} {
		go func() {
			_, err := b.Resume(context.Background(), name)
			errs <- err
		}()
	}
	first, second := <-errs, <-errs
	if first == nil {
		first, second = second, first
	}
	if code(first) != want || second != nil {
		b.t.Errorf("errors %v and %v, want %s and none", first, second, want)
	}
}

// TestResumedAtOnce: of two queries that are resumed at the same time one is, if they have an output in common or there is
// room for one.
func TestResumedAtOnce(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	one := named(t, "one")
	two := *one
	two.Name = "two"
	b.failed(one, &two)
	b.atOnce(api.OutputTaken)

	b = newBench(t, t.TempDir(), func(o *Options) { o.MaxQueries = 1 })
	b.leads()
	b.failed(named(t, "one"), named(t, "two"))
	b.atOnce(api.TooMany)
}

// TestReserved: what a query is about to write no other one can, nor take its place among those that run.
func TestReserved(t *testing.T) {
	b := newBench(t, t.TempDir(), func(o *Options) { o.MaxQueries = 2 })
	b.leads()
	one := named(t, "one")
	b.submit(one)
	b.state("one", api.Running)
	r, err := b.Service.leads()
	if err != nil {
		t.Fatal(err)
	}
	q := newQuery(r, r.newID("edited"))
	own := *one
	own.Spec = strings.Replace(own.Spec, "out.csv", "other.csv", 1)
	_, c, _, err := r.check(&own)
	if err != nil {
		t.Fatal(err)
	}
	release, err := r.reserve(q, "edited", c.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := own
	elsewhere.Name = "one"
	own.Name = "two"
	if _, err := b.Submit(t.Context(), &own); code(err) != api.TooMany {
		t.Errorf("submitted: %v", err)
	}
	if _, err := b.Replace(t.Context(), "one", &elsewhere, api.ReplaceOptions{}); code(err) != api.OutputTaken {
		t.Errorf("edited: %v", err)
	}
	release()
	b.submit(&own)
}

// TestRepairedOutput: a query whose record is put right is resumed only if nobody has taken its output.
func TestRepairedOutput(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	bad := named(t, "bad")
	b.submit(bad)
	b.state("bad", api.Running)
	q, err := b.find("bad")
	if err != nil {
		t.Fatal(err)
	}
	// As the next leader finds it whose record cannot be read.
	q.halt(errCancelled)
	<-q.over
	q.mu.Lock()
	rec := q.rec
	q.mu.Unlock()
	rec.State = api.Running
	damaged := q.r.damagedQuery(q.id, errors.New("unreadable"))
	close(damaged.over)
	q.r.mu.Lock()
	q.r.queries["bad"] = damaged
	q.r.mu.Unlock()
	two := *bad
	two.Name = "two"
	b.submit(&two)
	if err := q.change(t.Context(), func(r *record) { *r = rec }); err != nil { // it is put right
		t.Fatal(err)
	}
	if _, err := b.Resume(t.Context(), "bad"); code(err) != api.OutputTaken {
		t.Errorf("a query is resumed whose output another one writes: %v", err)
	}
}
