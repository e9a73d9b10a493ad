package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

const (
	feedTime   = 2500 * time.Millisecond // how long rows are fed
	feedWarm   = 500 * time.Millisecond  // rows before that do not count
	feedPause  = time.Millisecond        // between two writes
	fullChunk  = 500                     // rows of a write at full speed
	sampleRows = 16                      // one row of so many is looked at
)

// fed is what came of feeding a query.
type fed struct {
	rate  float64         // rows per second that came out
	times []time.Duration // from a row's write to its read, sorted
}

// latency measures how long rows take through a query, at two loads.
func (c *cluster) latency() ([]result, []figure, error) {
	var figures []figure
	for _, w := range []way{{name: "one process"}, {name: "--nodes 3", args: []string{"--nodes", "3"}}} {
		full, err := c.feed(w.args, 0)
		if err != nil {
			return nil, nil, err
		}
		name := "latency, " + w.name
		figures = append(figures, figure{name + ": maximal rate", fmt.Sprintf("%.2f M rows/s", full.rate/1e6), ""})
		for _, load := range []int{10, 80} {
			f, err := c.feed(w.args, full.rate*float64(load)/100)
			if err != nil {
				return nil, nil, err
			}
			figures = append(figures, figure{fmt.Sprintf("%s, %d %% of it: p50, p99", name, load),
				fmt.Sprintf("%.1f, %.1f ms", percentile(f.times, 50).Seconds()*1000, percentile(f.times, 99).Seconds()*1000), ""})
		}
	}
	return nil, figures, nil
}

// feed runs the query and feeds it with so many rows a second; 0 is as many as it takes.
func (c *cluster) feed(args []string, rate float64) (f fed, err error) {
	cmd := exec.Command(c.o.sluice, append([]string{"run", "--quiet", specPath("latency")}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return f, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return f, err
	}
	if err := cmd.Start(); err != nil {
		return f, err
	}
	// It runs when a first row has come through.
	rows := bufio.NewReaderSize(out, 1<<16)
	if _, err = fmt.Fprintln(in, "id,sent\n0,0"); err == nil {
		for range 2 {
			if err == nil {
				_, err = rows.ReadSlice('\n')
			}
		}
	}
	if err == nil {
		begin := time.Now()
		fault := make(chan error, 1)
		go func() { fault <- errors.Join(writeRows(in, begin, rate), in.Close()) }()
		f, err = readRows(rows, begin)
		err = errors.Join(err, <-fault)
	}
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if e := cmd.Wait(); e != nil || err != nil {
		return f, errors.Join(err, fmt.Errorf("%v: %s", e, bytes.TrimSpace(said.Bytes())))
	}
	return f, nil
}

// writeRows writes rows with the time of writing, in microseconds since begin.
func writeRows(w io.Writer, begin time.Time, rate float64) error {
	var text []byte
	for n := 0; ; {
		at := time.Since(begin)
		if at >= feedTime {
			return nil
		}
		due := n + fullChunk
		if rate > 0 {
			due = int(rate * at.Seconds())
		}
		text = text[:0]
		for ; n < due; n++ {
			text = strconv.AppendInt(text, int64(n), 10)
			text = append(text, ',')
			text = strconv.AppendInt(text, at.Microseconds(), 10)
			text = append(text, '\n')
		}
		if len(text) > 0 {
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		if rate > 0 {
			time.Sleep(feedPause)
		}
	}
}

// readRows reads rows to the end.
func readRows(r *bufio.Reader, begin time.Time) (f fed, err error) {
	first, last, n := time.Duration(0), time.Duration(0), 0
	for {
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return f, err
		}
		n++
		if n%sampleRows != 1 {
			continue
		}
		last = time.Since(begin)
		if first == 0 {
			first = last
		}
		_, text, _ := bytes.Cut(bytes.TrimSpace(line), []byte{','})
		sent, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return f, err
		}
		if at := time.Duration(sent) * time.Microsecond; at >= feedWarm {
			f.times = append(f.times, last-at)
		}
	}
	if last <= first {
		return f, errors.New("too few rows have come out")
	}
	slices.Sort(f.times)
	f.rate = float64(n) / (last - first).Seconds()
	return f, nil
}
