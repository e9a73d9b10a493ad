package window

import (
	"testing"

	"sluice/operators"
)

const snapshotGroups = 1_000_000

// fullMachine is an operator with a million groups of count(*) and sum(v) with an int key.
func fullMachine(b *testing.B, window string, fillIt bool) *aggregate {
	c := countSum(window)
	a := &aggregate{core: newCore(c), fingerprint: window, reached: 0, seq: snapshotGroups, time: -1}
	if fillIt {
		if err := fill(a.core, snapshotGroups, 1); err != nil {
			b.Fatal(err)
		}
	}
	return a
}

var snapshotWindows = []string{"", "tumbling(1s)", "hopping(10s, 1s)", "session(1s)", "rows(100)"}

func perGroup(b *testing.B, what string) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/snapshotGroups, "ns/group")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), what+"-ms")
}

// BenchmarkFreeze is how long an operator stands still.
func BenchmarkFreeze(b *testing.B) {
	for _, w := range snapshotWindows {
		b.Run("window="+w, func(b *testing.B) {
			a := fullMachine(b, w, true)
			if a.core.advance(0) != nil {
				b.Fatal("advance")
			}
			for b.Loop() {
				if _, err := a.Freeze(); err != nil {
					b.Fatal(err)
				}
			}
			perGroup(b, "pause")
		})
	}
}

// BenchmarkWrite is how long it takes to write what was frozen.
func BenchmarkWrite(b *testing.B) {
	for _, w := range snapshotWindows {
		b.Run("window="+w, func(b *testing.B) {
			a := fullMachine(b, w, true)
			if a.core.advance(0) != nil {
				b.Fatal("advance")
			}
			bytes := 0
			for b.Loop() {
				bytes = 0
				if err := a.Snapshot(func(_ int, p []byte) error { bytes += len(p); return nil }); err != nil {
					b.Fatal(err)
				}
			}
			perGroup(b, "write")
			b.ReportMetric(float64(bytes)/snapshotGroups, "bytes/group")
		})
	}
}

// BenchmarkRestore is how long it takes to bring the state back.
func BenchmarkRestore(b *testing.B) {
	for _, w := range snapshotWindows {
		b.Run("window="+w, func(b *testing.B) {
			a := fullMachine(b, w, true)
			if a.core.advance(0) != nil {
				b.Fatal("advance")
			}
			pieces := snapshot(b, a.Snapshot)
			for b.Loop() {
				next := fullMachine(b, w, false)
				for _, p := range pieces {
					if err := next.Restore(p.group, p.data); err != nil {
						b.Fatal(err)
					}
				}
				next.loaded()
			}
			perGroup(b, "restore")
		})
	}
}

var _ operators.Freezer = (*aggregate)(nil)
