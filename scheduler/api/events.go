package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	maxStreams  = 256              // of events at the same time
	pingTime    = 15 * time.Second // between two signs of life of a stream
	streamWrite = 30 * time.Second // for a client to take what is sent
)

// events sends events as they happen, until the client goes or another scheduler leads.
func (h *handler) events(w http.ResponseWriter, r *http.Request) error {
	lead := h.b.Lead()
	if lead == nil {
		return h.redirect(w, r)
	}
	query := r.PathValue("name")
	if query != "" {
		if _, err := h.b.Query(r.Context(), query); err != nil {
			return err
		}
	}
	follow, err := flag(r, "follow", true)
	if err != nil {
		return err
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		return Errorf(TooMany, "%d streams of events are open already", maxStreams)
	}
	s := &stream{w: w, c: http.NewResponseController(w), ring: h.b.Events(), query: query, follow: follow}
	s.last = r.Header.Get("Last-Event-ID")
	if s.last == "" {
		s.last = r.URL.Query().Get("after")
	}
	if err := s.ring.check(s.last); err != nil {
		return err
	}
	if s.last == "" && follow {
		s.last = s.ring.Last()
	}
	// What remains is bounded by the deadline of each write.
	if err := s.c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	s.run(r.Context().Done(), lead)
	return nil
}

// stream is a stream of events to a client.
type stream struct {
	w      http.ResponseWriter
	c      *http.ResponseController
	ring   *Ring
	query  string // "" for all
	last   string
	follow bool // wait for more
}

func (s *stream) run(gone, lead <-chan struct{}) {
	ping := time.NewTicker(pingTime)
	defer ping.Stop()
	// An id without data is that after which a client goes on that loses the stream before any event.
	text := fmt.Appendf(nil, ": events\nid: %s\n\n", s.last)
	for {
		list, more, missed := s.ring.After(s.last)
		if missed {
			text = appendEvent(text, Event{
				ID: s.last, Type: EventGap, Time: time.Now().UTC(), Query: s.query,
				Text: fmt.Sprintf("some of the events between %s and %s may be gone", s.last, list[0].ID),
			})
		}
		for _, e := range list {
			s.last = e.ID
			if s.query == "" || e.Query == s.query {
				text = appendEvent(text, e)
			}
		}
		if !s.send(text) || !s.follow {
			return
		}
		text = text[:0]
		select {
		case <-more:
		case <-gone:
			return
		case <-lead:
			return
		case <-ping.C:
			text = append(text, ": here\n\n"...)
		}
	}
}

func appendEvent(text []byte, e Event) []byte {
	data, err := json.Marshal(e)
	if err != nil {
		return text
	}
	return fmt.Appendf(text, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Type, data)
}

// send reports whether the client has taken the text.
func (s *stream) send(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := s.w.Write(text); err != nil {
		return false
	}
	return s.c.Flush() == nil
}
