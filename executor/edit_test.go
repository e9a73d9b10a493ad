package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/rewrite"
	"sluice/specs/xmlspec"
)

// editSpec has a windowed, a session and a global aggregate; %s is the condition of a filter, %s the name of
// the windowed aggregate, %s its select list.
const editSpec = `<dataflow name="edit">
  <type name="Row"><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="in" type="reader"><output name="all" type="Row"/><param name="path" value="in.csv"/><param name="epoch-rows" value="40"/><param name="watermark-delay" value="10s"/></operator>
  <operator name="some" type="filter"><input name="all"/><param name="condition" value="%s"/><output name="rows"/></operator>
  <operator name="%s" type="aggregate"><input name="rows"/><param name="window" value="tumbling(1m)"/><param name="group-by" value="k"/><param name="select" value="%s"/><output name="minutes"/></operator>
  <operator name="visits" type="aggregate"><input name="rows"/><param name="window" value="session(20s)"/><param name="group-by" value="k"/><param name="select" value="window_start, k, sum(v) AS s"/><output name="sessions"/></operator>
  <operator name="total" type="aggregate"><input name="rows"/><param name="select" value="count(*) AS n, sum(v) AS s"/><output name="totals"/></operator>
  <operator name="w1" type="writer"><input name="minutes"/><param name="path" value="minutes.csv"/></operator>
  <operator name="w2" type="writer"><input name="sessions"/><param name="path" value="sessions.csv"/></operator>
  <operator name="w3" type="writer"><input name="totals"/><param name="path" value="totals.csv"/></operator>
</dataflow>`

const minutesList = "window_start, k, count(*) AS n, last(v) AS l"

func usualSpec() string { return fmt.Sprintf(editSpec, "v >= 0", "perMinute", minutesList) }

// editDir is a folder with the input.
func editDir(t testing.TB, rows int) string {
	t.Helper()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 3))
	var b strings.Builder
	b.WriteString("t,k,v\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d,%d,%d\n", int64(1_000_000)*int64(i/4+20-r.IntN(20)), r.IntN(30), r.IntN(100))
	}
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// editPlan divides the query of a spec into p partitions, but for operators with a number of their own, and
// these into tasks.
func editPlan(t testing.TB, dir, spec string, p int, own map[string]int) *dataflow.Physical {
	t.Helper()
	g, diags := xmlspec.Parse("edit.xml", strings.NewReader(spec), os.LookupEnv)
	g.Dir = dir
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	rules := &rewrite.RuleSet{}
	rules.Add(rewrite.Builtin())
	engine := &rewrite.Engine{Catalog: catalog.Operators}
	wider, _ := engine.ParallelBy(g, rules, func(operator string) int {
		if n := own[operator]; n > 0 {
			return n
		}
		return p
	})
	g = wider.Graph
	tasks, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// brittle is a source that ends its process, or tells it to stop, after some calls.
type brittle struct {
	operators.Replayable
	calls *int
	at    int
	stop  func()
}

var errDies = errors.New("the process dies")

func (b *brittle) Next(ctx context.Context, most int) (*operators.SourceRows, error) {
	if *b.calls++; *b.calls == b.at {
		if b.stop == nil {
			return nil, errDies
		}
		b.stop()
		time.Sleep(50 * time.Millisecond) // the query hears of it
	}
	return b.Replayable.Next(ctx, min(most, 25))
}

// editLife is one process.
type editLife struct {
	dir, spec  string
	partitions int
	at         int // calls of the source after which it ends; 0: never
	dies       bool
	options    executor.Options
}

func (l editLife) run(t testing.TB) error {
	t.Helper()
	store, err := state.Open(filepath.Join(l.dir, "state"), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if l.dies {
		stop = nil
	}
	calls := 0
	own, err := executor.Unmovable(store)
	if err != nil {
		t.Fatal(err)
	}
	p := editPlan(t, l.dir, l.spec, l.partitions, own)
	o := l.options
	o.State, o.CheckpointEpochs = store, 3
	for _, task := range p.Tasks {
		o.Tasks = append(o.Tasks, task.Operators)
	}
	o.Build = func(c *operators.Context) (operators.Operator, error) {
		return catalog.Build(c, catalog.Options{Limit: -1})
	}
	o.OpenSource = func(c *operators.Context) (operators.Source, error) {
		s, err := catalog.OpenSource(c)
		if err != nil {
			return nil, err
		}
		return &brittle{s.(operators.Replayable), &calls, l.at, stop}, nil
	}
	_, err = executor.Run(ctx, p.Graph, o)
	return err
}

// editOutput gives the rows of each output, sorted: which of two replicas comes first is not told.
func editOutput(t testing.TB, dir string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, name := range []string{"minutes.csv", "sessions.csv", "totals.csv"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(out[name])
	}
	return out
}

// undisturbed is what one process that lives to the end writes.
func undisturbed(t testing.TB, rows int, spec string) map[string][]string {
	t.Helper()
	dir := editDir(t, rows)
	if err := (editLife{dir: dir, spec: spec, partitions: 1}).run(t); err != nil {
		t.Fatal(err)
	}
	return editOutput(t, dir)
}

// TestOtherPartitions stops and kills a query again and again, and goes on with another number of
// partitions each time. Whatever the numbers are, the output is that of one that has never stopped.
func TestOtherPartitions(t *testing.T) {
	const rows = 6000
	want := undisturbed(t, rows, usualSpec())
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			dir := editDir(t, rows)
			var history []string
			was := 1
			for n := 1; ; n++ {
				l := editLife{dir: dir, spec: usualSpec(), partitions: 1 + r.IntN(4), dies: r.IntN(2) == 0}
				if l.at = 1 + r.IntN(60); n > 8 {
					l.at = 0
				}
				history = append(history, fmt.Sprintf("-p %d, %d calls, dies %v", l.partitions, l.at, l.dies))
				if l.partitions != was {
					err := (editLife{dir: dir, spec: usualSpec(), partitions: was, options: executor.Options{CatchUp: true}}).run(t)
					if errors.Is(err, executor.ErrFinished) {
						break
					}
					if err != nil {
						t.Fatalf("%v: catching up: %v", history, err)
					}
				}
				was = l.partitions
				l.options.Changed = func(c executor.Change) error {
					if len(c.Dropped) > 0 {
						return fmt.Errorf("dropped %v", c.Dropped)
					}
					return nil
				}
				err := l.run(t)
				if errors.Is(err, executor.ErrFinished) {
					break
				}
				if err != nil && !errors.Is(err, errDies) {
					t.Fatalf("%v: %v", history, err)
				}
			}
			got := editOutput(t, dir)
			for name := range want {
				if !slices.Equal(got[name], want[name]) {
					t.Errorf("%s differs: %d rows, want %d; %v", name, len(got[name]), len(want[name]), history)
				}
			}
		})
	}
}

// TestEditedCondition edits the condition of a filter after a stop, or a crash: the rows read until then
// count as the old one says, those after it as the new one does.
func TestEditedCondition(t *testing.T) {
	const rows = 4000
	for _, dies := range []bool{false, true} {
		dir := editDir(t, rows)
		old := fmt.Sprintf(editSpec, "v &lt; 50", "perMinute", minutesList)
		edited := fmt.Sprintf(editSpec, "false", "perMinute", minutesList)
		if err := (editLife{dir: dir, spec: old, partitions: 1, at: 60, dies: dies}).run(t); err != nil && !errors.Is(err, errDies) {
			t.Fatal(err)
		}
		if err := (editLife{dir: dir, spec: old, partitions: 1, options: executor.Options{CatchUp: true}}).run(t); err != nil {
			t.Fatal(err)
		}
		if err := (editLife{dir: dir, spec: edited, partitions: 2}).run(t); err != nil {
			t.Fatal(err)
		}
		// 25 rows a call: what the first process has read, or a part of it if it died.
		var n, s int
		if _, err := fmt.Sscanf(editOutput(t, dir)["totals.csv"][0], "%d,%d", &n, &s); err != nil {
			t.Fatal(err)
		}
		if n < 100 || n > 1900 { // of about 2000
			t.Errorf("dies %v: %d rows are counted", dies, n)
		}
		if want := smallValues(t, dir, n); s != want {
			t.Errorf("dies %v: the sum of the first %d rows below 50 is %d, want %d", dies, n, s, want)
		}
	}
}

// smallValues is the sum of the first n values below 50 in the input.
func smallValues(t *testing.T, dir string, n int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "in.csv"))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		var at, k, v int
		if _, err := fmt.Sscanf(line, "%d,%d,%d", &at, &k, &v); err != nil {
			t.Fatal(err)
		}
		if v < 50 && n > 0 {
			sum += v
			n--
		}
	}
	return sum
}

// TestWhatIsDropped tells, before anything is restored, what an edit makes of the state.
func TestWhatIsDropped(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name, spec string
		partitions int
		want       string
	}{
		{"same", usualSpec(), 1, "kept [perMinute total visits] new [] dropped []"},
		{"partitions", usualSpec(), 2, "kept [perMinute.1 perMinute.2 total visits.1 visits.2] new [] dropped []"},
		{"renamed", fmt.Sprintf(editSpec, "v >= 0", "m", minutesList), 1,
			"kept [total visits] new [m] dropped [{perMinute the operator is gone}]"},
		{"other state", fmt.Sprintf(editSpec, "v >= 0", "perMinute", "window_start, k, count(*) AS n, max(v) AS l"), 1,
			"kept [total visits] new [perMinute] dropped [{perMinute it had aggregate 2: last(v int) int and now has aggregate 2: max(v int) int}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := editDir(t, 2000)
			if err := (editLife{dir: dir, spec: usualSpec(), partitions: 1, at: 40}).run(t); err != nil {
				t.Fatal(err)
			}
			var got string
			l := editLife{dir: dir, spec: c.spec, partitions: c.partitions}
			l.options.Changed = func(c executor.Change) error {
				got = fmt.Sprintf("kept %v new %v dropped %v", c.Kept, c.New, c.Dropped)
				return refused
			}
			if err := l.run(t); !errors.Is(err, refused) {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			l.options.Changed = nil
			if err := l.run(t); err != nil {
				t.Errorf("going on: %v", err)
			}
		})
	}
}
