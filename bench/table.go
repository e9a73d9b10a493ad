package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// result is the best of several runs of one peer on one job.
type result struct {
	job, peer string
	rows      int
	runs      int
	best      usage // times of the fastest run, the largest peak of all
}

// add takes one more run into account.
func (r *result) add(u usage) {
	peak := max(r.best.peak, u.peak)
	if r.runs == 0 || u.wall < r.best.wall {
		r.best = u
	}
	r.best.peak = peak
	r.runs++
}

// rate is rows per second, in millions.
func (r *result) rate() float64 { return float64(r.rows) / r.best.wall.Seconds() / 1e6 }

// printResults prints the table of speed. The first result of a job is Sluice's, to which the others
// are compared.
func printResults(w io.Writer, results []result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "job\tprogram\twall s\tCPU s\tM rows/s\tpeak MB\ttime / Sluice's\t")
	var first *result
	for i := range results {
		r := &results[i]
		name := ""
		if first == nil || first.job != r.job {
			first, name = r, r.job
		}
		peak := "-"
		if r.best.peak > 0 {
			peak = fmt.Sprintf("%.0f", float64(r.best.peak)/1e6)
		}
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f\t%.2f\t%s\t%.2f\t\n", name, r.peer, r.best.wall.Seconds(), r.best.cpu.Seconds(), r.rate(),
			peak, r.best.wall.Seconds()/first.best.wall.Seconds())
	}
	t.Flush()
}

// figure is a measured quantity beside what it should be.
type figure struct {
	what  string
	value string
	aim   string
}

// printFigures prints a table of figures under a title.
func printFigures(w io.Writer, title string, figures []figure) {
	if len(figures) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tmeasured\taim\n", title)
	for _, f := range figures {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.what, f.value, f.aim)
	}
	t.Flush()
}
