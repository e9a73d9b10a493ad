package fakemesos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	outFlag  = regexp.MustCompile(`-out=WORKDIR/out/(\S+)`)
	envLine  = regexp.MustCompile(`^([A-Z_]+)=(.*)$`)
	exitLine = regexp.MustCompile(`^exits with status (\d+)`)
)

// replayExecutor makes the function that agents run: it replays what the executor named by -out did.
func replayExecutor(t testing.TB, m *ids) func(Process) int {
	return func(p Process) int {
		out := outFlag.FindStringSubmatch(p.Command.GetValue())
		if out == nil {
			t.Errorf("no recording of the executor %q", p.Command.GetValue())
			return 1
		}
		if _, err := os.Stat(filepath.Join("testdata", out[1])); err != nil { // its side was not kept
			return runRexec(m.scale)(p)
		}
		x := &execReplay{t: t, p: p, ids: m, streams: map[string]*openStream{}, name: out[1], pending: map[string]chan sent{}}
		m.mu.Lock()
		m.dirs["WORKDIR/agent1"] = strings.SplitN(p.Dir, "/slaves/", 2)[0]
		m.mu.Unlock()
		code, exits := x.run(readTranscript(t, out[1]))
		if !exits {
			<-p.Done()
		}
		return code
	}
}

// execReplay replays one executor. Its clients are executor and executor-2.
type execReplay struct {
	t       testing.TB
	p       Process
	ids     *ids
	name    string
	streams map[string]*openStream
	pending map[string]chan sent
	env     []string
	old     *openStream // the stream before the last SUBSCRIBE
}

func (x *execReplay) fail(e *entry, format string, args ...any) {
	if x.p.Err() == nil {
		x.t.Errorf("%s: line %d: %s", x.name, e.line, fmt.Sprintf(format, args...))
	}
}

func (x *execReplay) run(entries []*entry) (code int, exits bool) {
	prev, clock := time.Duration(0), time.Now()
	for _, e := range entries {
		if x.p.Err() != nil {
			return 0, true
		}
		if e.client != "" {
			clock = clock.Add(time.Duration(float64(max(0, e.at-prev)) * x.ids.scale))
			prev = max(prev, e.at)
			if e.kind == "request" || e.kind == "close" || e.kind == "remark" {
				x.sleep(time.Until(clock))
			}
			if late := time.Since(clock); late > 30*time.Millisecond { // what took long is not caught up with
				clock = clock.Add(late)
			}
		}
		switch e.kind {
		case "remark":
			if m := exitLine.FindStringSubmatch(e.text); m != nil {
				code, err := strconv.Atoi(m[1])
				if err != nil {
					x.t.Error(err)
				}
				return code, true
			}
			x.environment(e)
		case "request":
			x.send(e)
		case "response":
			x.response(e)
		case "record":
			x.record(e)
		case "close":
			if s := x.streams[e.client]; s != nil {
				s.close()
			}
		case "end", "cut":
			x.end(e)
		}
	}
	return 0, false
}

// end compares how the stream of a client ended; after a second SUBSCRIBE it is the first one that ends.
func (x *execReplay) end(e *entry) {
	s := x.streams[e.client]
	if x.old != nil {
		s, x.old = x.old, nil
	}
	if s == nil {
		x.fail(e, "no stream")
		return
	}
	if err := s.waitEnd(); (err == io.EOF) != (e.kind == "end") {
		x.fail(e, "the stream ended with %v", err)
	}
}

func (x *execReplay) sleep(gap time.Duration) {
	select {
	case <-time.After(gap):
	case <-x.p.Done():
	}
}

// environment compares the recorded environment, a line at a time, and all of it at its end.
func (x *execReplay) environment(e *entry) {
	if m := envLine.FindStringSubmatch(e.text); m != nil {
		x.env = append(x.env, e.text)
		return
	}
	if !strings.HasPrefix(e.text, "working directory") || !strings.Contains(e.text, "/executors/"+x.executorID()+"/") {
		return
	}
	var want []string
	for _, v := range x.env {
		if !strings.HasPrefix(v, "PWD=") { // the shell's own
			want = append(want, v)
		}
	}
	got := append([]string(nil), x.p.Env...)
	sort.Strings(got)
	sort.Strings(want)
	if len(want) != len(got) {
		x.fail(e, "want the environment %q, got %q", want, got)
		return
	}
	for i := range want {
		name, _, _ := strings.Cut(want[i], "=")
		if name == "MESOS_AGENT_ENDPOINT" || name == "MESOS_SLAVE_PID" { // the port differs
			if !strings.HasPrefix(got[i], strings.TrimSuffix(want[i], "5051")) {
				x.fail(e, "want %q, got %q", want[i], got[i])
			}
			continue
		}
		if !x.ids.text(want[i], got[i]) && !(x.ids.anyGrace && name == "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD") {
			x.fail(e, "want %q, got %q", want[i], got[i])
		}
	}
}

// executorID is the id; a recording that a later executor has overwritten has another one.
func (x *execReplay) executorID() string {
	for _, v := range x.p.Env {
		if id, ok := strings.CutPrefix(v, "MESOS_EXECUTOR_ID="); ok {
			return id
		}
	}
	return ""
}

func (x *execReplay) send(e *entry) {
	ch := make(chan sent, 1)
	x.pending[e.client] = ch
	body := x.ids.request(e.compact())
	method, rest, _ := strings.Cut(e.head, " ")
	path, _, _ := strings.Cut(rest, " ")
	endpoint := ""
	for _, v := range x.p.Env {
		if val, ok := strings.CutPrefix(v, "MESOS_AGENT_ENDPOINT="); ok {
			endpoint = val
		}
	}
	subscribe := strings.Contains(body, `"SUBSCRIBE"`)
	if subscribe {
		x.old, x.streams[e.client] = x.streams[e.client], nil
	}
	go func() {
		ctx, cancel := context.WithCancel(x.p)
		s := x.do(ctx, method, "http://"+endpoint+path, e.header, body)
		if s.resp != nil && len(s.resp.TransferEncoding) > 0 {
			st := &openStream{close: cancel}
			go st.read(s.resp.Body)
			x.streams[e.client] = st
		} else {
			cancel()
		}
		ch <- s
	}()
	if subscribe {
		s := <-ch
		ch <- s
	}
}

func (x *execReplay) do(ctx context.Context, method, url string, header http.Header, body string) sent {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return sent{err: err}
	}
	for _, name := range []string{"Content-Type", "Accept"} {
		for _, v := range header.Values(name) {
			req.Header.Add(name, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return sent{err: err}
	}
	if len(resp.TransferEncoding) > 0 {
		return sent{resp: resp}
	}
	defer resp.Body.Close()
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return sent{resp: resp, body: b.String()}
		}
	}
}

func (x *execReplay) response(e *entry) {
	ch := x.pending[e.client]
	if ch == nil {
		x.fail(e, "no request is open")
		return
	}
	s := <-ch
	ch <- s
	if s.err != nil {
		x.fail(e, "%v", s.err)
		return
	}
	if want := strings.TrimPrefix(e.head, "HTTP/1.1 "); s.resp.Status != want {
		x.fail(e, "want status %q, got %q %s", want, s.resp.Status, s.body)
		return
	}
	if want, got := e.header.Get("Content-Type"), s.resp.Header.Get("Content-Type"); want != got {
		x.fail(e, "want the Content-Type %q, got %q", want, got)
	}
	if e.header.Get("Transfer-Encoding") == "" && !x.ids.text(e.body, s.body) {
		x.fail(e, "want the body %q, got %q", e.body, s.body)
	}
}

func (x *execReplay) record(e *entry) {
	s := x.streams[e.client]
	if s == nil {
		x.fail(e, "no stream")
		return
	}
	var w map[string]any
	if err := json.Unmarshal([]byte(e.body), &w); err != nil {
		x.fail(e, "%v", err)
		return
	}
	g := s.next(class(w))
	if g == nil {
		x.fail(e, "no %s came; there is %s", class(w), s.list())
		return
	}
	for _, d := range x.ids.differs("", w, g.value) {
		x.fail(e, "%s (got %s)", d, g.raw)
	}
}
