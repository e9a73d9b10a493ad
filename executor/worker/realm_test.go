package worker

import (
	"testing"

	"sluice/metaquery"
)

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
