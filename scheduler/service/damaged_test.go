package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/executor/state"
	"sluice/executor/state/shared"
	"sluice/scheduler/api"
	"sluice/scheduler/store"
)

// named is a query that follows its input.
func named(t *testing.T, name string) *api.Submission {
	t.Helper()
	s, _ := chain(t, follows)
	s.Name = name
	return s
}

// id is the id of a query.
func (b *bench) id(name string) string {
	b.t.Helper()
	q, err := b.find(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return q.id
}

// TestDamagedRecord: a query whose record cannot be read has failed and says why; the others run, and it goes on when its record
// is put right.
func TestDamagedRecord(t *testing.T) {
	root := t.TempDir()
	first := newBench(t, root, nil)
	first.leads()
	for _, name := range []string{"good", "bad", "worse"} {
		first.submit(named(t, name))
		first.state(name, api.Running)
	}
	bad, worse, good := first.id("bad"), first.id("worse"), first.id("good")
	first.leave()
	<-first.over

	value := func(path string) string { return filepath.Join(root, "store", "values", path, "+value") }
	text, err := os.ReadFile(value(queryPath(bad)))
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{queryPath(bad): "garbage", historyPath(good): "garbage"} {
		if err := os.WriteFile(value(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, version, err := first.kept.Get(t.Context(), queryPath(worse))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.kept.Put(t.Context(), queryPath(worse), []byte("{}"), version); err != nil {
		t.Fatal(err)
	}

	b := newBench(t, root, nil)
	b.leads()
	b.state("good", api.Running)
	for name, want := range map[string]string{"bad": "damaged", "worse": "it has no submission"} {
		q := b.state(name, api.Failed)
		if !strings.Contains(q.Error, want) || !strings.Contains(q.Error, queryPath(b.id(name))+" of the store") {
			t.Errorf("%s: %q, want %q", name, q.Error, want)
		}
		if _, err := b.Submission(t.Context(), name); code(err) != api.QueryEnded {
			t.Errorf("the submission of %s: %v", name, err)
		}
		if _, err := b.Resume(t.Context(), name); code(err) != api.QueryEnded || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is resumed: %v", name, err)
		}
		if _, err := b.Replace(t.Context(), name, named(t, name), api.ReplaceOptions{}); code(err) != api.QueryEnded {
			t.Errorf("%s is replaced: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(root, "queries", b.id(name))); err != nil {
			t.Errorf("the state of %s: %v", name, err)
		}
	}
	if h := b.Health(t.Context()); h.Status != api.StatusOK || h.Queries != 1 {
		t.Errorf("%+v", h)
	}
	if err := os.WriteFile(value(queryPath(bad)), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Resume(t.Context(), "bad"); err != nil {
		t.Fatal(err)
	}
	b.state("bad", api.Running)
	if _, err := b.Cancel(t.Context(), "worse"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Query(t.Context(), "worse"); code(err) != api.UnknownQuery {
		t.Errorf("a damaged query that was cancelled: %v", err)
	}
}

// TestRecordCheck: a record must be that of its query.
func TestRecordCheck(t *testing.T) {
	right := record{Name: "a.b", Submission: &api.Submission{}, State: api.Running, Dir: "/root/a.b.3.1"}
	if err := right.check("a.b.3.1"); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(r *record){
		"a name":       func(r *record) { r.Name = "b" },
		"a state":      func(r *record) { r.State = "" },
		"a live state": func(r *record) { r.State = api.Starting },
		"a submission": func(r *record) { r.Submission = nil },
		"no directory": func(r *record) { r.Dir = "" },
		"a directory":  func(r *record) { r.Dir = "/root" },
	} {
		r := right
		if change(&r); r.check("a.b.3.1") == nil {
			t.Errorf("a record with %s of another query is taken", what)
		}
	}
	if !newer("x.2.1", "a.1.9") || !newer("q.1.10", "q.1.9") || newer("q.1.9", "q.1.9") || newer("odd", "q.1.9") {
		t.Error("the order of ids is wrong")
	}
}

// TestCannotLead: a scheduler that could lead, and cannot, is in trouble and says why; so is one whose cluster is not connected.
func TestCannotLead(t *testing.T) {
	broken := make(chan bool, 1)
	broken <- true
	off := errors.New("off")
	var cluster *unconnected
	b := newBench(t, t.TempDir(), func(o *Options) {
		open := o.Clusters
		o.Cluster = "of tests"
		o.Clusters = func(ctx context.Context, s store.Store) (Clusters, error) {
			if is := <-broken; is {
				broken <- is
				return nil, errors.New("it is broken")
			}
			c, err := open(ctx, s)
			cluster = &unconnected{Clusters: c, err: off}
			return cluster, err
		}
	})
	b.until("it says that it cannot lead", func() bool {
		h := b.Health(t.Context())
		return h.Status == api.StatusTrouble && h.Reason == "this scheduler cannot lead: it is broken" && !h.Leader && h.Cluster == "of tests" && h.Store == "ok"
	})
	<-broken
	broken <- false
	b.leads()
	if h := b.Health(t.Context()); h.Status != api.StatusTrouble || h.Reason != "off" || !h.Leader {
		t.Errorf("a cluster that is not connected: %+v", h)
	}
	cluster.err = nil
	if h := b.Health(t.Context()); h.Status != api.StatusOK || h.Reason != "" || !h.Leader {
		t.Errorf("one that is: %+v", h)
	}
}

// unconnected are clusters that cannot be used at the moment.
type unconnected struct {
	Clusters
	err error
}

// Connected says why.
func (u *unconnected) Connected() error { return u.err }

// TestOutputs: no two queries have an output in common, unless one has ended for good.
func TestOutputs(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	one := named(t, "one")
	b.submit(one)
	b.state("one", api.Running)
	two := *one
	two.Name, two.Dir = "two", one.Dir+"-link"
	if err := os.Symlink(one.Dir, two.Dir); err != nil {
		t.Fatal(err)
	}
	taken := func(what string, err error, by string) {
		t.Helper()
		if code(err) != api.OutputTaken || !strings.Contains(err.Error(), `of query "`+by+`" writes`) || !strings.Contains(err.Error(), "out.csv") {
			t.Errorf("%s: %v, want %s", what, err, api.OutputTaken)
		}
	}
	_, err := b.Submit(t.Context(), &two)
	taken("the same file by another path", err, "one")
	other := two
	other.Spec = strings.Replace(two.Spec, "out.csv", "other.csv", 1)
	b.submit(&other)
	_, err = b.Replace(t.Context(), "two", &two, api.ReplaceOptions{})
	taken("an edit", err, "one")
	if _, err := b.Stop(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.state("one", api.Stopped)
	two.Name = "three"
	_, err = b.Submit(t.Context(), &two)
	taken("that of a query that is stopped", err, "one")
	if _, err := b.Cancel(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.submit(&two)
	b.state("three", api.Running)
}

// TestOutputsOfBefore: the outputs of a query that another release has stored are known once it runs.
func TestOutputsOfBefore(t *testing.T) {
	root := t.TempDir()
	first := newBench(t, root, nil)
	first.leads()
	one := named(t, "one")
	first.submit(one)
	first.state("one", api.Running)
	q, err := first.find("one")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.change(t.Context(), func(r *record) { r.Outputs = nil }); err != nil {
		t.Fatal(err)
	}
	first.leave()
	<-first.over
	b := newBench(t, root, nil)
	b.leads()
	b.state("one", api.Running)
	two := *one
	two.Name = "two"
	if _, err := b.Submit(t.Context(), &two); code(err) != api.OutputTaken {
		t.Errorf("%v", err)
	}
}

// TestOutputOfFailed: a query that has failed is resumed only if nobody has taken its output.
func TestOutputOfFailed(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	one := named(t, "one")
	if err := os.WriteFile(filepath.Join(one.Dir, "in.csv"), []byte("a\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.submit(one)
	b.state("one", api.Failed)
	if err := os.WriteFile(filepath.Join(one.Dir, "in.csv"), []byte("a\n9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	two := *one
	two.Name = "two"
	b.submit(&two)
	if _, err := b.Resume(t.Context(), "one"); code(err) != api.OutputTaken {
		t.Errorf("a query is resumed whose output another one writes: %v", err)
	}
	b.state("one", api.Failed)
}

// TestSweep: what submissions have left that were never stored is removed by the next leader, and nothing else.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	first := newBench(t, root, nil)
	first.leads()
	first.submit(named(t, "q"))
	first.end()
	make := func(id string) string {
		dir := filepath.Join(root, "queries", id)
		s, err := shared.Open(dir, shared.Options{Coordinator: true, Fsync: state.FsyncNever})
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	gone := make("left.1.7")
	kept := []string{make("later.99.1"), make("written.1.8"), make("odd"), filepath.Join(root, "queries", "q.1.1")}
	if err := os.WriteFile(filepath.Join(kept[1], "rows"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, root, nil)
	b.leads()
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there: %v", err)
	}
	for _, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

// TestSkippedRows: rows that were skipped are told when a query ends, and what has been counted stays for the next scheduler.
func TestSkippedRows(t *testing.T) {
	root := t.TempDir()
	first := newBench(t, root, nil)
	first.leads()
	s, _ := chain(t, `<param name="on-error" value="skip"/>`)
	if err := os.WriteFile(filepath.Join(s.Dir, "in.csv"), []byte("a\n9\nx\n10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first.submit(s)
	check := func(q *api.Query) {
		t.Helper()
		told := slices.ContainsFunc(q.Alerts, func(a api.Alert) bool { return a.Text == `operator "src": 1 bad row skipped` })
		i := slices.IndexFunc(q.Operators, func(o api.Operator) bool { return o.Name == "src" })
		if !told || i < 0 || q.Operators[i].Skipped != 1 || q.Operators[i].Out != 2 {
			t.Errorf("alerts %v, operators %+v", q.Alerts, q.Operators)
		}
	}
	check(first.state("chain", api.Finished))
	first.until("it is stored", func() bool {
		text, _, err := first.kept.Get(context.Background(), historyPath(first.id("chain")))
		var h history
		return err == nil && json.Unmarshal(text, &h) == nil && len(h.Operators) > 0 && bytes.Contains(text, []byte("skipped"))
	})
	first.end()
	b := newBench(t, root, nil)
	b.leads()
	check(b.state("chain", api.Finished))
}

// TestDamagedCore: a query the record of whose tasks cannot be read waits and says why; when it is put right it goes on. The
// others run.
func TestDamagedCore(t *testing.T) {
	root := t.TempDir()
	first := newBench(t, root, nil)
	first.leads()
	for _, name := range []string{"good", "bad"} {
		first.submit(named(t, name))
		first.state(name, api.Running)
	}
	core := filepath.Join(root, "store", "values", corePath(first.id("bad"), 0), "+value")
	first.leave()
	<-first.over
	text, err := os.ReadFile(core)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(core, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, root, nil)
	b.leads()
	b.state("good", api.Running)
	b.until("it says why it waits", func() bool {
		q, err := b.Query(t.Context(), "bad")
		return err == nil && q.State == api.Starting && strings.Contains(q.Error, "damaged") && strings.Contains(q.Error, core)
	})
	if err := os.WriteFile(core, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.state("bad", api.Running)
}
