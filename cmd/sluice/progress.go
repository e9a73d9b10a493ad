package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/operators/value"
	"sluice/scheduler/api"
)

// progress keeps one line on a terminal up to date while a query runs.
type progress struct {
	done chan struct{}
	over sync.WaitGroup
}

// progressInterval is how often the line changes.
const progressInterval = 250 * time.Millisecond

// startProgress returns nil where w is not a terminal.
func startProgress(w io.Writer, stats func() executor.Stats, begin time.Time) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	p := &progress{done: make(chan struct{})}
	p.over.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-p.done:
				fmt.Fprint(f, "\r\x1b[K")
				return
			case <-ticker.C:
				fmt.Fprintf(f, "\r\x1b[K%s", progressLine(stats(), time.Since(begin)))
			}
		}
	})
	return p
}

// stop takes the line away. A nil progress has none.
func (p *progress) stop() {
	if p != nil {
		close(p.done)
		p.over.Wait()
	}
}

func progressLine(s executor.Stats, d time.Duration) string {
	read, written := rowCounts(s)
	line := fmt.Sprintf("%s read (%s), %d written", api.Count(read, "row"), rate(read, d), written)
	if s.Watermark != batch.MinWatermark && s.Watermark != batch.MaxWatermark {
		line += ", watermark " + string(value.AppendTimestamp(nil, s.Watermark))
	}
	return line
}
