package fakemesos

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// exchange is a part of sched00: bytes sent and bytes received.
type exchange struct {
	same       bool // on the connection of the one before
	sent, want string
}

// rawExchanges reads the transcript of exact bytes.
func rawExchanges(t *testing.T) []exchange {
	raw, err := os.ReadFile("testdata/sched00-raw-bytes.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []exchange
	var to *string
	for line := range strings.SplitSeq(string(raw), "\n") {
		text := strings.TrimPrefix(line, "# ")
		switch {
		case strings.HasPrefix(text, "sent"):
			out = append(out, exchange{same: strings.Contains(text, "same connection")})
			to = &out[len(out)-1].sent
		case text == "received:":
			to = &out[len(out)-1].want
		case line == "":
			to = nil
		case to != nil:
			text = strings.ReplaceAll(text, `\r`, "\r")
			*to += strings.ReplaceAll(text, `\n`, "\n")
		}
	}
	return out
}

// TestRawBytes sends the recorded bytes and compares what comes, with ids, times and the lengths that follow from them
// left out, and the order of headers and of JSON fields.
func TestRawBytes(t *testing.T) {
	c := New(t, Options{Scale: 0.05, Agents: []AgentSpec{{}}})
	time.Sleep(60 * time.Millisecond)
	m := newIDs(0.05)
	var conn net.Conn
	for i, x := range rawExchanges(t) {
		if strings.HasPrefix(x.sent, "hello") {
			continue // net/http answers 400 to what is no HTTP, a master closes the connection
		}
		if !x.same {
			var err error
			if conn, err = net.Dial("tcp", c.Endpoint()); err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		if _, err := io.WriteString(conn, x.sent); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(x.want, "Transfer-Encoding: chunked") {
			compareStream(t, m, conn, x.want)
			continue
		}
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		if err == nil && resp.StatusCode == http.StatusContinue { // net/http sends it, a master does not
			resp, err = http.ReadResponse(r, nil)
		}
		if err != nil {
			t.Fatalf("exchange %d: %v", i, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		compareAnswer(t, i, x.want, resp, string(body))
		if strings.Contains(x.want, "<<connection closed by the server>>") {
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("exchange %d: the connection is not closed, %d bytes came", i, n)
			}
		}
	}
}

func compareAnswer(t *testing.T, i int, want string, resp *http.Response, body string) {
	t.Helper()
	w, err := http.ReadResponse(bufio.NewReader(strings.NewReader(want)), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantBody, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.Status != resp.Status || string(wantBody) != body {
		t.Errorf("exchange %d: want %s %q, got %s %q", i, w.Status, wantBody, resp.Status, body)
	}
	for _, h := range []*http.Header{&w.Header, &resp.Header} {
		h.Del("Date")
		h.Del("Connection") // net/http says that it closes, a master does not
	}
	if got, want := headerText(resp.Header), headerText(w.Header); got != want {
		t.Errorf("exchange %d: want the headers %s, got %s", i, want, got)
	}
}

func headerText(h http.Header) string {
	var out []string
	for k, v := range h {
		out = append(out, k+": "+strings.Join(v, ","))
	}
	sort.Strings(out)
	return strings.Join(out, "; ")
}

var headLine = regexp.MustCompile(`^([A-Za-z-]+): (.*)$`)

// compareStream compares the head of a stream exactly, and its chunks: a record each.
func compareStream(t *testing.T, m *ids, conn net.Conn, want string) {
	t.Helper()
	w, r := bufio.NewReader(strings.NewReader(want)), bufio.NewReader(conn)
	for {
		wl, gl := readLine(t, w), readLine(t, r)
		wm, gm := headLine.FindStringSubmatch(wl), headLine.FindStringSubmatch(gl)
		differs := wl != gl
		if wm != nil && gm != nil && (wm[1] == "Date" || wm[1] == "Mesos-Stream-Id") {
			differs = wm[1] != gm[1] || len(wm[2]) != len(gm[2])
		}
		if differs {
			t.Errorf("want the line %q, got %q", wl, gl)
		}
		if wl == "" {
			break
		}
	}
	for {
		wl, err := w.ReadString('\n')
		if err == io.EOF {
			return
		}
		wr, gr := chunk(t, w, strings.TrimSpace(wl)), chunk(t, r, readLine(t, r))
		for _, d := range m.differs("", wr, gr) {
			t.Error(d)
		}
	}
}

func readLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasSuffix(line, "\r\n") {
		t.Fatalf("line %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// chunk reads a chunk of this length, which is to hold one record, and checks both lengths.
func chunk(t *testing.T, r *bufio.Reader, length string) map[string]any {
	t.Helper()
	n, err := strconv.ParseInt(length, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		t.Fatal(err)
	}
	if end := readLine(t, r); end != "" {
		t.Fatalf("after a chunk comes %q", end)
	}
	size, body, _ := strings.Cut(string(raw), "\n")
	if size != strconv.Itoa(len(body)) || strings.Contains(body, "\n") {
		t.Errorf("a record of %d bytes says %q", len(body), size)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return v
}
