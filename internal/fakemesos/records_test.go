package fakemesos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// got is one record of a stream.
type got struct {
	raw   string
	value map[string]any
	class string
	at    time.Time
	used  bool
}

// openStream is the stream of one client.
type openStream struct {
	mu      sync.Mutex
	records []*got
	ended   error // io.EOF after a proper last chunk
	close   func()
	last    int // index of the last matched record whose order counts
}

func (s *openStream) read(body io.Reader) {
	r := bufio.NewReader(body)
	for {
		raw, err := readRecord(r)
		s.mu.Lock()
		if err != nil {
			s.ended = err
			s.mu.Unlock()
			return
		}
		g := &got{raw: string(raw), at: time.Now()}
		if json.Unmarshal(raw, &g.value) == nil {
			g.class = class(g.value)
		}
		s.records = append(s.records, g)
		s.mu.Unlock()
	}
}

// class names the records among which the order is compared.
func class(v map[string]any) string {
	kind, _ := v["type"].(string)
	if u, ok := v["update"].(map[string]any); ok {
		if st, ok := u["status"].(map[string]any); ok {
			return kind + " " + fmt.Sprint(st["task_id"])
		}
	}
	return kind
}

// ordered says whether the order of a record among all of its kind counts: what the master or an agent says.
func ordered(v map[string]any) bool {
	switch v["type"] {
	case "RESCIND", "FAILURE":
		return true
	case "UPDATE":
		u, _ := v["update"].(map[string]any)
		st, _ := u["status"].(map[string]any)
		return st["source"] != "SOURCE_EXECUTOR"
	}
	return false
}

// next waits for the next record of a class.
func (s *openStream) next(class string) *got {
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		for i, g := range s.records {
			if g.used || g.class != class {
				continue
			}
			g.used = true
			if ordered(g.value) {
				if i < s.last {
					g.class += " (out of order)"
				}
				s.last = max(s.last, i)
			}
			s.mu.Unlock()
			return g
		}
		s.mu.Unlock()
	}
	return nil
}

func (s *openStream) waitEnd() error {
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		err := s.ended
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the stream has not ended")
}
