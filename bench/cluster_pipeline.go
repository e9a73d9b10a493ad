package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/dataflow/batch"
)

// way is one way to run the pipeline.
type way struct {
	name  string
	args  []string // of sluice run
	state bool     // with a state directory
	raw   string   // no query, but libzmq with this transport
}

const (
	oneProcess  = "one process"
	withState   = "one process, --state"
	withoutTake = "one process, --state --checkpoint off"
	oneNode     = "--nodes 1"
	twoTCP      = "--nodes 2, tcp"
	twoIPC      = "--nodes 2, ipc"
	rawTCP      = "raw libzmq, tcp"
	rawIPC      = "raw libzmq, ipc"
)

var ways = []way{
	{name: oneProcess},
	{name: withState, state: true},
	{name: withoutTake, args: []string{"--checkpoint", "off"}, state: true},
	{name: oneNode, args: []string{"--nodes", "1"}},
	{name: twoTCP, args: []string{"--nodes", "2", "--transport", "tcp"}},
	{name: twoIPC, args: []string{"--nodes", "2", "--transport", "ipc"}},
	{name: rawTCP, raw: "tcp"},
	{name: rawIPC, raw: "ipc"},
}

// rowBytes is what a row of the pipeline takes in a frame.
const rowBytes = 3 * 8

// pipeline runs the pipeline in all ways in turn, as often as asked.
func (c *cluster) pipeline() ([]result, []figure, error) {
	in, err := c.arrowRows()
	if err != nil {
		return nil, nil, err
	}
	rows := pipelineFiles * pipelineRows
	results := make([]result, len(ways))
	for i, w := range ways {
		results[i] = result{job: "pipeline", peer: w.name, rows: rows}
	}
	want := ""
	for range c.o.repeats {
		for i, w := range ways {
			u, got, err := c.runWay(w, in, rows)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", w.name, err)
			}
			if i == 0 && want == "" {
				want = got
			}
			if got != want && w.raw == "" {
				return nil, nil, fmt.Errorf("%w: %s gives %q, %s %q", errWrong, w.name, got, ways[0].name, want)
			}
			results[i].add(u)
			fmt.Fprintf(c.progress, "pipeline: %s: %v\n", w.name, u.wall.Round(time.Millisecond))
		}
	}
	return results, pipelineFigures(results), nil
}

// runWay runs the pipeline once and returns its result besides.
func (c *cluster) runWay(w way, in string, rows int) (usage, string, error) {
	if w.raw != "" {
		u, err := c.rawLibzmq(w.raw, rows)
		return u, "", err
	}
	out, err := c.out()
	if err != nil {
		return usage{}, "", err
	}
	cmd := sluice(c.o, "pipeline", in, out)
	cmd.args = append(cmd.args, w.args...)
	if w.state {
		dir, remove, err := c.tempState()
		if err != nil {
			return usage{}, "", err
		}
		defer remove()
		cmd.args = append(cmd.args, "--state", dir)
	}
	u, err := cmd.run()
	if err != nil {
		return u, "", err
	}
	text, err := os.ReadFile(out)
	return u, string(text), err
}

// rawLibzmq sends the same bytes in messages of the same size through bare sockets between two processes.
func (c *cluster) rawLibzmq(transport string, rows int) (usage, error) {
	addr := "tcp://127.0.0.1:*"
	if transport == "ipc" {
		dir, err := os.MkdirTemp("", "bench") // a short name
		if err != nil {
			return usage{}, err
		}
		defer os.RemoveAll(dir)
		addr = "ipc://" + filepath.Join(dir, "s")
	}
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	messages := (rows + batch.TargetRows - 1) / batch.TargetRows
	return command{args: []string{self, rawSender, addr, fmt.Sprint(messages), fmt.Sprint(batch.TargetRows * rowBytes)}}.run()
}

// pipelineFigures are the ratios of the pipeline.
func pipelineFigures(results []result) []figure {
	wall := map[string]float64{}
	cpu := map[string]float64{}
	for _, r := range results {
		wall[r.peer], cpu[r.peer] = r.best.wall.Seconds(), r.best.cpu.Seconds()
	}
	share := func(of, to string) string {
		return fmt.Sprintf("%.0f %% (of its CPU time: %.0f %%)", 100*wall[to]/wall[of], 100*cpu[of]/cpu[to])
	}
	cost := func(of string) string {
		return fmt.Sprintf("%+.0f %% (CPU time: %+.0f %%)", 100*(wall[of]/wall[oneProcess]-1), 100*(cpu[of]/cpu[oneProcess]-1))
	}
	return []figure{
		{"pipeline: speed of two processes over tcp, of raw libzmq's", share(twoTCP, rawTCP), "at least 60 %"},
		{"pipeline: speed of two processes over ipc, of raw libzmq's", share(twoIPC, rawIPC), "at least 60 %"},
		{"pipeline: speed of two processes over tcp, of one process's", share(twoTCP, oneProcess), ""},
		{"pipeline: speed of two processes over ipc, of one process's", share(twoIPC, oneProcess), ""},
		{"pipeline: cost of --state, in one process", cost(withState), "below 15 %"},
		{"pipeline: cost of --state --checkpoint off, in one process", cost(withoutTake), ""},
		{"pipeline: cost of --nodes 1 against one process", cost(oneNode), ""},
	}
}
