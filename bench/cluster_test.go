package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestClusterAlone(t *testing.T) {
	o, err := parseOptions([]string{"cluster", "-n", "2", "-only", "pause"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.alone != "cluster" || o.repeats != 2 || !o.only.MatchString("cluster pause") || o.only.MatchString("cluster latency") {
		t.Errorf("options are %+v", o)
	}
}

// TestGap checks the longest time without growth, at both ends of a period and inside it.
func TestGap(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	w := &watch{}
	for i, ms := range []int{10, 20, 60, 70, 75} {
		w.saw(int64(i+1), at(ms))
		w.saw(int64(i+1), at(ms+1)) // no growth
	}
	for _, c := range []struct{ from, to, want int }{
		{10, 75, 40}, // 20 to 60
		{30, 50, 40}, // inside a gap
		{62, 75, 10}, // 60 to 70, of which only a part is inside
		{70, 100, 25},
		{0, 10, 10},
	} {
		if got := w.gap(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("gap from %d to %d ms is %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
}

func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := range 101 {
		times = append(times, time.Duration(100-i))
	}
	if got := median(times); got != 50 {
		t.Errorf("median is %d", got)
	}
	if got := percentile(times, 99); got != 99 { // median has sorted them
		t.Errorf("99th percentile is %d", got)
	}
	if median(nil) != 0 || percentile(nil, 50) != 0 {
		t.Error("no times have a median")
	}
}

// TestRawLibzmq sends messages between two processes, as the benchmark does: the test binary is both.
func TestRawLibzmq(t *testing.T) {
	if err := rawSend([]string{"tcp://127.0.0.1:*", "50", "4000"}, 50, 4000); err != nil {
		t.Fatal(err)
	}
	if err := runRaw(rawReceiver, []string{"x"}); err == nil || !strings.Contains(err.Error(), "takes an address") {
		t.Errorf("error is %v", err)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == rawReceiver {
		if err := runRaw(os.Args[1], os.Args[2:]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
