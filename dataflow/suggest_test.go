package dataflow_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
)

func TestNearest(t *testing.T) {
	for _, c := range []struct{ name, known, want string }{
		{"dealy", "delay date", "delay"},
		{"dealy", "origin", ""},
		{"ab", "ax xb", "ax"},
		{"ab", "xy", ""},
		{"a", "b", ""},
		{"", "a", ""},
		{"zürich", "zurich", "zurich"},
		{"delay", "delay delays", "delays"},
		{strings.Repeat("x", 256) + "y", strings.Repeat("x", 256), ""},
	} {
		if got := dataflow.Nearest(c.name, strings.Fields(c.known)); got != c.want {
			t.Errorf("Nearest(%q, %s) = %q, want %q", c.name, c.known, got, c.want)
		}
	}
}

// distance is the Levenshtein distance after its definition.
func distance(a, b []rune) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	if a[0] == b[0] {
		return distance(a[1:], b[1:])
	}
	return 1 + min(distance(a[1:], b), distance(a, b[1:]), distance(a[1:], b[1:]))
}

func TestNearestIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("abä")), 0, 6, -1)
		name := word.Draw(t, "name")
		known := rapid.SliceOfN(word, 0, 5).Draw(t, "known")
		want, best := "", len([]rune(name))/2
		for _, k := range known {
			if d := distance([]rune(name), []rune(k)); k != name && d <= best && (want == "" || d < best) {
				want, best = k, d
			}
		}
		if got := dataflow.Nearest(name, known); got != want {
			t.Fatalf("Nearest(%q, %q) = %q, want %q", name, known, got, want)
		}
	})
}
