package mesostest

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
	"sluice/scheduler/api"
)

// body has a stateless chain, windows of one and of two sources, and single files and folders as sinks.
const body = `
  <type name="Row"><column name="id" type="int"/><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="a" type="reader"><output name="rowsA" type="Row"/><param name="path" value="a.csv"/><param name="watermark-delay" value="20s"/></operator>
  <operator name="b" type="reader"><output name="rowsB" type="Row"/><param name="path" value="b.csv"/><param name="watermark-delay" value="20s"/></operator>

  <operator name="keep" type="filter"><input name="rowsA"/><param name="condition" value="v >= 100"/><output name="kept"/></operator>
  <operator name="chainOut" type="writer"><input name="kept"/><param name="path" value="chain.csv"/></operator>

  <operator name="tumbling" type="aggregate"><input name="kept"/><param name="window" value="tumbling(1m)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, k, count(*) AS n, sum(v) AS s, max(id) AS m"/><output name="tumbled"/></operator>
  <operator name="tumblingOut" type="writer"><input name="tumbled"/><param name="path" value="tumbling/"/></operator>

  <operator name="both" type="union"><input name="kept"/><input name="rowsB"/><output name="bothRows"/></operator>
  <operator name="joint" type="aggregate"><input name="bothRows"/><param name="window" value="hopping(40s, 20s)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, k, count(*) AS n, sum(id) AS s, count(DISTINCT v) AS v"/><output name="joined"/></operator>
  <operator name="jointOut" type="writer"><input name="joined"/><param name="path" value="joint.ndjson"/></operator>
`

// pattern is the rules under which a stream runs, and two of its tasks then: one of a copied operator, and one with
// sinks.
type pattern struct{ rules, copied, sink string }

var (
	hotStandby = pattern{rewrite("hot-standby", "tumbling") + rewrite("hot-standby", "keep"), "tumbling.1", "keep.stream-selector"}
	checkpoint = pattern{rewrite("checkpoint", "tumbling") + rewrite("checkpoint", "joint"), "tumbling.1", "joint.stream-selector"}
	noRule     = pattern{"", "a", "both"}
)

func rewrite(rule, operator string) string {
	return fmt.Sprintf(`<rewrite rule=%q operator=%q/>`, rule, operator)
}

// rate is how many rows a second are read of a.csv, and half as many of b.csv.
const rate = 1500

// stream is a query over generated rows that come at a rate.
type stream struct {
	t       *testing.T
	dir     string
	seconds int
}

// newStream writes a query, and rows for some seconds. Its name is "stream".
func newStream(t *testing.T, seconds int, p pattern) *stream {
	t.Helper()
	s := &stream{t, t.TempDir(), seconds}
	s.write(s.dir, p.rules)
	return s
}

func (s *stream) write(dir, rules string) {
	s.t.Helper()
	s.put(dir, "stream.xml", `<dataflow name="stream">`+body+rules+"</dataflow>")
	s.put(dir, "a.csv", generate(1, 0, s.seconds*rate, 100*time.Millisecond))
	s.put(dir, "b.csv", generate(2, 10_000_000, s.seconds*rate/2, 200*time.Millisecond))
}

func (s *stream) put(dir, name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// generate makes rows whose event times are out of order by less than the watermark's delay.
func generate(seed uint64, first, n int, step time.Duration) string {
	r := rand.New(rand.NewPCG(seed, seed))
	at := time.Date(2001, 1, 1, 0, 0, 20, 0, time.UTC)
	var b strings.Builder
	b.WriteString("id,t,k,v\n")
	for i := range n {
		t := at.Add(time.Duration(i)*step - time.Duration(r.IntN(15_000))*time.Millisecond)
		fmt.Fprintf(&b, "%d,%s,%d,%d\n", first+i, t.Format("2006-01-02T15:04:05.000Z"), r.IntN(20), r.IntN(1000))
	}
	return b.String()
}

// submit submits the query as a user does.
func (s *stream) submit(to *service, args ...string) {
	s.t.Helper()
	usual := []string{
		"submit", filepath.Join(s.dir, "stream.xml"), "--checkpoint", "200ms",
		"--set", fmt.Sprintf("a.rate=%d", rate), "--set", fmt.Sprintf("b.rate=%d", rate/2),
	}
	to.command(append(usual, args...)...)
}

// size is how much has been written.
func (s *stream) size() (bytes int64) {
	info, err := os.Stat(filepath.Join(s.dir, "chain.csv"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// finish waits for the end of the query and compares what it has written.
func (s *stream) finish(at *service) {
	s.t.Helper()
	var q *api.Query
	eventually(s.t, finishTime, "the stream has ended", func() bool {
		q = at.query("stream")
		return q != nil && api.Ended(q.State)
	})
	if q.State != api.Finished {
		s.t.Fatalf("%s: %s", q.State, q.Error)
	}
	s.check()
}

// check compares what has been written with what one process writes.
func (s *stream) check() {
	s.t.Helper()
	got, want := s.written(s.dir), s.want()
	for name := range want {
		rowtest.Compare(s.t, name, got[name], want[name])
	}
	if len(got) != len(want) {
		s.t.Errorf("%d outputs, want %d", len(got), len(want))
	}
}

// rows are the lines of everything that has been written, in order.
type rows map[string][]string

// written gives what the query has written below a folder.
func (s *stream) written(dir string) rows {
	s.t.Helper()
	out := rows{}
	for _, pattern := range []string{"chain.csv", "joint.ndjson", "tumbling/part-*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, path := range paths {
			out[pattern] = append(out[pattern], readRows(s.t, path)...)
		}
		slices.Sort(out[pattern])
	}
	return out
}

// readRows reads the rows of a file, as lines without header.
func readRows(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(text)))
	if filepath.Ext(path) != ".ndjson" && len(lines) > 0 {
		lines = lines[1:]
	}
	return lines
}

// references keeps what one process writes, by the length of the stream.
var references = struct {
	sync.Mutex
	m map[int]rows
}{m: map[int]rows{}}

// want is what `sluice run` writes in one process.
func (s *stream) want() rows {
	s.t.Helper()
	references.Lock()
	defer references.Unlock()
	if w := references.m[s.seconds]; w != nil {
		return w
	}
	dir := s.t.TempDir()
	s.write(dir, "")
	runHere(s.t, filepath.Join(dir, "stream.xml"))
	w := s.written(dir)
	for name, lines := range w {
		if len(lines) == 0 {
			s.t.Fatalf("the reference has no rows in %s", name)
		}
	}
	references.m[s.seconds] = w
	return w
}

// runHere runs a query in one process, and gives its standard output.
func runHere(t *testing.T, spec string) string {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(program, "run", "--quiet", spec)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in one process: %v: %s", err, said.String())
	}
	return string(out)
}
