package fakemesos

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// entry is one part of a transcript.
type entry struct {
	line   int
	client string        // "" for remarks
	at     time.Duration // since the start of the recording
	kind   string        // request, response, record, offers, event, ack, call, end, cut, close, remark
	text   string        // the first line without client and time
	head   string        // request or status line
	header http.Header
	body   string
}

var entryLine = regexp.MustCompile(`^(>>>>|<<<<|----) \[(\S+) \+([0-9.]+)s\] (.*)$`)

// readTranscript parses a transcript.
func readTranscript(t testing.TB, name string) []*entry {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*entry
	var lines []string
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	flush := func() {
		if len(out) > 0 {
			out[len(out)-1].fill(lines)
		}
		lines = nil
	}
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		m := entryLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			flush()
			secs, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, &entry{line: n, client: m[2], at: time.Duration(secs * 1e9), text: m[4], kind: kindOfEntry(m[1], m[4])})
		case strings.HasPrefix(line, "#"):
			flush()
			out = append(out, &entry{line: n, kind: "remark", text: strings.TrimPrefix(line, "# ")})
		default:
			lines = append(lines, line)
		}
	}
	flush()
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func kindOfEntry(arrow, text string) string {
	switch {
	case text == "request":
		return "request"
	case text == "response":
		return "response"
	case strings.HasPrefix(text, "record"):
		return "record"
	case strings.HasPrefix(text, "OFFERS (shortened)"):
		return "offers"
	case arrow == "<<<<" && strings.Contains(text, "(shortened)"):
		return "event"
	case strings.HasPrefix(text, "ACKNOWLEDGE"):
		return "ack"
	case arrow == ">>>>":
		return "call"
	case strings.HasPrefix(text, "end of stream (after"):
		return "end"
	case strings.HasPrefix(text, "end of stream (without"):
		return "cut"
	case strings.HasPrefix(text, "client closes"):
		return "close"
	}
	return "remark"
}

// fill reads the lines below the first one: head, header and body.
func (e *entry) fill(lines []string) {
	var body []string
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "  "):
			body = append(body, l[2:])
		case l == "":
		case e.head == "" && (e.kind == "request" || e.kind == "response"):
			e.head, e.header = l, http.Header{}
		default:
			name, val, _ := strings.Cut(l, ": ")
			if e.header != nil {
				e.header.Add(name, val)
			}
		}
	}
	e.body = strings.Join(body, "\n")
	if quoted := regexp.MustCompile(`^\(\d+ bytes: (".*")\)$`).FindStringSubmatch(e.body); quoted != nil {
		if s, err := strconv.Unquote(quoted[1]); err == nil {
			e.body = s
		}
	}
}

// compact is a request's body with as little space as it was sent with; what is no JSON stays.
func (e *entry) compact() string {
	var v json.RawMessage
	if json.Unmarshal([]byte(e.body), &v) != nil {
		return e.body
	}
	var b strings.Builder
	inString, escaped := false, false
	for _, r := range e.body {
		switch {
		case escaped:
			escaped = false
		case inString && r == '\\':
			escaped = true
		case r == '"':
			inString = !inString
		case !inString && (r == ' ' || r == '\n'):
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// flags are the flags of the command lines at the top of a transcript.
func flags(entries []*entry) map[string]string {
	out := map[string]string{}
	for _, e := range entries {
		if e.kind != "remark" || !strings.HasPrefix(e.text, "LIBEXECDIR/") {
			continue
		}
		for _, word := range strings.Fields(e.text)[1:] {
			name, val, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
			out[name] = val
		}
	}
	return out
}
