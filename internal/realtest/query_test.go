package realtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/rowtest"
)

// rowType is the type of the rows in a.csv and b.csv.
const rowType = `<type name="Row"><column name="id" type="int"/><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="a" type="reader"><output name="rowsA" type="Row"/><param name="path" value="a.csv"/><param name="watermark-delay" value="20s"/></operator>
  <operator name="b" type="reader"><output name="rowsB" type="Row"/><param name="path" value="b.csv"/><param name="watermark-delay" value="20s"/></operator>
`

// everything has a stateless chain, every kind of window, two sources, a diamond, and every kind of sink.
const everything = rowType + `
  <operator name="keep" type="filter"><input name="rowsA"/><param name="condition" value="v >= 100"/><output name="kept"/></operator>
  <operator name="shape" type="map"><input name="kept"/><param name="select" value="id, t, k, v * 2 AS w"/><output name="shaped"/></operator>
  <operator name="chainOut" type="writer"><input name="shaped"/><param name="path" value="chain.csv"/></operator>

  <operator name="tumbling" type="aggregate"><input name="kept"/><param name="window" value="tumbling(1m)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, k, count(*) AS n, sum(v) AS s, max(id) AS m"/><output name="tumbled"/></operator>
  <operator name="tumblingOut" type="writer"><input name="tumbled"/><param name="path" value="tumbling/"/></operator>

  <operator name="hopping" type="aggregate"><input name="rowsA"/><param name="window" value="hopping(1m, 20s)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, k, count(*) AS n, count(DISTINCT v) AS d, last(id) AS l"/><output name="hopped"/></operator>
  <operator name="hoppingOut" type="writer"><input name="hopped"/><param name="path" value="hopping/"/><param name="format" value="parquet"/></operator>

  <operator name="session" type="aggregate"><input name="rowsA"/><param name="window" value="session(3s)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, window_end, k, count(*) AS n, sum(id) AS s"/><output name="sessions"/></operator>
  <operator name="sessionOut" type="writer"><input name="sessions"/><param name="path" value="session.ndjson"/></operator>

  <operator name="byRows" type="aggregate"><input name="shaped"/><param name="window" value="rows(40, 20)"/><param name="group-by" value="k"/>
    <param name="select" value="k, count(*) AS n, first(id) AS f, last(id) AS l, sum(w) AS s"/><output name="counted"/></operator>
  <operator name="byRowsOut" type="writer"><input name="counted"/><param name="path" value="rows.csv"/></operator>

  <operator name="both" type="union"><input name="kept"/><input name="rowsB"/><output name="bothRows"/></operator>
  <operator name="joint" type="aggregate"><input name="bothRows"/><param name="window" value="tumbling(30s)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, k, count(*) AS n, sum(id) AS s, sum(v) AS v"/><output name="joined"/></operator>
  <operator name="jointOut" type="writer"><input name="joined"/><param name="path" value="joint.csv"/></operator>

  <operator name="even" type="filter"><input name="rowsB"/><param name="condition" value="v % 2 = 0"/><output name="evenRows"/></operator>
  <operator name="odd" type="filter"><input name="rowsB"/><param name="condition" value="v % 2 = 1"/><output name="oddRows"/></operator>
  <operator name="diamond" type="union"><input name="evenRows"/><input name="oddRows"/><output name="all"/></operator>
  <operator name="diamondOut" type="writer"><input name="all"/><param name="path" value="diamond/"/></operator>
`

// small is a query of few tasks, for measurements.
const small = rowType + `
  <operator name="both" type="union"><input name="rowsA"/><input name="rowsB"/><output name="rows"/></operator>
  <operator name="f" type="filter"><input name="rows"/><param name="condition" value="v >= 0"/><output name="good"/></operator>
  <operator name="out" type="writer"><input name="good"/><param name="path" value="out.csv"/></operator>
`

// data is a set of rows. Event times are out of order by less than the delay of the watermark.
type data struct {
	rows int // of a.csv; b.csv has half as many
	seed uint64
}

// row is a row of a.csv or b.csv.
type row struct {
	id   int
	t    time.Time
	k, v int
}

// firstID is the first id of the rows of b.csv, above all of a.csv.
const firstID = 10_000_000

// generate gives the rows of a.csv or of b.csv.
func (d data) generate(b bool) []row {
	r := rand.New(rand.NewPCG(d.seed, 1))
	n, id := d.rows, 0
	step := 100 * time.Millisecond
	if b {
		n, id, step = d.rows/2, firstID, 200*time.Millisecond
		r = rand.New(rand.NewPCG(d.seed, 2))
	}
	begin := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := make([]row, n)
	for i := range rows {
		at := begin.Add(time.Duration(i)*step + 20*time.Second - time.Duration(r.IntN(15_000))*time.Millisecond)
		rows[i] = row{id + i, at, r.IntN(20), r.IntN(1000)}
	}
	return rows
}

// write writes a.csv and b.csv.
func (d data) write(t *testing.T, dir string) {
	t.Helper()
	for name, rows := range map[string][]row{"a.csv": d.generate(false), "b.csv": d.generate(true)} {
		var b bytes.Buffer
		b.WriteString("id,t,k,v\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "%d,%s,%d,%d\n", r.id, r.t.Format("2006-01-02T15:04:05.000Z"), r.k, r.v)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// query is a query with its data, in a folder of its own.
type query struct {
	t    *testing.T
	dir  string
	body string
	data data
	args []string // of each run
}

// newQuery writes a query with its rows. Rules are rewrites; the result does not depend on them.
func newQuery(t *testing.T, body string, d data, rules string, args ...string) *query {
	t.Helper()
	dir, err := os.MkdirTemp("", "rt") // a short name, for there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d.write(t, dir)
	writeSpec(t, dir, body+rules)
	return &query{t, dir, body, d, args}
}

func writeSpec(t *testing.T, dir, body string) {
	t.Helper()
	text := `<dataflow name="query">` + body + "</dataflow>"
	if err := os.WriteFile(filepath.Join(dir, "query.xml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// start starts the query on worker processes.
func (q *query) start(args ...string) *run {
	q.t.Helper()
	return startRun(q.t, q.dir, filepath.Join(q.dir, "state"), append(append(args, q.args...), filepath.Join(q.dir, "query.xml"))...)
}

// rows are the lines of everything that has been written, in order, by the name of the file or folder.
type rows map[string][]string

// written gives what a query has written into a folder.
func written(t *testing.T, dir string) rows {
	t.Helper()
	out := rows{}
	for _, path := range glob(t, dir, "*.csv", "*.ndjson", "*/part-*.csv") {
		name := filepath.Base(path)
		if in := filepath.Dir(path); in != dir {
			name = filepath.Base(in)
		}
		if name == "a.csv" || name == "b.csv" {
			continue
		}
		out[name] = append(out[name], readRows(t, path)...)
	}
	if len(glob(t, dir, "hopping/part-*.parquet")) > 0 {
		out["hopping"] = readParquet(t, filepath.Join(dir, "hopping", "part-*.parquet"))
	}
	for _, lines := range out {
		slices.Sort(lines)
	}
	return out
}

func glob(t *testing.T, dir string, patterns ...string) []string {
	t.Helper()
	var paths []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, p))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// readRows reads the rows of a file, as lines.
func readRows(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(text)))
	if filepath.Ext(path) != ".ndjson" && len(lines) > 0 {
		lines = lines[1:] // the header
	}
	return lines
}

// onProcess runs a query in one process.
func onProcess(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command(program, "run", "--quiet", filepath.Join(dir, "query.xml"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in one process: %v: %s", err, text)
	}
}

// references keeps what queries write, so that each is run once.
var references = struct {
	sync.Mutex
	m map[string]rows
}{m: map[string]rows{}}

// want is what the query writes in one process, without rewrites.
func (q *query) want() rows {
	q.t.Helper()
	references.Lock()
	defer references.Unlock()
	key := fmt.Sprint(q.data, q.body)
	if w := references.m[key]; w != nil {
		return w
	}
	dir := q.t.TempDir()
	q.data.write(q.t, dir)
	writeSpec(q.t, dir, q.body)
	onProcess(q.t, dir)
	w := written(q.t, dir)
	if len(w) == 0 {
		q.t.Fatal("the reference has written nothing")
	}
	references.m[key] = w
	return w
}

// check compares what has been written with the reference.
func (q *query) check() {
	q.t.Helper()
	got, want := written(q.t, q.dir), q.want()
	for name := range want {
		rowtest.Compare(q.t, name, got[name], want[name])
	}
	for name := range got {
		if want[name] == nil {
			q.t.Errorf("%s should not be there", name)
		}
	}
}

// checkTumbling compares the windows of "tumbling" with those calculated here.
func (q *query) checkTumbling() {
	q.t.Helper()
	type key struct {
		start time.Time
		k     int
	}
	type sums struct{ n, s, m int }
	windows := map[key]sums{}
	for _, r := range q.data.generate(false) {
		if r.v < 100 {
			continue
		}
		at := key{r.t.Truncate(time.Minute), r.k}
		w := windows[at]
		windows[at] = sums{w.n + 1, w.s + r.v, max(w.m, r.id)}
	}
	var want []string
	for at, w := range windows {
		want = append(want, fmt.Sprintf("%s,%d,%d,%d,%d\n", at.start.Format(time.RFC3339), at.k, w.n, w.s, w.m))
	}
	slices.Sort(want)
	rowtest.Compare(q.t, "tumbling, as calculated", written(q.t, q.dir)["tumbling"], want)
}
