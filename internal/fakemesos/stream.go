package fakemesos

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/x-protobuf"
)

// stream is one open answer of events: RecordIO records, each in a chunk of its own (rule 14).
// It takes the connection from net/http, which would neither keep the chunks apart nor break off without a last one.
type stream struct {
	asJSON bool
	id     string // Mesos-Stream-Id, "" for executors and operators

	mu     sync.Mutex
	queue  [][]byte
	wake   chan struct{} // has room for one
	closed bool
	cut    bool // ends without a last chunk
	done   chan struct{}
}

func newStream(asJSON bool, id string) *stream {
	return &stream{asJSON: asJSON, id: id, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// send queues one record. It never blocks.
func (s *stream) send(record []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.queue = append(s.queue, record)
	s.signal()
}

// end closes the stream after what is queued, with a last chunk unless cut.
func (s *stream) end(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed, s.cut = true, cut
	if cut {
		s.queue = nil
	}
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) take() (records [][]byte, closed, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, s.queue = s.queue, nil
	return records, s.closed, s.cut
}

func (s *stream) media() string {
	if s.asJSON {
		return typeJSON
	}
	return typeProtobuf
}

// serve writes the stream until it ends or the client goes. The result says whether the client went first.
func (s *stream) serve(w http.ResponseWriter) (gone bool) {
	defer close(s.done)
	h, ok := w.(http.Hijacker)
	if !ok {
		return true
	}
	conn, rw, err := h.Hijack()
	if err != nil {
		return true
	}
	defer conn.Close()
	head := "HTTP/1.1 200 OK\r\nDate: " + time.Now().UTC().Format(http.TimeFormat) + "\r\nTransfer-Encoding: chunked\r\n"
	if s.id != "" {
		head += "Mesos-Stream-Id: " + s.id + "\r\n"
	}
	if _, err := conn.Write([]byte(head + "Content-Type: " + s.media() + "\r\n\r\n")); err != nil {
		return true
	}
	left := make(chan struct{})
	go waitForEnd(rw.Reader, left)
	defer func() { conn.Close(); <-left }()
	return s.pump(conn, left)
}

func (s *stream) pump(conn net.Conn, left <-chan struct{}) (gone bool) {
	for {
		select {
		case <-left:
			return true
		case <-s.wake:
		}
		records, closed, cut := s.take()
		for _, r := range records {
			rec := fmt.Sprintf("%d\n%s", len(r), r)
			if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(rec), rec); err != nil {
				return true
			}
		}
		if !closed {
			continue
		}
		if !cut {
			_, _ = conn.Write([]byte("0\r\n\r\n")) // the client may be gone by now
		}
		return false
	}
}

// waitForEnd reads until the client closes; what it sends meanwhile is ignored.
func waitForEnd(r *bufio.Reader, left chan<- struct{}) {
	defer close(left)
	buf := make([]byte, 512)
	for {
		if _, err := r.Read(buf); err != nil {
			return
		}
	}
}

// accepts says whether the Accept headers allow a media type. None allows all.
func accepts(r *http.Request, media string) bool {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	for _, part := range strings.Split(strings.Join(values, ","), ",") {
		kind, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.ReplaceAll(params, " ", "") == "q=0" {
			continue
		}
		kind = strings.TrimSpace(kind)
		if kind == media || kind == "*/*" || kind == "application/*" {
			return true
		}
	}
	return false
}

// refuse answers with a text, as masters and agents do.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the client may be gone
}

// negotiate picks the media type of events: JSON whenever it is allowed (rule 16).
func negotiate(w http.ResponseWriter, r *http.Request) (asJSON, ok bool) {
	if accepts(r, typeJSON) {
		return true, true
	}
	if accepts(r, typeProtobuf) {
		return false, true
	}
	refuse(w, http.StatusNotAcceptable, "Expecting 'Accept' to allow 'application/x-protobuf' or 'application/json'")
	return false, false
}

// bodyKind checks method and Content-Type of a call.
func bodyKind(w http.ResponseWriter, r *http.Request) (asJSON, ok bool) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed,
			"405 Method Not Allowed. Expecting one of { 'POST' }, but received '"+r.Method+"'.")
		return false, false
	}
	switch r.Header.Get("Content-Type") {
	case "":
		refuse(w, http.StatusBadRequest, "Expecting 'Content-Type' to be present")
	case typeJSON:
		return true, true
	case typeProtobuf:
		return false, true
	default:
		refuse(w, http.StatusUnsupportedMediaType, "Expecting 'Content-Type' of application/json or application/x-protobuf")
	}
	return false, false
}
