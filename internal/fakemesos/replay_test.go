package fakemesos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sent is a request whose answer is to come.
type sent struct {
	resp *http.Response
	body string
	err  error
}

// replay replays the side of frameworks and operators.
type replay struct {
	t        testing.TB
	c        *Cluster
	ids      *ids
	streams  map[string]*openStream
	all      []*openStream
	pending  map[string]chan sent
	lastSent time.Time
	client   *http.Client
	actions  map[string]func(*Cluster)
	until    string // the remark at which to stop
	manual   bool   // allocations happen where the recording has offers
	acted    map[string]bool
	ahead    []*entry          // what follows
	states   map[string]string // the last state of a client's task
}

func newReplay(t testing.TB, c *Cluster, m *ids) *replay {
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &replay{
		t: t, c: c, ids: m, acted: map[string]bool{}, states: map[string]string{}, streams: map[string]*openStream{}, pending: map[string]chan sent{},
		client: &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

func (r *replay) fail(e *entry, format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("line %d (%s): %s", e.line, e.client, fmt.Sprintf(format, args...))
}

func (r *replay) run(entries []*entry) {
	prev, clock := time.Duration(0), time.Now()
	for i, e := range entries {
		r.ahead = entries[i+1:]
		if e.client != "" {
			if prev == 0 {
				prev = e.at // nothing happens before the first one
			}
			clock = clock.Add(time.Duration(float64(max(0, e.at-prev)) * r.ids.scale))
			prev = max(prev, e.at)
			if e.kind == "request" || e.kind == "ack" || e.kind == "close" || e.kind == "call" {
				time.Sleep(time.Until(clock))
			}
			if late := time.Since(clock); late > 30*time.Millisecond { // what took long is not caught up with
				clock = clock.Add(late)
			}
		}
		if r.until != "" && strings.HasPrefix(e.text, r.until) && e.kind == "remark" {
			break
		}
		r.step(e)
		if r.t.Failed() {
			return
		}
		r.act(e)
	}
	for _, s := range r.all {
		r.leftOver(s)
	}
}

// allocate makes offers now, where the recording has them, when the cluster does not at intervals.
func (r *replay) allocate() {
	if !r.manual {
		return
	}
	for limit := time.Now().Add(time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(r.c.Agents(), func(a Agent) bool { return a.Running && !a.Registered }) {
			break
		}
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.allocate()
}

// act does what was done when this entry was recorded, once.
func (r *replay) act(e *entry) {
	if e.kind == "request" {
		return
	}
	for key, do := range r.actions {
		hit := !r.acted[key]
		for part := range strings.SplitSeq(key, " & ") {
			hit = hit && (strings.Contains(e.text, part) || strings.Contains(e.body, part) || part == fmt.Sprintf("line %d", e.line))
		}
		if hit {
			r.acted[key] = true
			do(r.c)
		}
	}
}

// ackEarly does the acknowledgement that this update waits for: it is recorded with its answer, which may come later.
func (r *replay) ackEarly(e *entry, key, state string) {
	task := strings.TrimSuffix(strings.TrimPrefix(key, e.client+" map[value:"), "]")
	for i, a := range r.ahead {
		if i > 8 || a.kind == "request" {
			return
		}
		words := strings.Fields(a.text)
		if a.kind != "ack" || a.client != e.client || words[1] != task {
			continue
		}
		if r.states[key] == words[2] && state != words[2] {
			r.ack(a)
			a.kind = "remark"
		}
		return
	}
}

// leftOver finds what the double sent and the recording does not have. Heartbeats and offers may come at any time.
func (r *replay) leftOver(s *openStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.records {
		if !g.used && g.class != "HEARTBEAT" && g.class != "OFFERS" && g.class != "INVERSE_OFFERS" {
			r.t.Errorf("not recorded: %s", g.raw)
		}
	}
}

func (r *replay) step(e *entry) {
	switch e.kind {
	case "request":
		r.send(e)
	case "response":
		r.response(e)
	case "record":
		r.record(e)
	case "offers":
		r.offers(e)
	case "event":
		if s := r.stream(e); s != nil {
			kind, _, _ := strings.Cut(e.text, " ")
			if s.next(kind) == nil {
				r.fail(e, "no %s came", kind)
			}
		}
	case "ack":
		r.ack(e)
	case "call":
		r.call(e)
	case "end", "cut":
		r.end(e)
	case "close":
		if s := r.streams[e.client]; s != nil {
			s.close()
			_ = s.waitEnd() // closed by this side
		}
	}
}

func (r *replay) stream(e *entry) *openStream {
	s := r.streams[e.client]
	if s == nil {
		r.fail(e, "client %s has no stream", e.client)
	}
	return s
}

func (r *replay) do(head string, header http.Header, body string) sent {
	method, rest, _ := strings.Cut(head, " ")
	path, _, _ := strings.Cut(rest, " ")
	addr := r.c.masterAddr(header.Get("Host"))
	req, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return sent{err: err}
	}
	for _, name := range []string{"Content-Type", "Accept", "Mesos-Stream-Id", "Authorization", "Content-Encoding", "Message-Accept"} {
		for _, v := range header.Values(name) {
			req.Header.Add(name, r.ids.request(v))
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return sent{err: err}
	}
	if len(resp.TransferEncoding) > 0 {
		return sent{resp: resp}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return sent{resp: resp, body: string(raw), err: err}
}

// masterAddr finds the master or agent that a recording calls 127.0.0.1:5050 and so on.
func (c *Cluster) masterAddr(host string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.HasSuffix(host, ":5060") && len(c.masters) > 1:
		return c.masters[1].addr
	case strings.HasSuffix(host, ":5051"):
		return c.agents[0].addr
	}
	return c.masters[0].addr
}

func (r *replay) send(e *entry) {
	ch := make(chan sent, 1)
	r.pending[e.client] = ch
	body := r.ids.request(e.compact())
	r.lastSent = time.Now()
	go func() { ch <- r.do(e.head, e.header, body) }()
	if strings.Contains(body, `"SUBSCRIBE"`) { // its events may be recorded before its answer
		r.await(e)
	}
}

// await waits for an answer and opens its stream.
func (r *replay) await(e *entry) sent {
	ch := r.pending[e.client]
	if ch == nil {
		r.fail(e, "no request is open")
		return sent{}
	}
	var s sent
	select {
	case s = <-ch:
	case <-time.After(5 * time.Second):
		r.fail(e, "no answer came")
		return sent{}
	}
	if s.resp != nil && len(s.resp.TransferEncoding) > 0 && s.body == "" {
		st := &openStream{close: func() { s.resp.Body.Close() }}
		r.streams[e.client] = st
		r.all = append(r.all, st)
		r.t.Cleanup(st.close)
		go st.read(s.resp.Body)
		s.body = "stream"
	}
	ch <- s
	return s
}

func (r *replay) response(e *entry) {
	s := r.await(e)
	if s.err != nil || s.resp == nil {
		r.fail(e, "no answer: %v", s.err)
		return
	}
	want := strings.TrimPrefix(e.head, "HTTP/1.1 ")
	if s.resp.Status != want {
		r.fail(e, "want status %q, got %q %s", want, s.resp.Status, s.body)
		return
	}
	for _, name := range []string{"Content-Type", "Allow", "Location", "Www-Authenticate"} {
		want, got := e.header.Get(name), s.resp.Header.Get(name)
		if name == "Location" {
			want = r.c.location(want)
		}
		if want != got {
			r.fail(e, "want the header %s: %q, got %q", name, want, got)
		}
	}
	if id := e.header.Get("Mesos-Stream-Id"); id != "" {
		r.ids.text(id, s.resp.Header.Get("Mesos-Stream-Id"))
	}
	if e.header.Get("Transfer-Encoding") == "" {
		r.body(e, e.body, s.body)
	}
}

// location translates the port of a recorded address.
func (c *Cluster) location(s string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, port := range []string{"5050", "5060"} {
		if i < len(c.masters) {
			s = strings.Replace(s, "localhost:"+port, "localhost:"+strconv.Itoa(int(portOf(c.masters[i].addr))), 1)
		}
	}
	return s
}

func (r *replay) body(e *entry, want, got string) {
	if strings.Contains(want, "more characters cut)") || strings.Contains(want, "bytes of binary)") {
		return
	}
	var w, g any
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		if !r.ids.text(want, got) {
			r.fail(e, "want the body %q, got %q", want, got)
		}
		return
	}
	for _, d := range r.ids.differs("", w, g) {
		r.fail(e, "%s", d)
	}
}

func (r *replay) record(e *entry) {
	s := r.stream(e)
	if s == nil {
		return
	}
	var w map[string]any
	if err := json.Unmarshal([]byte(e.body), &w); err != nil {
		r.fail(e, "the recording is no JSON: %v", err)
		return
	}
	kind := class(w)
	task, isUpdate := strings.CutPrefix(kind, "UPDATE ")
	if isUpdate {
		key := e.client + " " + task
		st, _ := w["update"].(map[string]any)["status"].(map[string]any)
		state := fmt.Sprint(st["state"])
		r.ackEarly(e, key, state)
		r.states[key] = state
	}
	if kind == "OFFERS" {
		r.allocate()
	}
	g := s.next(kind)
	if g == nil {
		r.fail(e, "no %s came; there is %s", class(w), s.list())
		return
	}
	if strings.Contains(g.class, "out of order") {
		r.fail(e, "came too early: %s", g.raw)
	}
	r.inTime(e, g)
	for _, d := range r.ids.differs("", w, g.value) {
		r.fail(e, "%s (got %s)", d, g.raw)
	}
}

func (s *openStream) list() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, g := range s.records {
		if !g.used {
			out = append(out, g.raw)
		}
	}
	return strings.Join(out, "\n")
}

// inTime finds offers that came before the request that the recording has before them.
func (r *replay) inTime(e *entry, g *got) {
	if !r.manual && g.class == "OFFERS" && r.lastSent.Sub(g.at) > 40*time.Millisecond { // less is a race that the recording has, too
		r.fail(e, "the offers came %v before the last request", r.lastSent.Sub(g.at))
	}
}

var shortOffer = regexp.MustCompile(`offer \.\.\.-(O\d+) of agent \.\.\.-(S\d+): ([^;]*)`)

func (r *replay) offers(e *entry) {
	s := r.stream(e)
	if s == nil {
		return
	}
	r.allocate()
	g := s.next("OFFERS")
	if g == nil {
		r.fail(e, "no OFFERS came; there is %s", s.list())
		return
	}
	r.inTime(e, g)
	var ev struct {
		Offers struct {
			Offers []struct {
				ID        struct{ Value string }
				AgentID   struct{ Value string } `json:"agent_id"`
				Resources []struct {
					Name   string
					Scalar struct{ Value float64 }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(g.raw), &ev); err != nil {
		r.fail(e, "%v", err)
		return
	}
	all := shortOffer.FindAllStringSubmatch(e.text, -1)
	if len(all) != len(ev.Offers.Offers) {
		r.fail(e, "want %d offers, got %s", len(all), g.raw)
		return
	}
	for _, o := range ev.Offers.Offers {
		i := 0
		for k := range all {
			if strings.HasSuffix(o.AgentID.Value, "-"+all[k][2]) {
				i = k
			}
		}
		var text []string
		for _, x := range o.Resources {
			if x.Name == "ports" {
				text = append(text, x.Name)
				continue
			}
			text = append(text, fmt.Sprintf("%s:%g", x.Name, x.Scalar.Value))
		}
		if got := strings.Join(text, " "); got != strings.TrimSpace(all[i][3]) {
			r.fail(e, "want an offer of %s, got %s", all[i][3], got)
		}
		r.ids.mu.Lock()
		r.ids.offers[all[i][1]] = o.ID.Value
		r.ids.mu.Unlock()
	}
}

// ack acknowledges the last update of a task in a state.
func (r *replay) ack(e *entry) {
	words := strings.Fields(e.text)
	s := r.stream(e)
	if s == nil {
		return
	}
	var body string
	s.mu.Lock()
	for _, g := range s.records {
		var ev struct {
			FrameworkID string
			Update      struct {
				Status struct {
					TaskID  json.RawMessage `json:"task_id"`
					AgentID json.RawMessage `json:"agent_id"`
					State   string
					UUID    json.RawMessage `json:"uuid"`
				}
			}
		}
		if g.used && json.Unmarshal([]byte(g.raw), &ev) == nil && ev.Update.Status.State == words[2] &&
			string(ev.Update.Status.TaskID) == `{"value":"`+words[1]+`"}` && ev.Update.Status.UUID != nil {
			st := ev.Update.Status
			body = fmt.Sprintf(`"type":"ACKNOWLEDGE","acknowledge":{"agent_id":%s,"task_id":%s,"uuid":%s}}`, st.AgentID, st.TaskID, st.UUID)
		}
	}
	s.mu.Unlock()
	if body == "" {
		r.fail(e, "nothing to acknowledge")
		return
	}
	id, stream := r.subscribed(s)
	got := r.do("POST /api/v1/scheduler", http.Header{"Content-Type": {typeJSON}, "Mesos-Stream-Id": {stream}},
		`{"framework_id":{"value":"`+id+`"},`+body)
	if got.err != nil || got.resp.StatusCode != http.StatusAccepted {
		r.fail(e, "%v %s", got.err, got.body)
	}
}

// subscribed is the framework that holds a stream: the first record says which.
func (r *replay) subscribed(s *openStream) (framework, stream string) {
	s.mu.Lock()
	var ev struct {
		Subscribed struct {
			FrameworkID struct{ Value string } `json:"framework_id"`
		}
	}
	_ = json.Unmarshal([]byte(s.records[0].raw), &ev)
	s.mu.Unlock()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	id := ev.Subscribed.FrameworkID.Value
	if f := r.c.m.frameworks[id]; f != nil && f.stream != nil {
		return id, f.stream.id
	}
	return id, ""
}

var shortCall = regexp.MustCompile(`^(?:SUBSCRIBE-less probe: )?(\w+) \(shortened\) -> HTTP/1.1 (\d+ [^:{]*)(?:: (.*))?$`)

func (r *replay) call(e *entry) {
	m := shortCall.FindStringSubmatch(e.text)
	if m == nil {
		r.fail(e, "cannot be replayed: %s", e.text)
		return
	}
	head, body, host := "POST /api/v1", `{"type":"`+m[1]+`"}`, ""
	if m[1] == "REVIVE" {
		head, body, host = "POST /api/v1/scheduler", `{"type":"REVIVE","framework_id":{"value":"x"}}`, ":5060"
	}
	got := r.do(head, http.Header{"Content-Type": {typeJSON}, "Accept": {typeJSON}, "Host": {host}}, body)
	if got.err != nil || got.resp.Status != strings.TrimSpace(m[2]) {
		r.fail(e, "%v %+v", got.err, got.resp)
		return
	}
	if m[3] != "" {
		r.body(e, m[3], got.body)
	}
}

func (r *replay) end(e *entry) {
	s := r.stream(e)
	if s == nil {
		return
	}
	err := s.waitEnd()
	if proper := err == io.EOF; proper != (e.kind == "end") {
		r.fail(e, "the stream ended with %v", err)
	}
}
