package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"sluice/executor"
	"sluice/executor/state"
	"sluice/internal/protocol"
)

// plan is what happens in a run, as far as it does not follow from what the run draws itself.
type plan struct {
	Seed uint64
	Off  protocol.Off

	// The query.
	Shape               string   // of shapes
	Rewrites            []string // rules, one after the other, each where there is a place for it
	LeastRows, MostRows int      // of each source
	Span                int64    // time in which the rows come
	Wide                bool     // some rows are so large that an epoch has several frames
	Interval            int64    // of an epoch of the wall clock; 0: sources count
	Every, Flight       int64
	Idle                int64   // after which a source without rows says that it is idle; 0: never
	NoCheckpoints       bool    // what has state restarts empty
	SingleFile          float64 // chance of a sink to be one file
	Limits              executor.Limits
	Memory              int64   // of a worker for retained rows, what is more is spilled; 0: it is not bounded
	Sets                int     // changes of conditions
	Prefers             int     // changes of the input that a selector has its rows from
	Needs               bool    // operators need resources
	Uneven              float64 // workers come up late, or not at all
	Endless             bool    // inputs end only when they are told to stop
	StopAt              int64   // 0: never
	StopEnds            bool

	// The cluster.
	Workers    int
	Fsync      state.FsyncMode
	Skew       int64 // most that the clock of a worker is wrong
	Liveness   int64
	Latency    int64 // usual bound of a message between workers
	CutDelay   int64 // most time between two epochs that could be cut
	MostFlying int   // messages of a connection under way
	Takeover   int64 // most time without a scheduler
	Notice     int64 // most time until the end of a worker is noticed
	KillDelay  int64
	Quiet      int64 // after which tasks are moved to workers that have less to do; below 0: never
	Patience   int64 // after so long without anything moving the run is stuck
	MostSteps  int64 // after which something goes round in circles

	// Faults. Those with a number end after so many; the rest are chances.
	Faults       int   // ends of workers and schedulers, and cut-offs
	FaultEvery   int64 // usual time between two of them
	Zombies      float64
	Power        float64 // the end of a worker is that of its machine
	Depose       float64 // another scheduler takes over while the one that leads goes on
	SleepsActing float64 // likewise, and it falls asleep between two actions
	Broken       float64 // a connection breaks at a message
	Leaks        float64 // a message is lost, and the connection stays
	Refused      float64
	Lost         float64 // control messages
	Doubled      float64
	Slow         float64
	DiskFails    float64
	DiskSlow     float64
	SpillFull    float64 // the disk of a worker is full for retained rows from a write on
	SpillLost    float64 // they cannot be read any more
	DiesWriting  float64
	DiesActing   float64
	SaveFails    float64
}

// calm is a plan without faults.
func calm(seed uint64, shape string, rewrites ...string) plan {
	return plan{
		Seed: seed, Shape: shape, Rewrites: rewrites, LeastRows: 5, MostRows: 40, Span: 2 * second, Every: 4, Flight: 3,
		Workers: 3, Liveness: second, Latency: 3 * millisecond, CutDelay: 10 * millisecond, MostFlying: 50,
		Takeover: second, Notice: 300 * millisecond, KillDelay: second, Patience: 60 * second, MostSteps: 3_000_000,
	}
}

// rewriteMenu are the rewrites of drawn plans.
var rewriteMenu = [][]string{
	nil, nil, nil, {"partition"}, {"partition"}, {"standby"}, {"checkpoint"}, {"checkpoint"}, {"hot-standby"}, {"hot-standby"},
	{"partition", "hot-standby"}, {"hot-standby", "partition"}, {"partition", "checkpoint"}, {"pipeline"}, {"pipeline-stages"},
	{"partition-filters"}, {"aggregation-tree"}, {"standby", "checkpoint"}, {"hot-standby", "checkpoint"}, {"partition", "standby"},
}

// drawPlan draws a plan: from one without faults to one in which little works.
func drawPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	number := func(of ...int64) int64 { return of[r.IntN(len(of))] }
	names := sorted(shapes)
	p := calm(seed, names[r.IntN(len(names))], rewriteMenu[r.IntN(len(rewriteMenu))]...)
	p.Interval = number(0, 0, 0, 20*millisecond, 50*millisecond)
	p.Span = number(0, second, 4*second)
	p.Every, p.Flight = number(1, 2, 4, 8), number(1, 2, 4)
	p.SingleFile, p.NoCheckpoints = pick(0, 0.5), r.IntN(15) == 0
	p.Idle = number(0, 0, 300*millisecond)
	p.Workers, p.Skew = int(number(1, 2, 3, 4)), number(0, 0, 100*millisecond)
	p.Latency = number(200, 3*millisecond, 30*millisecond)
	p.CutDelay = number(0, 5*millisecond, 50*millisecond)
	p.MostFlying = int(number(1, 3, 50))
	p.Takeover = number(200*millisecond, 3*second)
	p.KillDelay = number(20*millisecond, 2*second)
	p.Limits = executor.Limits{Window: number(0, 0, 600, 3000), Retained: number(0, 0, 0, 2000)}
	if r.IntN(12) == 0 {
		p.Wide, p.MostRows = true, 12
	}
	p.Sets = int(number(0, 0, 1, 2))
	if p.Sets > 0 {
		p.Span = max(p.Span, second)
	}
	if r.IntN(8) == 0 {
		p.StopAt, p.StopEnds, p.Endless = p.Span/2+1, r.IntN(2) == 0, r.IntN(2) == 0
	}
	p.Faults = int(number(0, 2, 4, 8, 16))
	p.FaultEvery = number(50*millisecond, 300*millisecond, second)
	p.Zombies = pick(0, 0.2, 0.6)
	p.Broken = pick(0, 0, 0.003, 0.02)
	p.Leaks = pick(0, 0, 0, 0.003, 0.02)
	p.Refused = pick(0, 0.01, 0.2)
	p.Lost, p.Doubled, p.Slow = pick(0, 0.02, 0.15), pick(0, 0.1), pick(0, 0.02, 0.1)
	p.DiskFails, p.DiskSlow = pick(0, 0, 0.01, 0.05), pick(0, 0.05, 0.3)
	if p.Faults > 0 {
		p.DiesWriting, p.DiesActing, p.SaveFails = pick(0, 0.002, 0.02), pick(0, 0.002, 0.02), pick(0, 0.02)
	}
	p.Needs = r.IntN(4) == 0
	if p.Needs {
		p.Uneven = pick(0, 0.4)
	}
	p.Prefers = int(number(0, 0, 1, 3))
	if r.IntN(4) == 0 {
		p.Memory, p.SpillFull, p.SpillLost = number(200, 1000, 5000), pick(0, 0.01, 0.1), pick(0, 0, 0.01)
	}
	if r.IntN(4) == 0 {
		p.Power, p.Fsync = 0.7, state.FsyncGrouped
		switch r.IntN(8) {
		case 0:
			p.Fsync = state.FsyncAlways
		case 1:
			p.Fsync = state.FsyncNever
		}
	}
	if r.IntN(3) == 0 && p.Faults > 0 {
		p.Depose, p.SleepsActing = pick(0.1, 0.5), pick(0, 0.005, 0.03)
	}
	p.Quiet = number(0, 20*millisecond, 100*millisecond, 500*millisecond)
	return p
}

// String gives the plan, without what has no value.
func (p plan) String() string {
	type fields plan
	var parts []string
	for _, f := range strings.Fields(strings.Trim(fmt.Sprintf("%+v", fields(p)), "{}")) {
		if !strings.HasSuffix(f, ":0") && !strings.HasSuffix(f, ":[]") && !strings.HasSuffix(f, ":false") {
			parts = append(parts, f)
		}
	}
	return strings.Join(parts, " ")
}
