package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/scheduler/api"
	"sluice/scheduler/store"
)

// editRows is how many rows the query of edits reads.
const editRows = 900

// versions is a query that writes its rows with a version, and in the end their number and sum.
func versions(t *testing.T) *api.Submission {
	t.Helper()
	dir := t.TempDir()
	var in strings.Builder
	in.WriteString("a\n")
	for i := range editRows {
		fmt.Fprintln(&in, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte(in.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return &api.Submission{Dir: dir, Workers: 2, Spec: `<dataflow name="versions"><type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="s" type="R"/><param name="path" value="in.csv"/><param name="rate" value="450"/></operator>
  <operator name="m" type="map"><input name="s"/><param name="select" value="a, 1 AS v"/><output name="o"/></operator>
  <operator name="total" type="aggregate"><input name="s"/><param name="select" value="count(*) AS n, sum(a) AS s"/><output name="t"/></operator>
  <operator name="out" type="writer"><input name="o"/><param name="path" value="out.csv"/></operator>
  <operator name="out2" type="writer"><input name="t"/><param name="path" value="total.csv"/></operator></dataflow>`}
}

// version is the query with another version.
func version(s *api.Submission, v int) *api.Submission {
	edited := *s
	edited.Spec = strings.Replace(s.Spec, "a, 1 AS v", fmt.Sprintf("a, %d AS v", v), 1)
	return &edited
}

// written are the versions of the rows in the order of the input: each row is there once.
func written(t *testing.T, s *api.Submission) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "out.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		a, v, _ := strings.Cut(line, ",")
		n, err := strconv.Atoi(v)
		if err != nil || a != strconv.Itoa(i) {
			t.Fatalf("row %d is %q", i, line)
		}
		list = append(list, n)
	}
	return list
}

// whole checks the rows of a query that has finished, and gives the versions that they have, each once.
func whole(t *testing.T, s *api.Submission) []int {
	t.Helper()
	list := written(t, s)
	if len(list) != editRows {
		t.Errorf("%d rows, want %d", len(list), editRows)
	}
	want := fmt.Sprintf("n,s\n%d,%d\n", editRows, editRows*(editRows-1)/2)
	if got, err := os.ReadFile(filepath.Join(s.Dir, "total.csv")); err != nil || string(got) != want {
		t.Errorf("total: %q, want %q, error %v", got, want, err)
	}
	return slices.Compact(list)
}

// rows waits until a query has written so many rows.
func (b *bench) rows(s *api.Submission, n int) {
	b.t.Helper()
	b.until("rows are written", func() bool {
		text, err := os.ReadFile(filepath.Join(s.Dir, "out.csv"))
		return err == nil && strings.Count(string(text), "\n") > n
	})
}

// TestReplace: a query that is edited while it runs goes on with its state, on another number of workers; what does not
// fit is refused, and the query goes on as it was.
func TestReplace(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	s := versions(t)
	b.submit(s)
	b.rows(s, 100)

	if _, err := b.Replace(t.Context(), "none", s, api.ReplaceOptions{}); code(err) != api.UnknownQuery {
		t.Errorf("error %v", err)
	}
	wrong := version(s, 2)
	wrong.Spec = strings.Replace(wrong.Spec, "a, 2 AS v", "b, 2 AS v", 1)
	if _, err := b.Replace(t.Context(), "versions", wrong, api.ReplaceOptions{}); code(err) != api.BadSpec {
		t.Errorf("error %v", err)
	}
	wrong = version(s, 2)
	wrong.Name = "other"
	if _, err := b.Replace(t.Context(), "versions", wrong, api.ReplaceOptions{}); code(err) != api.BadRequest {
		t.Errorf("error %v", err)
	}

	q, err := b.Replace(t.Context(), "versions", version(s, 2), api.ReplaceOptions{})
	if err != nil || q.Edit == nil || q.Edit.State != api.EditDone || !slices.Equal(q.Edit.Kept, []string{"total"}) || len(q.Edit.New) > 0 {
		t.Fatalf("%+v, error %v", q, err)
	}
	b.rows(s, 200)
	wider := version(s, 2)
	wider.Workers = 3
	before := q.Revision - 1
	if _, err = b.Replace(t.Context(), "versions", wider, api.ReplaceOptions{Revision: &before}); code(err) != api.BadEdit || !strings.Contains(err.Error(), "revision 1, and not 0") {
		t.Errorf("error %v", err)
	}
	if q, err = b.Replace(t.Context(), "versions", wider, api.ReplaceOptions{Revision: &q.Revision}); err != nil || q.Workers != 3 || q.Edit.State != api.EditDone {
		t.Errorf("%+v, error %v", q, err)
	}
	b.rows(s, 300)

	// The state of total would be lost; and another output is none that the query can go on with.
	lossy := version(s, 3)
	lossy.Workers = 3
	lossy.Spec = strings.Replace(lossy.Spec, "sum(a) AS s", "max(a) AS s", 1)
	if _, err := b.Replace(t.Context(), "versions", lossy, api.ReplaceOptions{}); code(err) != api.BadEdit || !strings.Contains(err.Error(), `operator "total": it had`) {
		t.Errorf("error %v", err)
	}
	if now, err := b.Query(t.Context(), "versions"); err != nil || now.State != api.Running || now.Edit == nil || now.Edit.State != api.EditDone {
		t.Errorf("it was stopped for that: %+v, error %v", now, err)
	}
	elsewhere := version(s, 4)
	elsewhere.Spec = strings.Replace(elsewhere.Spec, "out.csv", "other.csv", 1)
	if _, err := b.Replace(t.Context(), "versions", elsewhere, api.ReplaceOptions{}); code(err) != api.BadEdit || !strings.Contains(err.Error(), "have been committed") {
		t.Errorf("error %v", err)
	}
	q = b.state("versions", api.Finished)
	if q.Edit.State != api.EditRefused || q.Workers != 3 {
		t.Errorf("%+v", q)
	}
	if got := whole(t, s); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("versions %v", got)
	}
	for _, o := range q.Operators {
		if o.Name == "src" && o.Out != editRows || o.Name == "out" && o.Out != editRows {
			t.Errorf("%+v", o)
		}
	}
	if _, err := b.Replace(t.Context(), "versions", version(s, 5), api.ReplaceOptions{}); code(err) != api.QueryEnded {
		t.Errorf("error %v", err)
	}
}

// TestReplaceDrops: with consent state that fits no operator is dropped.
func TestReplaceDrops(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	s := versions(t)
	b.submit(s)
	b.rows(s, 100)
	lossy := version(s, 2)
	lossy.Spec = strings.Replace(lossy.Spec, "sum(a) AS s", "max(a) AS s", 1)
	q, err := b.Replace(t.Context(), "versions", lossy, api.ReplaceOptions{AllowDrop: true})
	if err != nil || len(q.Edit.Dropped) != 1 || q.Edit.Dropped[0].Operator != "total" || !slices.Equal(q.Edit.New, []string{"total"}) {
		t.Fatalf("%+v, error %v", q, err)
	}
	b.state("versions", api.Finished)
	list := written(t, s)
	old := slices.Index(list, 2)
	want := fmt.Sprintf("n,s\n%d,%d\n", editRows-old, editRows-1)
	if got, err := os.ReadFile(filepath.Join(s.Dir, "total.csv")); err != nil || string(got) != want || old < 100 {
		t.Errorf("total: %q, want %q, error %v", got, want, err)
	}
}

// TestReplaceWithoutCheckpoints: a query whose state is in no checkpoint loses it when it is stopped, so that this takes
// consent before.
func TestReplaceWithoutCheckpoints(t *testing.T) {
	b := newBench(t, t.TempDir(), func(o *Options) {
		compile := o.Compile
		o.Compile = func(s *api.Submission, replicas map[string]int) (c *Compiled, d dataflow.Diagnostics, err error) {
			c, d, err = compile(s, replicas)
			if c != nil {
				c.Config.Checkpoints = s.Checkpoint != "off"
			}
			return c, d, err
		}
	})
	b.leads()
	s := versions(t)
	s.Checkpoint = "off"
	b.submit(s)
	b.rows(s, 100)
	if _, err := b.Stop(t.Context(), "versions"); code(err) != api.BadRequest || !strings.Contains(err.Error(), `"total" would lose its state`) {
		t.Errorf("error %v", err)
	}
	if _, err := b.Replace(t.Context(), "versions", version(s, 2), api.ReplaceOptions{}); code(err) != api.BadEdit || !strings.Contains(err.Error(), `operator "total": the query has no checkpoints`) {
		t.Errorf("error %v", err)
	}
	saves := version(s, 2)
	saves.Checkpoint = ""
	q, err := b.Replace(t.Context(), "versions", saves, api.ReplaceOptions{AllowDrop: true})
	if err != nil || q.Edit.State != api.EditDone || len(q.Edit.Dropped) != 1 || len(q.Edit.Kept) > 0 {
		t.Fatalf("%+v, error %v", q, err)
	}
	b.rows(s, 200)
	again := *saves
	again.Checkpoint = "off" // and nothing else
	if q, err = b.Replace(t.Context(), "versions", &again, api.ReplaceOptions{}); err != nil || !slices.Equal(q.Edit.Kept, []string(nil)) || len(q.Edit.Dropped) > 0 {
		t.Fatalf("%+v, error %v", q, err)
	}
	if _, err = b.Replace(t.Context(), "versions", saves, api.ReplaceOptions{}); code(err) != api.BadEdit {
		t.Errorf("error %v", err)
	}
	b.state("versions", api.Finished)
	list := written(t, s)
	old := slices.Index(list, 2)
	text, err := os.ReadFile(filepath.Join(s.Dir, "total.csv"))
	if want := fmt.Sprintf("n,s\n%d,", editRows-old); err != nil || len(list) != editRows || old < 100 || !strings.HasPrefix(string(text), want) {
		t.Errorf("%d rows, the new version from %d on, total %q, want %q, error %v", len(list), old, text, want, err)
	}
}

// TestReplaceKeepsSettings: what was set while the query ran holds on if only the number of workers changes.
func TestReplaceKeepsSettings(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	s, _ := chain(t, follows)
	b.submit(s)
	b.state("chain", api.Running)
	set, err := b.Set(t.Context(), "chain", api.Setting{Operator: "f", Param: "condition", Value: "a > 700"})
	if err != nil {
		t.Fatal(err)
	}
	b.until("it holds", func() bool {
		q, err := b.Query(t.Context(), "chain")
		return err == nil && len(q.Tasks) > 0 && !slices.ContainsFunc(q.Tasks, func(task api.Task) bool { return task.Epoch < set.Epoch })
	})
	wider := *s
	wider.Workers = 3
	q, err := b.Replace(t.Context(), "chain", &wider, api.ReplaceOptions{})
	if err != nil || len(q.Edit.Unset) > 0 {
		t.Fatalf("%+v, error %v", q, err)
	}
	add := func(rows string) {
		f, err := os.OpenFile(filepath.Join(s.Dir, "in.csv"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(rows); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(want string) {
		b.until(want, func() bool {
			text, err := os.ReadFile(filepath.Join(s.Dir, "out.csv"))
			return err == nil && strings.HasSuffix(string(text), want)
		})
	}
	add("650\n701\n")
	ends("599\n701\n")
	edited := wider
	edited.Spec = strings.Replace(s.Spec, "a &gt; 7", "a &gt; 8", 1)
	if q, err = b.Replace(t.Context(), "chain", &edited, api.ReplaceOptions{}); err != nil || !slices.Equal(q.Edit.Unset, []string{"f.condition"}) {
		t.Fatalf("%+v, error %v", q, err)
	}
	add("651\n")
	ends("599\n701\n651\n")
}

// TestStopAndResume: a query is stopped at a checkpoint, keeps its name, and goes on from there, edited or not.
func TestStopAndResume(t *testing.T) {
	root := t.TempDir()
	b := newBench(t, root, nil)
	b.leads()
	s := versions(t)
	b.submit(s)
	b.rows(s, 100)
	if _, err := b.Resume(t.Context(), "versions"); code(err) != api.QueryExists {
		t.Errorf("error %v", err)
	}
	q, err := b.Stop(t.Context(), "versions")
	if err != nil || q.State != api.Stopped || q.Checkpoint == 0 {
		t.Fatalf("%+v, error %v", q, err)
	}
	if _, err := b.Submit(t.Context(), s); code(err) != api.QueryExists {
		t.Errorf("error %v", err)
	}
	if _, err := b.Drain(t.Context(), "versions"); code(err) != api.QueryEnded {
		t.Errorf("error %v", err)
	}
	before := len(written(t, s))
	b.end()
	b = newBench(t, root, nil)
	b.leads()
	b.state("versions", api.Stopped)
	if got := len(written(t, s)); got != before {
		t.Errorf("%d rows after %d", got, before)
	}
	if _, err := b.Resume(t.Context(), "versions"); err != nil {
		t.Fatal(err)
	}
	b.rows(s, before+100)
	if q, err = b.Stop(t.Context(), "versions"); err != nil || q.State != api.Stopped {
		t.Fatalf("%+v, error %v", q, err)
	}
	before = len(written(t, s))
	if q, err = b.Replace(t.Context(), "versions", version(s, 2), api.ReplaceOptions{}); err != nil || q.Edit.State != api.EditDone {
		t.Fatalf("%+v, error %v", q, err)
	}
	b.state("versions", api.Finished)
	if got := whole(t, s); !slices.Equal(got, []int{1, 2}) || written(t, s)[before-1] != 1 || written(t, s)[before] != 2 {
		t.Errorf("versions %v", got)
	}
}

// TestResumeFailed: a query that has failed over a row goes on once the row, or the spec, is right.
func TestResumeFailed(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	s := versions(t)
	in := filepath.Join(s.Dir, "in.csv")
	right, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, []byte(strings.Replace(string(right), "\n200\n", "\nx\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.submit(s)
	q := b.state("versions", api.Failed)
	if !strings.Contains(q.Error, "in.csv") {
		t.Errorf("%+v", q)
	}
	refused := version(s, 3)
	refused.Spec = strings.Replace(refused.Spec, "out.csv", "other.csv", 1)
	if _, err := b.Replace(t.Context(), "versions", refused, api.ReplaceOptions{}); code(err) != api.BadEdit {
		t.Errorf("error %v", err)
	}
	if again := b.state("versions", api.Failed); again.Error != q.Error {
		t.Errorf("%q, before %q", again.Error, q.Error)
	}
	if _, err := b.Resume(t.Context(), "versions"); err != nil {
		t.Fatal(err)
	}
	b.state("versions", api.Failed) // over the same row
	skips := version(s, 2)
	skips.Spec = strings.Replace(skips.Spec, `<param name="rate"`, `<param name="on-error" value="skip"/><param name="rate"`, 1)
	if _, err := b.Replace(t.Context(), "versions", skips, api.ReplaceOptions{}); err != nil {
		t.Fatal(err)
	}
	b.state("versions", api.Finished)
	text, err := os.ReadFile(filepath.Join(s.Dir, "total.csv"))
	if want := fmt.Sprintf("n,s\n%d,%d\n", editRows-1, editRows*(editRows-1)/2-200); err != nil || string(text) != want {
		t.Errorf("total: %q, want %q, error %v", text, want, err)
	}
}

// mortalStore is a store whose leader ends, as if it were killed, before or after one of its changes.
type mortalStore struct {
	store.Store
	mu    sync.Mutex
	left  int  // changes until then; 0: it lives
	after bool // the change is made
	died  chan struct{}
}

var errDead = fmt.Errorf("%w: it is dead", store.ErrNotLeader)

// dies says that the n-th change from now on is the last one.
func (m *mortalStore) dies(n int, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.after, m.died = n, after, make(chan struct{})
}

// change counts a change; do tells whether it is made, and dead what the leader hears of it.
func (m *mortalStore) change() (do, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.left > 1:
		m.left--
	case m.left == 1:
		m.left = -1
		close(m.died)
		return m.after, true
	case m.left < 0:
		return false, true
	}
	return true, false
}

func (m *mortalStore) Lead(ctx context.Context, about []byte) (store.Leadership, error) {
	l, err := m.Store.Lead(ctx, about)
	return mortalLeadership{l, m}, err
}

type mortalLeadership struct {
	store.Leadership
	m *mortalStore
}

func (l mortalLeadership) Store() store.Store { return mortalLeader{l.Leadership.Store(), l.m} }

type mortalLeader struct {
	store.Store
	m *mortalStore
}

func (l mortalLeader) Put(ctx context.Context, path string, value []byte, version int64) (int64, error) {
	if strings.HasSuffix(path, "/history") {
		return version, nil // nothing depends on it
	}
	do, dead := l.m.change()
	if do {
		next, err := l.Store.Put(ctx, path, value, version)
		if !dead {
			return next, err
		}
	}
	return 0, errDead
}

func (l mortalLeader) Delete(ctx context.Context, path string, version int64) error {
	do, dead := l.m.change()
	if do {
		if err := l.Store.Delete(ctx, path, version); !dead {
			return err
		}
	}
	return errDead
}

// TestReplaceKilled ends the leader before and after each change that it makes in the store from the edit on. The next
// one finishes the edit, or takes it back if it had not been stored. Each row is written once.
func TestReplaceKilled(t *testing.T) {
	var mu sync.Mutex
	held := map[int]int{} // the version in the end
	last := 10
	if testing.Short() {
		last = 3
	}
	t.Run("leader", func(t *testing.T) {
		for n := 1; n <= last; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d %v", n, after), func(t *testing.T) {
					t.Parallel()
					v := replaceKilled(t, n, after)
					mu.Lock()
					held[v]++
					mu.Unlock()
				})
			}
		}
	})
	if !t.Failed() && (held[1] == 0 || held[2] == 0) {
		t.Errorf("versions in the end: %v", held)
	}
}

// replaceKilled ends the leader at its n-th change after an edit was asked for, and returns the version in the end.
func replaceKilled(t *testing.T, n int, after bool) int {
	root := t.TempDir()
	var mortal *mortalStore
	first := newBench(t, root, func(o *Options) {
		mortal = &mortalStore{Store: o.Store}
		o.Store = mortal
	})
	first.leads()
	s := versions(t)
	first.submit(s)
	first.rows(s, 150)
	mortal.dies(n, after)
	asked := make(chan error, 1)
	go func() {
		_, err := first.Replace(context.Background(), "versions", version(s, 2), api.ReplaceOptions{})
		asked <- err
	}()
	select {
	case <-mortal.died:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not die")
	}
	first.end()
	err := <-asked
	second := newBench(t, root, nil)
	second.leads()
	q := second.state("versions", api.Finished)
	got := whole(t, s)
	last := got[len(got)-1]
	switch {
	case q.Edit != nil && (last != 2 || q.Edit.State != api.EditDone):
		t.Errorf("versions %v, %+v", got, q.Edit)
	case q.Edit == nil && last != 1, len(got) > 2:
		t.Errorf("versions %v", got)
	case err == nil && last != 2:
		t.Error("the edit was said to be done")
	}
	return last
}

// TestLeaves: a service that ends in order brings its queries to a checkpoint that has all that was written.
func TestLeaves(t *testing.T) {
	root := t.TempDir()
	s := versions(t)
	b := newBench(t, root, func(o *Options) {
		compile := o.Compile
		o.Compile = func(s *api.Submission, replicas map[string]int) (c *Compiled, d dataflow.Diagnostics, err error) {
			c, d, err = compile(s, replicas)
			if c != nil {
				c.Config.Every = 100_000 // it has no other checkpoint
			}
			return c, d, err
		}
	})
	b.leads()
	b.submit(s)
	b.rows(s, 100)
	begin := time.Now()
	b.leave()
	<-b.over
	t.Logf("it took %v", time.Since(begin))
	kept, err := store.OpenDir(filepath.Join(root, "store"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := kept.Lead(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newReign(t.Context(), t.Context(), New(Options{Store: kept}), l)
	ids, err := r.load()
	if err != nil || len(ids) != 1 {
		t.Fatalf("%v, error %v", ids, err)
	}
	q := r.queries["versions"]
	core := &coreStore{ctx: t.Context(), store: kept, path: corePath(q.id, 0)}
	record, err := core.load()
	if err != nil || record.Checkpoint == 0 || record.Stop != 0 || q.rec.State != api.Running {
		t.Errorf("%+v, state %s, error %v", record, q.rec.State, err)
	}
	counted := q.watch.totals()["out"].Out
	r.end()
	if err := errors.Join(l.Resign(), kept.Close()); err != nil {
		t.Error(err)
	}
	if rows := len(written(t, s)); int64(rows) != counted {
		t.Errorf("%d rows, counted %d", rows, counted)
	}
	b = newBench(t, root, nil)
	b.leads()
	q2 := b.state("versions", api.Finished)
	whole(t, s)
	for _, o := range q2.Operators {
		if o.Out != map[string]int64{"src": editRows, "m": editRows, "total": 1, "out": editRows, "out2": 1}[o.Name] {
			t.Errorf("%+v", o)
		}
	}
}
