package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// job is one piece of work for several programs. Every job writes CSV.
type job struct {
	name   string
	spec   string // Sluice's
	header string // of the output
	input  func(d *dataset) string
	others func(o *options, in, out string) []peer
}

// peer is one program that does a job.
type peer struct {
	name string
	cmd  command
}

// jobs are the jobs of whole programs, files in and files out.
var jobs = []job{
	{"CSV filter", "csv-filter", csvHeader, (*dataset).csvPath, filterPeers},
	{"CSV window", "csv-window", "window_start,key,n,total,top", (*dataset).csvPath, windowPeers},
	{"Parquet project", "parquet-project", "key,doubled,ts", (*dataset).parquetPath, projectPeers},
}

func filterPeers(o *options, in, out string) []peer {
	return []peer{
		{"mawk", mawk(`BEGIN { FS = "," } NR == 1 || $2 >= 75`, in, out)},
		{"miller", miller([]string{"filter", "$value >= 75"}, in, out)},
		{"duckdb", duckdb(o, duckdbCopy("SELECT key, value, name, ts FROM "+duckdbCSV(in)+" WHERE value >= 75", out))},
	}
}

// mawkWindow takes the minute from the text of the timestamp.
const mawkWindow = `
BEGIN { FS = OFS = ","; OFMT = CONVFMT = "%.15g"; print "window_start", "key", "n", "total", "top" }
NR > 1 {
	g = substr($4, 1, 16) ":00Z," $1
	if (n[g]++ == 0 || $2 > top[g]) top[g] = $2 + 0
	total[g] += $2
}
END { for (g in n) print g, n[g], total[g], top[g] }`

func windowPeers(o *options, in, out string) []peer {
	return []peer{
		{"mawk", mawk(mawkWindow, in, out)},
		{"miller", miller([]string{
			"put", `$window_start = substr0($ts, 0, 15) . ":00Z"`,
			"then", "stats1", "-a", "count,sum,max", "-f", "value", "-g", "window_start,key",
			"then", "rename", "value_count,n,value_sum,total,value_max,top",
		}, in, out)},
		{"duckdb", duckdb(o, duckdbCopy("SELECT time_bucket(INTERVAL 1 minute, ts) AS window_start, key, count(*) AS n, "+
			"sum(value) AS total, max(value) AS top FROM "+duckdbCSV(in)+" GROUP BY ALL", out))},
	}
}

func projectPeers(o *options, in, out string) []peer {
	return []peer{
		{"duckdb", duckdb(o, duckdbCopy(fmt.Sprintf("SELECT key, value * 2 AS doubled, ts FROM read_parquet('%s') WHERE value >= 90", in), out))},
	}
}

// errWrong says that peers disagree. The tables are printed all the same.
var errWrong = errors.New("results differ")

// measurePrograms runs all jobs. wrong tells that results differed.
func measurePrograms(o *options, d *dataset, progress io.Writer) (results []result, wrong, err error) {
	for i := range jobs {
		if !o.only.MatchString(jobs[i].name) {
			continue
		}
		rs, bad, err := measureJob(o, d, &jobs[i], progress)
		if err != nil {
			return nil, nil, err
		}
		results, wrong = append(results, rs...), errors.Join(wrong, bad)
	}
	return results, wrong, nil
}

// patience is how long a run may take to be repeated.
const patience = 15 * time.Second

// measureJob runs the peers of a job in turn, as often as asked, so that what else happens on the
// machine hits all of them alike. What the first one wrote is what the others must write.
func measureJob(o *options, d *dataset, j *job, progress io.Writer) (results []result, wrong, err error) {
	in, out := j.input(d), filepath.Join(o.dir, "out.csv")
	peers := []peer{{"sluice", sluice(o, j.spec, in, out)}}
	for _, p := range j.others(o, in, out) {
		if o.peers.MatchString(p.name) {
			peers = append(peers, p)
		}
	}
	for _, p := range peers {
		results = append(results, result{job: j.name, peer: p.name, rows: d.Rows})
	}
	var want digest
	for round := range o.repeats {
		for i, p := range peers {
			if results[i].best.wall > patience {
				continue
			}
			u, err := p.cmd.run()
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", j.name, err)
			}
			got, err := digestFile(out, j.header)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", j.name, p.name, err)
			}
			if round == 0 && i == 0 {
				want = got
			}
			if got != want {
				wrong = fmt.Errorf("%w: %s: %s wrote %d rows with digest %016x, %s %d with %016x", errWrong, j.name,
					p.name, got.rows, got.sum, peers[0].name, want.rows, want.sum)
				fmt.Fprintln(progress, wrong)
			}
			results[i].add(u)
			fmt.Fprintf(progress, "%s: %s: %v\n", j.name, p.name, u.wall.Round(time.Millisecond))
		}
	}
	return results, wrong, nil
}
