package fakemesos

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func parsed(t *testing.T, s string) resources {
	t.Helper()
	rs, err := parseResources(s)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestResources(t *testing.T) {
	all := parsed(t, "cpus:4;mem:2048;ports:[10-19];cpus(web):1")
	for _, x := range []struct{ part, rest string }{
		{"cpus:0.1;ports:[12-12]", "ports:[10-11, 13-19]; cpus(web):1; cpus:3.9; mem:2048"},
		{"cpus(web):1", "ports:[10-19]; cpus:4; mem:2048"},
		{"cpus:4;mem:2048;ports:[10-19]", "cpus(web):1"},
	} {
		part := parsed(t, x.part)
		if !all.contains(part) {
			t.Errorf("%s is not in all", x.part)
		}
		rest := all.minus(part)
		if got := plainText(rest); got != x.rest {
			t.Errorf("without %s: got %s, want %s", x.part, got, x.rest)
		}
		if got, want := plainText(rest.plus(part)), plainText(all); got != want {
			t.Errorf("with %s again: got %s, want %s", x.part, got, want)
		}
	}
	for _, s := range []string{"cpus:4.1", "ports:[19-20]", "gpus:1", "cpus(batch):1"} {
		if all.contains(parsed(t, s)) {
			t.Errorf("%s is in all", s)
		}
	}
	for _, s := range []string{"cpus", "cpus:x", "ports:[1]", "ports:[a-b]"} {
		if _, err := parseResources(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func plainText(rs resources) string {
	var out []string
	for _, r := range rs {
		name := r.name
		if r.reserved != "" {
			name += "(" + r.reserved + ")"
		}
		out = append(out, name+":"+r.amount())
	}
	return strings.Join(out, "; ")
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Second: "5secs", 15 * time.Minute: "15mins", 100 * time.Millisecond: "100ms", 90 * time.Minute: "1.5hrs", 7: "7ns",
	} {
		if got := mesosDuration(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

// TestDiffers proves that the comparison with recordings finds what differs.
func TestDiffers(t *testing.T) {
	const (
		id1, id2 = "6107728c-e303-4497-91a2-60ffd0be6259", "0007728c-e303-4497-91a2-60ffd0be6259"
		id3      = "1117728c-e303-4497-91a2-60ffd0be6259"
	)
	for _, x := range []struct {
		want, got string
		differs   bool
	}{
		{`{"a":1}`, `{"a":1}`, false},
		{`{"a":1}`, `{"a":2}`, true},
		{`{"a":1}`, `{}`, true},
		{`{}`, `{"a":1}`, true},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, true},
		{`{"timestamp":1}`, `{"timestamp":2}`, false},
		{`{"timestamp":1}`, `{}`, true},
		{`{"a":"x"}`, `{"a":"y"}`, true},
		{`{"a":"` + id1 + `-0000"}`, `{"a":"` + id2 + `-0000"}`, false},
		{`{"a":"` + id1 + `-0000"}`, `{"a":"` + id2 + `-0001"}`, true},
		{`{"a":"` + id1 + `","b":"` + id1 + `"}`, `{"a":"` + id2 + `","b":"` + id3 + `"}`, true},
		{`{"m":"within 4secs"}`, `{"m":"within 200ms"}`, false},
		{`{"m":"within 4secs"}`, `{"m":"within 4secs"}`, true},
		{`{"heartbeat_interval_seconds":15.0}`, `{"heartbeat_interval_seconds":0.75}`, false},
		{`{"heartbeat_interval_seconds":15.0}`, `{"heartbeat_interval_seconds":15.0}`, true},
	} {
		var w, g any
		if err := json.Unmarshal([]byte(x.want), &w); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(x.got), &g); err != nil {
			t.Fatal(err)
		}
		if diffs := newIDs(0.05).differs("", w, g); (len(diffs) > 0) != x.differs {
			t.Errorf("%s and %s: %q", x.want, x.got, diffs)
		}
	}
}
