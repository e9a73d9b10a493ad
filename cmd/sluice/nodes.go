package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/executor/transport"
	"sluice/executor/worker"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/scheduler"
	"sluice/scheduler/local"
	"sluice/scheduler/shell"
	"sluice/specs/xmlspec"
)

// maxNodes bounds --nodes.
const maxNodes = 256

// checkpointsUnderWay is how many checkpoints a source may be ahead of the last complete one.
const checkpointsUnderWay = 4

// usualTransport is that of rows between processes; transports and compressions are what it may be made
// of.
const (
	usualTransport = "tcp"
	udp            = "udp"
)

var (
	transports   = []string{usualTransport, "ipc", "plain-tcp", udp}
	compressions = []string{"lz4", "zstd"}
)

func (c *runCommand) checkTransport() error {
	if c.Transport == "" {
		c.Transport = usualTransport
	} else if c.Nodes == 0 {
		return usageErrorf("--transport is for queries with --nodes N")
	}
	compression, name, compressed := strings.Cut(c.Transport, "+")
	if !compressed {
		name = compression
	}
	if !slices.Contains(transports, name) || compressed && !slices.Contains(compressions, compression) {
		return usageErrorf("--transport must be tcp, ipc, plain-tcp or udp, with lz4+ or zstd+ before it to compress; it is %q", c.Transport)
	}
	switch {
	case c.Keys != "" && c.Nodes == 0:
		return usageErrorf("--keys is for queries with --nodes N")
	case c.Keys != "" && name != usualTransport && name != "ipc":
		return usageErrorf("--transport %s knows no keys; tcp and ipc do", name)
	}
	return nil
}

// dataAddress is where a worker listens for rows with the transport of this name; path is free for a socket
// of it.
func dataAddress(name, path string) string {
	if strings.HasSuffix(name, "ipc") {
		return name + "://" + path
	}
	return name + "://127.0.0.1:*"
}

// readSpec reads the text of a spec.
func readSpec(path string, s streams) ([]byte, error) {
	in, err := openSpec(path, s)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, xmlspec.MaxSize+1))
	if err != nil {
		return nil, usageErrorf("%v", err)
	}
	return text, nil
}

// canonical is the text of a plan that runs on several processes: the same operators in the same tasks
// have the same.
func (p *plan) canonical() []byte {
	return []byte(p.final.Statements(dataflow.TermOptions{Params: true}) + p.tasks.Text())
}

// fingerprint is equal for equal plans.
func (p *plan) fingerprint() string {
	sum := sha256.Sum256(p.canonical())
	return hex.EncodeToString(sum[:])
}

// nodesRun is a query that runs on several processes.
type nodesRun struct {
	c     *runCommand
	o     planOptions
	p     *plan // made with o
	s     streams
	dir   string // of the run: of no use when it is over
	state string
	store shared.State
	held  *os.File // locked for as long as any of the processes lasts
	tally *tally

	catchUp *scheduler.StopRequest // of a query that is only to do what it has left; nil for none
	stopped atomic.Bool            // by a signal
}

// runNodes runs the plan on worker processes.
func (c *runCommand) runNodes(p *plan, o planOptions, s streams) (err error) {
	if err := checkDurable(p); err != nil {
		return err
	}
	if _, err := c.config(p); err != nil { // before there is any state
		return runError(err)
	}
	dir, remove, err := makeRunDir()
	if err != nil {
		return err
	}
	defer remove()
	r := &nodesRun{c: c, o: o, p: p, s: s, dir: dir}
	if err := r.openStore(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	ready, err := r.prepare()
	if err != nil || !ready {
		return err
	}
	config, err := c.config(r.p)
	if err != nil {
		return runError(err)
	}
	return r.run(config)
}

// runPrefix begins the names of folders of runs, and runLock is the file in them that is locked for as long
// as the run lasts.
const (
	runPrefix = "sluice-run-"
	runLock   = "lock"
)

// longestBase is how many bytes the folder of these may have: the path of a socket has at most 107.
const longestBase = 64

// makeRunDir makes the folder of a run, and removes those that runs have left that were killed.
func makeRunDir() (dir string, remove func(), err error) {
	base := os.TempDir()
	if len(base) > longestBase {
		base = "/tmp"
	}
	left, err := filepath.Glob(filepath.Join(base, runPrefix+"*", runLock))
	if err != nil {
		return "", nil, err
	}
	for _, path := range left {
		if lock, err := local.TryLock(path); err == nil {
			_ = os.RemoveAll(filepath.Dir(path)) // it may be that of another user
			lock.Close()
		}
	}
	if dir, err = os.MkdirTemp(base, runPrefix); err != nil {
		return "", nil, err
	}
	// It has its name only once it is locked, so that nobody takes this folder for one that was left.
	path := filepath.Join(dir, runLock)
	lock, err := local.TryLock(path + "-new")
	if err == nil {
		err = os.Rename(path+"-new", path)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() {
		_ = os.RemoveAll(dir) // the next run removes what is left
		lock.Close()
	}, nil
}

// openStore opens the state, of which no process may be left.
func (r *nodesRun) openStore() error {
	r.state = r.c.State
	if r.state == "" {
		r.state = filepath.Join(r.dir, "state")
	}
	var err error
	if r.state, err = filepath.Abs(r.state); err != nil {
		return err
	}
	store, err := shared.Open(r.state, shared.Options{Coordinator: true, Fsync: fsyncModes[r.fsync()]})
	if err != nil {
		return usageErrorf("%v", err)
	}
	r.store = store
	if r.held, err = local.Lock(filepath.Join(r.state, "workers")); err != nil {
		err = usageErrorf("the state in %q: processes of an earlier run have not ended yet: %v", r.state, err)
		return errors.Join(err, r.store.Close())
	}
	return nil
}

func (r *nodesRun) close() error { return errors.Join(r.held.Close(), r.store.Close()) }

// fsync is when the state is brought to the disk: one that is removed at the end, never.
func (r *nodesRun) fsync() string {
	if r.c.State == "" {
		return "never"
	}
	return r.c.Fsync
}

// config says how the query is to be run. Inputs that are missing are found here.
func (c *runCommand) config(p *plan) (scheduler.Config, error) {
	interval, err := clockInterval(p)
	if err != nil {
		return scheduler.Config{}, err
	}
	if err := scheduler.CheckWorkers(p.tasks, c.Nodes, maxNodes); err != nil {
		return scheduler.Config{}, err
	}
	epochs, err := checkpointEpochs(c.Checkpoint)
	if err != nil {
		return scheduler.Config{}, err
	}
	config := scheduler.Config{
		Query: p.tasks, Every: epochs, Flight: checkpointsUnderWay, Interval: interval.Microseconds(),
		Checkpoints: epochs > 0, Workers: c.Nodes,
	}
	if epochs == 0 {
		config.Every, _ = checkpointEpochs(usualCheckpoint)
	}
	if interval > 0 {
		config.Every = max(1, config.Every*epochInterval/interval.Microseconds())
	}
	return config, nil
}

// clockInterval is the length of the epochs by the wall clock, the shortest that a source has; 0 if all
// sources are bounded and their epochs are counted.
func clockInterval(p *plan) (time.Duration, error) {
	shortest := time.Duration(0)
	for _, op := range p.tasks.Graph.Operators {
		if !op.Desc.Source() {
			continue
		}
		src, err := catalog.OpenSource(&operators.Context{Op: op, Dir: p.tasks.Graph.Dir, Counters: &operators.Counters{}})
		if err != nil {
			return 0, &executor.OperatorError{Op: op, Err: err}
		}
		if i := src.Epochs().Interval; i > 0 && (shortest == 0 || i < shortest) {
			shortest = i
		}
		if err := src.Close(); err != nil {
			return 0, &executor.OperatorError{Op: op, Err: err}
		}
	}
	return shortest, nil
}

// run makes everything ready, and runs the workers until the query is over.
func (r *nodesRun) run(config scheduler.Config) error {
	r.tally = newTally(r.p)
	socket, err := local.OpenSocket(r.state)
	if err != nil {
		return err
	}
	defer socket.Close()
	if withdraw, err := local.Announce(r.p.final.Name, r.state); err == nil {
		defer withdraw()
	} else {
		r.warn(fmt.Sprintf("sluice set and sluice status need --state %s, for the query cannot be announced: %v", r.state, err))
	}
	sockets, err := socketOptions(r.c.Keys)
	if err != nil {
		return err
	}
	sockets.HighWater = controlHighWater
	control, err := transport.NewZMQ(sockets)
	if err != nil {
		return err
	}
	defer control.Close()

	return r.schedule(local.Options{
		Config: config, Deploy: r.deploy(), Catalog: catalog.Operators, Store: shell.Recorded(r.store),
		Transport: control, Listen: "ipc://" + filepath.Join(r.dir, "control"),
		Tag: strconv.FormatUint(uint64(rand.Uint32()), 36), Held: r.held, Command: r.worker,
		Requests: socket.Requests(), Alert: r.warn, Reported: r.tally.report,
	})
}

// schedule runs the workers until the query is over, and tells how it went.
func (r *nodesRun) schedule(o local.Options) error {
	// A reader of our output that goes away is told by the error of a write.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop, restore := r.signals()
	defer restore()
	begin := time.Now()
	var show *progress
	if !r.c.Quiet && r.catchUp == nil {
		show = startProgress(r.s.err, r.tally.stats, begin)
	}
	o.Stop = stop
	outcome, err := local.Run(ctx, o)
	show.stop()
	if errors.Is(err, context.Canceled) {
		err = &exitError{exitFailed, "ended at once by a second Ctrl-C"}
	}
	if err == nil && outcome.Error != "" {
		status := exitFailed
		if outcome.Input {
			status = exitUsage
		}
		err = &exitError{status, outcome.Error}
	}
	reportRows(r.s.err, r.tally.stats())
	if err == nil && !r.c.Quiet && r.catchUp == nil {
		fmt.Fprintln(r.s.err, summary(r.tally.stats(), time.Since(begin)))
	}
	return err
}

func (r *nodesRun) warn(text string) { fmt.Fprintln(r.s.err, "warning:", text) }

// signals gives what Ctrl-C means: the first one stops the query, the second one ends everything.
func (r *nodesRun) signals() (context.Context, <-chan scheduler.StopRequest, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := make(chan scheduler.StopRequest, 2)
	if r.catchUp != nil {
		stop <- *r.catchUp
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for first := true; ; first = false {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			if !first {
				cancel()
				return
			}
			r.stopped.Store(true)
			stop <- scheduler.StopRequest{End: r.c.State == ""}
		}
	}()
	return ctx, stop, func() {
		signal.Stop(signals)
		cancel()
	}
}

func (r *nodesRun) deploy() metaquery.Deploy {
	return metaquery.Deploy{
		Spec: r.o.text, File: r.c.Spec, Dir: r.o.dir, Sets: r.o.sets, Partitions: r.o.parallel, Nodes: r.o.nodes, Replicas: r.o.replicas,
		Env: r.p.env, Graph: r.p.fingerprint(), Limit: r.c.Limit, State: r.state, Fsync: r.fsync(), Transport: r.c.Transport, Spill: r.dir,
	}
}

// worker is the command of a worker process.
func (r *nodesRun) worker(id scheduler.WorkerID, control string) *exec.Cmd {
	cmd := workerCommand(id, control, r.c.Keys)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.s.in, r.s.out, r.s.err
	return cmd
}

// workerCommand is the command of a worker process on this machine, which has the environment of this one.
func workerCommand(id scheduler.WorkerID, control, keys string) *exec.Cmd {
	// The program that runs, also if its file has been replaced since it was started.
	cmd := exec.Command("/proc/self/exe", "executor", "--control", control, "--id", string(id))
	cmd.Args[0] = os.Args[0]
	if keys != "" {
		cmd.Args = append(cmd.Args, "--keys", keys)
	}
	cmd.Env = os.Environ()
	for name, value := range worker.Environment() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}
