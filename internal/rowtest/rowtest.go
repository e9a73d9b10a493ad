// Package rowtest compares what tests have written with what they should have.
package rowtest

import (
	"slices"
	"testing"
)

// Compare reports rows that are missing or too many. Both lists are sorted; name says of what they are.
func Compare(t *testing.T, name string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	var missing, extra []string
	for len(got) > 0 || len(want) > 0 {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0] < got[0]:
			missing, want = append(missing, want[0]), want[1:]
		case len(want) == 0 || got[0] < want[0]:
			extra, got = append(extra, got[0]), got[1:]
		default:
			got, want = got[1:], want[1:]
		}
	}
	t.Errorf("%s: %d rows are missing, such as %q; %d are too many, such as %q", name, len(missing), missing[:min(3, len(missing))], len(extra), extra[:min(3, len(extra))])
}
