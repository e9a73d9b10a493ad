package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// The cluster part runs queries on several processes of this machine. It has data of its own: the rows as an
// Arrow file, because reading that costs next to nothing, linked under several names, so that a run is long
// and the data small; and rows of few and of many keys.
const (
	pipelineRows  = 5_000_000 // of the file
	pipelineFiles = 6
	manyKeys      = 1_000_000
	fewKeys       = 100
)

// cluster measures queries on several processes.
type cluster struct {
	o        *options
	dir      string
	progress io.Writer
}

// part is one of the things measured.
type part struct {
	name string
	run  func(*cluster) ([]result, []figure, error)
}

// measureCluster measures everything that concerns several processes.
func measureCluster(o *options, progress io.Writer) (results []result, figures []figure, err error) {
	return measureParts(o, progress, []part{
		{"cluster pipeline", (*cluster).pipeline},
		{"cluster latency", (*cluster).latency},
		{"cluster failover", (*cluster).failover},
		{"cluster pause", (*cluster).pause},
	})
}

// measureParts measures those parts that are asked for.
func measureParts(o *options, progress io.Writer, parts []part) (results []result, figures []figure, err error) {
	c := &cluster{o: o, dir: filepath.Join(o.dir, "cluster"), progress: progress}
	for _, p := range parts {
		if !o.only.MatchString(p.name) {
			continue
		}
		if err := os.MkdirAll(c.dir, 0o777); err != nil {
			return nil, nil, err
		}
		r, f, err := p.run(c)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(progress, "%s: done\n", p.name)
		results, figures = append(results, r...), append(figures, f...)
	}
	return results, figures, nil
}

// runCluster is the cluster part alone.
func runCluster(o *options, out, progress io.Writer) error {
	fmt.Fprintf(out, "%s, %d cores; %s; %d rounds\n\n", processor(), runtime.NumCPU(), runtime.Version(), o.repeats)
	results, figures, err := measureCluster(o, progress)
	if err != nil {
		return err
	}
	printResults(out, results)
	printFigures(out, "cluster", figures)
	return nil
}

// out is where queries write. It is empty before each run.
func (c *cluster) out() (string, error) {
	path := filepath.Join(c.dir, "out.csv")
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return "", err
	}
	return path, nil
}

// arrowRows makes the files of the pipeline, if they are not there, and returns a pattern of their names.
func (c *cluster) arrowRows() (string, error) {
	pattern := filepath.Join(c.dir, "rows-*.arrow")
	last := filepath.Join(c.dir, fmt.Sprintf("rows-%d.arrow", pipelineFiles))
	if _, err := os.Stat(last); err == nil {
		return pattern, nil
	}
	fmt.Fprintf(c.progress, "making %d rows of data in %s\n", pipelineRows, c.dir)
	text := filepath.Join(c.dir, "rows.csv")
	if err := writeCSV(text, pipelineRows); err != nil {
		return "", err
	}
	defer os.Remove(text)
	first := filepath.Join(c.dir, "rows-1.arrow")
	if _, err := sluice(c.o, "columns", text, first).run(); err != nil {
		return "", err
	}
	for i := 2; i <= pipelineFiles; i++ {
		if err := os.Link(first, filepath.Join(c.dir, fmt.Sprintf("rows-%d.arrow", i))); err != nil && !os.IsExist(err) {
			return "", err
		}
	}
	return pattern, nil
}

// keyRows makes a file of rows that have each key once, in turn, and then random ones.
func (c *cluster) keyRows(keys, rows int) (path string, err error) {
	path = filepath.Join(c.dir, fmt.Sprintf("keys-%d.csv", keys))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	out, err := os.Create(path + ".new")
	if err != nil {
		return "", err
	}
	defer out.Close()
	w := bufio.NewWriterSize(out, 1<<20)
	w.WriteString("id,key\n")
	var line []byte
	for i := range rows {
		key := i
		if i >= keys {
			key = int(mix(uint64(i)) % uint64(keys))
		}
		line = strconv.AppendInt(line[:0], int64(i), 10)
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(key), 10)
		w.Write(append(line, '\n'))
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	if err := out.Close(); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}

// tempState gives a folder for a state, and what removes it.
func (c *cluster) tempState() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.dir, "state-")
	return dir, func() { os.RemoveAll(dir) }, err
}

// median is the middle one of several times, the lower one of two.
func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[(len(times)-1)/2]
}

// percentile is the time that so many percent of the sorted times do not exceed.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}

// millis is a time as text, in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1000) }
