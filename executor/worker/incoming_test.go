package worker

import (
	"testing"

	"sluice/executor/transport"
	"sluice/metaquery"
)

// hearing is an instance that hears one generation.
type hearing struct {
	Instance
	gen int64
}

func (h hearing) Hears(_ string, gen int64) bool        { return gen == h.gen }
func (h hearing) Receive(_ string, _ int64, msg []byte) {}

// replies is a connection that keeps what is sent on it.
type replies struct{ sent []string }

func (r *replies) Send(msg []byte) error { r.sent = append(r.sent, string(msg)); return nil }
func (r *replies) Close() error          { return nil }

// TestAnswers: who is not heard, since it says that it is of another generation, does not get what is for the right
// producer.
func TestAnswers(t *testing.T) {
	right, other := &replies{}, &replies{}
	h := &host{inst: hearing{gen: 2}, inputs: map[string]*input{}}
	for _, m := range []struct {
		gen  int64
		back transport.Conn
	}{{1 << 62, other}, {2, right}, {1, other}, {1 << 62, other}} {
		h.deliver(&item{channel: "rows", generation: m.gen, msg: []byte("x"), back: m.back})
		h.Reply("rows", []byte("answer"))
	}
	if len(right.sent) != 3 || len(other.sent) != 0 {
		t.Errorf("the right producer got %d answers, want 3; the other %d", len(right.sent), len(other.sent))
	}
}

// TestRealm: what comes from workers of another query, whose channels have the same names, is not taken.
func TestRealm(t *testing.T) {
	ours := realmOf(&metaquery.Deploy{State: "/a", Graph: "g"})
	h := &host{box: newMailbox[item]()}
	d := dataHandler{&worker{realm: ours, routes: map[string]*host{"rows": h}}}
	for _, o := range []metaquery.Deploy{{State: "/b", Graph: "g"}, {State: "/a", Graph: "h"}, {State: "/a\x00g"}} {
		d.Message(realmOf(&o)+"rows", 1, []byte("theirs"), nil)
	}
	d.Message("rows", 1, []byte("nobody's"), nil)
	d.Message(ours+"rows", 1, []byte("ours"), nil)
	got := h.box.takeAll(nil)
	if len(got) != 1 || string(got[0].msg) != "ours" {
		t.Fatalf("taken: %d messages, want that of ours alone", len(got))
	}
}
