package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/api"
)

// testScheduler is a process that runs sluice scheduler.
type testScheduler struct {
	t   *testing.T
	cmd *exec.Cmd
	url string

	mu  sync.Mutex
	log bytes.Buffer
}

var apiListens = regexp.MustCompile(`msg="the API listens" url=(\S+)`)

// startScheduler starts a scheduler with the state in dir, and waits until it or another one leads.
func startScheduler(t *testing.T, dir string, args ...string) *testScheduler {
	t.Helper()
	return runScheduler(t, command(append([]string{"scheduler", "--state-root", dir, "--listen", "127.0.0.1:0"}, args...)...))
}

// runScheduler starts a scheduler with a command.
func runScheduler(t *testing.T, cmd *exec.Cmd) *testScheduler {
	t.Helper()
	s := &testScheduler{t: t, cmd: cmd}
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listens := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			s.mu.Lock()
			s.log.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
			if m := apiListens.FindStringSubmatch(lines.Text()); m != nil {
				listens <- m[1]
			}
		}
		close(listens)
	}()
	t.Cleanup(func() {
		s.kill(syscall.SIGKILL)
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("scheduler %s:\n%s", s.url, s.log.String())
		}
	})
	select {
	case s.url = <-listens:
	case <-time.After(time.Minute):
	}
	if s.url == "" {
		t.Fatal("the scheduler does not listen")
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var h api.Health
		if s.call("GET", "/health", nil, &h); h.Leader || h.URL != "" && h.URL != s.url {
			return s
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// kill ends the process, unless it has ended.
func (s *testScheduler) kill(signal syscall.Signal) {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(signal)
		_ = s.cmd.Wait()
	}
}

// call calls the API and decodes what it answers. It returns the status.
func (s *testScheduler) call(method, path string, in, out any) int {
	s.t.Helper()
	status, err := s.try(method, path, in, out)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status
}

func (s *testScheduler) try(method, path string, in, out any) (int, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(text)
	}
	late := time.Minute
	if method == http.MethodGet && path != "/health" {
		late = 3 * time.Second // it may be sent on to a leader that has been stopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+api.Prefix+path, body)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || out == nil {
		return a.StatusCode, err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return 0, fmt.Errorf("%s: %w", text, err)
	}
	return a.StatusCode, nil
}

// submit submits the spec of a file.
func (s *testScheduler) submit(spec string, change func(*api.Submission)) *api.Query {
	s.t.Helper()
	text, err := os.ReadFile(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	sub := &api.Submission{Spec: string(text), File: filepath.Base(spec), Dir: filepath.Dir(spec)}
	if change != nil {
		change(sub)
	}
	var answer struct {
		api.Query
		Failure api.Error `json:"error"`
	}
	var raw json.RawMessage
	if status := s.call("POST", "/queries", sub, &raw); status != http.StatusCreated {
		s.t.Fatalf("status %d: %s", status, raw)
	}
	if err := json.Unmarshal(raw, &answer.Query); err != nil {
		s.t.Fatal(err)
	}
	return &answer.Query
}

// query looks at a query; nil if nobody leads.
func (s *testScheduler) query(name string) *api.Query {
	q := &api.Query{}
	if status, err := s.try("GET", "/queries/"+name, nil, q); err != nil || status != http.StatusOK {
		return nil
	}
	return q
}

// wait waits until a query has a state.
func (s *testScheduler) wait(name, state string) *api.Query {
	s.t.Helper()
	var q *api.Query
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if q = s.query(name); q == nil {
			continue
		}
		if q.State == state {
			return q
		}
		if api.Ended(q.State) {
			break
		}
	}
	s.t.Fatalf("query %s is not %s: %+v", name, state, q)
	return nil
}

// pastEpoch waits until all tasks of a query that run have ended an epoch, so that what is read from now on comes after it.
func (s *testScheduler) pastEpoch(name string, epoch int64) {
	s.t.Helper()
	var q *api.Query
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		q = s.query(name)
		if q != nil && len(q.Tasks) > 0 && !slices.ContainsFunc(q.Tasks, func(task api.Task) bool { return task.Epoch < epoch }) {
			return
		}
	}
	s.t.Fatalf("query %s does not come past epoch %d: %+v", name, epoch, q)
}

// workers are the processes of a query that has as many as it is to have.
func workers(q *api.Query) []int {
	if q == nil || len(q.Processes) < q.Workers {
		return nil
	}
	var pids []int
	for _, w := range q.Processes {
		if pid, err := strconv.Atoi(strings.TrimPrefix(w.About, "process ")); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// writeFlights writes the example with an output file, and returns its spec and what it is to write.
func writeFlights(t *testing.T, dir string) (spec, want string) {
	t.Helper()
	for _, name := range []string{"flights.csv", "flights.xml", "expected.csv"} {
		text, err := os.ReadFile(filepath.Join("../../examples/flights", name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(`name="path" value="-"`), []byte(`name="path" value="out.csv"`), 1)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		want = string(text)
	}
	return filepath.Join(dir, "flights.xml"), want
}

// TestSchedulerExample: the example gives what it gives in one process, under several names at a time too, and
// can be submitted again after its end.
func TestSchedulerExample(t *testing.T) {
	root := t.TempDir()
	s := startScheduler(t, root)
	dirs := map[string]string{}
	want := ""
	for _, name := range []string{"flights", "second", "third.of-them"} {
		dirs[name] = t.TempDir()
		var spec string
		spec, want = writeFlights(t, dirs[name])
		if q := s.submit(spec, func(sub *api.Submission) { sub.Name = name }); q.Name != name || q.Workers != 3 {
			t.Errorf("%+v", q)
		}
	}
	for name, dir := range dirs {
		q := s.wait(name, api.Finished)
		got, err := os.ReadFile(filepath.Join(dir, "out.csv"))
		if err != nil || string(got) != want || q.Checkpoint != api.Last || q.Ended == nil {
			t.Errorf("%s: %+v, error %v, output:\n%s", name, q, err, got)
		}
	}
	s.submit(filepath.Join(dirs["flights"], "flights.xml"), nil)
	s.wait("flights", api.Finished)
	var list api.QueryList
	if s.call("GET", "/queries", nil, &list); len(list.Queries) != 3 || list.Queries[0].Name != "flights" {
		t.Errorf("%+v", list)
	}
	// The state goes after the end was told.
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, err := os.ReadDir(filepath.Join(root, "queries"))
		if err == nil && len(left) == 0 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("state that is left: %v, error %v", left, err)
		}
	}
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		if got := s.call("DELETE", "/queries/second", nil, nil); got != status {
			t.Errorf("status %d, want %d", got, status)
		}
	}
}

// TestSchedulerRefuses: what is wrong with a submission is told as a list, and nothing is left of it.
func TestSchedulerRefuses(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	s := startScheduler(t, root)
	spec, _ := writeFlights(t, dir)
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	for want, sub := range map[string]api.Submission{
		`bad-spec 2 f.xml:35 path is "-", but a scheduler`:        {Spec: strings.Replace(strings.Replace(string(text), "out.csv", "-", 1), "avg(delay)", "avg(dlay)", 1), File: "f.xml", Dir: dir},
		`bad-spec 1 f.xml:13 input "`:                             {Spec: string(text), File: "f.xml", Dir: root},
		`bad-spec 1 spec.xml:1 `:                                  {Spec: "<dataflow"},
		`bad-request 0 there is no spec`:                          {},
		`bad-request 0 dir must be an absolute path`:              {Spec: string(text), Dir: "here"},
		`bad-request 0 workers must be at least 1; it is -1`:      {Spec: string(text), Dir: dir, Workers: -1},
		`bad-request 0 workers must be from 1 to 256`:             {Spec: string(text), Dir: dir, Workers: 257},
		`bad-request 0 partitions must be from 1 to 720`:          {Spec: string(text), Dir: dir, Partitions: 721},
		`bad-request 0 transport must be tcp, ipc, plain-tcp or`:  {Spec: string(text), Dir: dir, Transport: "x"},
		`bad-spec 1 f.xml:35 output "none/out.csv": there is no `: {Spec: strings.Replace(string(text), "out.csv", "none/out.csv", 1), File: "f.xml", Dir: dir},
		`bad-request 0 fsync must be never, grouped or always`:    {Spec: string(text), Dir: dir, Fsync: "x"},
		`bad-request 0 checkpoint must be a duration`:             {Spec: string(text), Dir: dir, Checkpoint: "x"},
		`bad-request 0 a query cannot be called "../x"`:           {Spec: string(text), Dir: dir, Name: "../x"},
		`bad-request 0 limit must not be negative`:                {Spec: string(text), Dir: dir, Limit: new(int64(-1))},
		`bad-spec 1 --set x:1 must have the form OPERATOR.PARAME`: {Spec: string(text), Dir: dir, Set: []string{"x"}},
	} {
		var f api.Failure
		s.call("POST", "/queries", sub, &f)
		got := fmt.Sprintf("%s %d ", f.Error.Code, len(f.Error.Diagnostics))
		if n := len(f.Error.Diagnostics); n > 0 {
			d := f.Error.Diagnostics[n-1]
			got += fmt.Sprintf("%s:%d %s", d.File, max(d.Line, 1), d.Message)
		} else {
			got += f.Error.Message
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	var list api.QueryList
	if s.call("GET", "/queries", nil, &list); len(list.Queries) != 0 {
		t.Errorf("%+v", list)
	}
}

const killRates = 3000

// submitKill submits the query of the kill tests so that it lasts for some seconds.
func submitKill(s *testScheduler, spec string) {
	s.t.Helper()
	s.submit(spec, func(sub *api.Submission) {
		sub.Set = []string{fmt.Sprintf("a.rate=%d", killRates), fmt.Sprintf("b.rate=%d", killRates/2)}
		sub.Checkpoint = "100ms"
	})
}

// TestSchedulerKillWorkers kills worker processes; the output is exact.
func TestSchedulerKillWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec, want := writeKillQuery(t, dir, "tumbling(1m)", "window_start, k, count(*) AS n, sum(v) AS s, max(v) AS l", "10s")
	s := startScheduler(t, t.TempDir())
	submitKill(s, spec)
	kills := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Duration(300+rand.IntN(400)) * time.Millisecond) {
		q := s.query("kill")
		if q == nil || api.Ended(q.State) {
			break
		}
		if pids := workers(q); pids != nil && kills < 3 && syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL) == nil {
			kills++
		}
	}
	q := s.wait("kill", api.Finished)
	if kills == 0 || q.Restarts == 0 {
		t.Errorf("%d kills, %d restarts", kills, q.Restarts)
	}
	compareOutput(t, killOutput(t, dir), want)
	checkKillCounts(t, q, want)
}

// TestSchedulerRestarts ends the scheduler again and again, with SIGKILL or SIGTERM. The next one goes on with
// the query, and the output is exact.
func TestSchedulerRestarts(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "hopping(1m, 20s)", "window_start, k, count(DISTINCT v) AS n, avg(v) AS s", "30s")
	s := startScheduler(t, root)
	submitKill(s, spec)
	for i, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		s.wait("kill", api.Running)
		time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
		pids := workers(s.query("kill"))
		s.kill(signal)
		for _, pid := range pids {
			for end := time.Now().Add(time.Minute); running(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("worker %d runs on without its parent after end %d", pid, i)
				}
			}
		}
		s = startScheduler(t, root)
	}
	q := s.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
	checkKillCounts(t, q, want)
}

// checkKillCounts compares the counts of a query that has been disturbed with those of one that has not: they follow from
// what it writes.
func checkKillCounts(t *testing.T, q *api.Query, output map[string]string) {
	t.Helper()
	rows := func(name string) int64 {
		return int64(strings.Count(output[name], "\n") - strings.Count(output[name], "t,k,v\n"))
	}
	minutes := rows("minutes.csv") - 1 // its header
	for name, want := range map[string][2]int64{
		"a": {2 * killRows, 2 * killRows}, "b": {killRows, killRows}, "both": {3 * killRows, 3 * killRows}, "large": {3 * killRows, rows("large")},
		"perMinute": {3 * killRows, minutes}, "total": {rows("large"), 1}, "w1": {minutes, minutes}, "w2": {rows("large"), rows("large")},
		"w3": {1, 1}, "w4": {rows("late.csv"), rows("late.csv")},
	} {
		i := slices.IndexFunc(q.Operators, func(o api.Operator) bool { return o.Name == name })
		if i < 0 {
			t.Errorf("there are no counts of %s: %+v", name, q.Operators)
			continue
		}
		if o := q.Operators[i]; o.In != want[0] || o.Out != want[1] {
			t.Errorf("%s: %d rows in and %d out, want %d", name, o.In, o.Out, want)
		}
	}
}

// TestSchedulerTakesOver: a standby sends clients to the leader, and goes on with the query when that has died.
func TestSchedulerTakesOver(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "session(15s)", "window_start, window_end, k, count(*) AS n, max(v) AS s", "10s")
	first := startScheduler(t, root)
	second := startScheduler(t, root)
	var h api.Health
	second.call("GET", "/health", nil, &h)
	if h.Leader || h.Status != "standby" || h.URL != first.url {
		t.Errorf("%+v", h)
	}
	submitKill(second, spec) // by way of the first
	q := second.wait("kill", api.Running)
	if a, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(second.url + api.Prefix + "/queries/kill/events?after=0"); err != nil ||
		a.StatusCode != http.StatusTemporaryRedirect || a.Header.Get("Location") != first.url+api.Prefix+"/queries/kill/events?after=0" {
		t.Errorf("%+v, error %v", a, err)
	}
	begin := time.Now()
	first.kill(syscall.SIGKILL)
	for {
		if next := second.query("kill"); next != nil && next.State == api.Running && next.Term > q.Term {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatalf("the query does not run again: %+v", next)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("the query runs again after %v", time.Since(begin))
	second.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
}

// followSpec is a query that runs until it is ended.
const followSpec = `<dataflow name="follow"><type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="rows" type="R"/><param name="path" value="in.csv"/><param name="follow" value="true"/></operator>
  <operator name="f" type="filter"><input name="rows"/><param name="condition" value="a &gt; 10"/><output name="some"/></operator>
  <operator name="out" type="writer"><input name="some"/><param name="path" value="out.csv"/></operator></dataflow>`

// writeFollow writes followSpec and its input.
func writeFollow(t *testing.T) (spec, dir string) {
	t.Helper()
	dir = t.TempDir()
	spec = filepath.Join(dir, "follow.xml")
	for path, text := range map[string]string{spec: followSpec, filepath.Join(dir, "in.csv"): "a\n5\n50\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return spec, dir
}

// TestSchedulerChanges: a query is changed, drained, and another one cancelled; events tell of all of it.
func TestSchedulerChanges(t *testing.T) {
	s := startScheduler(t, t.TempDir())
	spec, dir := writeFollow(t)
	events := readEvents(t, s, "/events?after=0")
	s.submit(spec, nil)
	waitOutput(t, dir, "a\n50\n")
	var set api.SetResult
	if status := s.call("POST", "/queries/follow/set", api.Setting{Operator: "f", Param: "condition", Value: "a > 100"}, &set); status != http.StatusOK || set.Epoch == 0 {
		t.Errorf("status %d, %+v", status, set)
	}
	for code, c := range map[api.Code]api.Setting{
		api.BadSetting: {Operator: "x", Param: "condition", Value: "a > 100"},
		api.BadRequest: {Operator: "f", Value: "a > 100"},
	} {
		var f api.Failure
		if s.call("POST", "/queries/follow/set", c, &f); f.Error.Code != code {
			t.Errorf("%+v", f)
		}
	}
	var f api.Failure
	if s.call("POST", "/queries", api.Submission{Spec: followSpec, Dir: dir}, &f); f.Error.Code != api.QueryExists {
		t.Errorf("%+v", f)
	}
	s.pastEpoch("follow", set.Epoch)
	in, err := os.OpenFile(filepath.Join(dir, "in.csv"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	fmt.Fprintf(in, "60\n600\n")
	waitOutput(t, dir, "a\n50\n600\n")
	var q api.Query
	if status := s.call("POST", "/queries/follow/drain", nil, &q); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	s.wait("follow", api.Finished)
	if s.call("POST", "/queries/follow/drain", nil, &f); f.Error.Code != api.QueryEnded {
		t.Errorf("%+v", f)
	}
	s.submit(spec, nil)
	pids := workers(s.wait("follow", api.Running))
	if status := s.call("DELETE", "/queries/follow", nil, &q); status != http.StatusOK || q.State != api.Cancelled {
		t.Errorf("status %d, %+v", status, q)
	}
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("worker %d runs after its query was cancelled", pid)
		}
	}
	want := []string{api.EventLeader, api.EventSubmitted, api.EventStarted, api.EventLaunched, api.EventChange, api.EventCheckpoint, api.EventFinished, api.EventSubmitted, api.EventCancelled}
	last := ""
	for _, kind := range want {
		last = events.next(t, kind).ID
	}
	again := readEvents(t, s, "/queries/follow/events?after="+strings.Split(last, "-")[0]+"-1")
	if e := again.next(t, api.EventCancelled); e.ID != last || e.Query != "follow" {
		t.Errorf("%+v", e)
	}
}

func waitOutput(t *testing.T, dir, want string) {
	t.Helper()
	var got []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got, _ = os.ReadFile(filepath.Join(dir, "out.csv")); string(got) == want {
			return
		}
	}
	t.Fatalf("output %q, want %q", got, want)
}

// eventReader reads server-sent events.
type eventReader struct{ lines *bufio.Scanner }

func readEvents(t *testing.T, s *testScheduler, path string) *eventReader {
	t.Helper()
	a, err := http.Get(s.url + api.Prefix + path)
	if err != nil || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%+v, error %v", a, err)
	}
	stop := time.AfterFunc(5*time.Minute, func() { a.Body.Close() })
	t.Cleanup(func() {
		stop.Stop()
		a.Body.Close()
	})
	return &eventReader{bufio.NewScanner(a.Body)}
}

// next gives the next event of a type.
func (r *eventReader) next(t *testing.T, kind string) api.Event {
	t.Helper()
	for r.lines.Scan() {
		text, ok := strings.CutPrefix(r.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e api.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == kind {
			return e
		}
	}
	t.Fatalf("there is no event %q", kind)
	return api.Event{}
}

// TestSchedulerFirstRow prints how long it takes from the submission of a query to its first row.
func TestSchedulerFirstRow(t *testing.T) {
	s := startScheduler(t, t.TempDir(), "--cluster", "local:3")
	for range 5 {
		spec, dir := writeFollow(t)
		begin := time.Now()
		s.submit(spec, nil)
		waitOutput(t, dir, "a\n50\n")
		t.Logf("first row after %v", time.Since(begin))
		s.call("DELETE", "/queries/follow", nil, nil)
	}
}
