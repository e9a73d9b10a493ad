package sim

import (
	"os"
	"testing"

	"sluice/executor"
	"sluice/executor/state"
	"sluice/internal/protocol"
)

// without says what kind of run shows that a rule is needed. Where drawn plans do, prepare is nil.
type without struct {
	seeds   int // of which at least one fails
	prepare func(p *plan)
}

// zombies lets every fault make a zombie that goes on for long.
func zombies(p *plan) {
	p.Faults, p.FaultEvery, p.Zombies, p.KillDelay = 3, second, 1, 8*second
	p.Workers, p.Takeover = max(p.Workers, 3), 200*millisecond
	p.LeastRows, p.MostRows, p.Span, p.StopAt, p.Endless = 30, 60, 6*second, 0, false
	p.Lost, p.Slow, p.DiskFails, p.DiesWriting, p.DiesActing, p.SaveFails = 0, 0, 0, 0, 0, 0
	p.Every, p.Flight, p.Limits = 8, 4, executor.Limits{}
	p.Depose, p.SleepsActing, p.Power, p.Memory, p.Prefers, p.Uneven = 0, 0, 0, 0, 0, 0
}

// changes asks for many of them, whose orders come late, while epochs go fast.
func changes(p *plan) {
	p.Sets, p.Slow, p.Lost, p.CutDelay, p.Interval, p.Every, p.Flight = 4, 0.5, 0.3, 0, 0, 8, 8
	p.Span, p.LeastRows, p.MostRows, p.StopAt, p.Endless = 3*second, 30, 50, 0, false
}

var rules = map[string]without{
	"prev":    {100, func(p *plan) { p.Leaks = 0.05 }},
	"brake":   {100, func(p *plan) { p.Limits.Retained = 1500 }},
	"trimmed": {100, nil},
	"endlog":  {50, nil},
	"endany": {900, func(p *plan) {
		p.Shape, p.Rewrites, p.Every, p.LeastRows, p.MostRows, p.Span = "chain", nil, 1, 1, 3, 0
		p.Interval, p.Sets, p.StopAt, p.Endless, p.Workers = 0, 0, 0, false, 4
		p.Faults, p.FaultEvery, p.Zombies = 6, 300*millisecond, 0
		p.Latency, p.Slow, p.Lost, p.DiskSlow = 30*millisecond, 0.3, 0.3, 0.3
	}},
	"cross": {100, func(p *plan) { p.Interval, p.Every = 20*millisecond, 8 }},
	"flush": {50, nil},
	"chain": {200, func(p *plan) {
		zombies(p)
		p.Workers, p.Interval, p.Latency, p.SingleFile = 1, 20*millisecond, 300*millisecond, 0.5
	}},
	"restate": {100, nil},
	"endstay": {100, func(p *plan) { p.Latency = 400 * millisecond }},
	"fence": {900, func(p *plan) {
		zombies(p)
		p.Shape, p.Rewrites, p.Sets, p.Interval, p.Workers = "chain", nil, 8, 20*millisecond, 4
		p.Slow, p.Lost, p.FaultEvery, p.Faults = 0.4, 0.4, 700*millisecond, 6
		p.Broken, p.Leaks, p.Quiet = 0, 0, 0
	}},
	"seal":       {200, func(p *plan) { zombies(p); p.Interval = 50 * millisecond }},
	"controllog": {200, nil},
	"hold":       {300, changes},
	"allvote":    {300, changes},
	"attempt":    {300, changes},
	"dedup": {100, func(p *plan) {
		zombies(p)
		p.Zombies, p.Faults, p.Workers, p.Latency, p.Interval, p.NoCheckpoints = 0, 10, 4, 100*millisecond, 0, false
		p.Shape, p.Rewrites, p.Wide, p.LeastRows, p.MostRows, p.Span = "chain", nil, true, 20, 30, 0
		p.Limits.Window = 600
	}},
	"logfirst": {50, nil},
	"ranges":   {50, nil},
	"durable": {400, func(p *plan) {
		p.Power, p.Fsync, p.Zombies, p.NoCheckpoints, p.Memory = 1, state.FsyncGrouped, 0, false, 0
		p.Faults, p.FaultEvery, p.Workers, p.Latency, p.CutDelay = 12, 100*millisecond, 4, 3*millisecond, 0
		p.LeastRows, p.MostRows, p.Span = 30, 60, 2*second
	}},
	"term": {200, func(p *plan) {
		p.Depose, p.SleepsActing, p.Faults, p.FaultEvery, p.Workers = 1, 0, 6, 300*millisecond, 3
	}},
}

// TestRules: without any one of the rules some run fails that goes well with all of them.
func TestRules(t *testing.T) {
	if usualSeeds < 1000 || testing.Short() {
		t.Skip("it runs thousands of plans, and nothing else than TestSeeds does")
	}
	if len(ruleNames) != int(protocol.Rules) || len(rules) != len(ruleNames) {
		t.Fatalf("%d rules, %d names and %d tests", protocol.Rules, len(ruleNames), len(rules))
	}
	for i, name := range ruleNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rules[name]
			for seed := range uint64(r.seeds) {
				p := drawPlan(seed)
				if r.prepare != nil {
					r.prepare(&p)
				}
				p.Off = p.Off.With(protocol.Rule(i))
				p.MostSteps = 300_000
				got := p.run(nil)
				if got.err == nil {
					continue
				}
				p.Off = 0
				if again := p.run(nil); again.err != nil {
					t.Errorf("seed %d fails with all rules on: %s", seed, again.describe())
				}
				if os.Getenv("SIM_TRACE") != "" {
					t.Logf("seed %d: %s", seed, got.describe())
				}
				t.Logf("seed %d: %.150s", seed, got.err.Error())
				return
			}
			t.Errorf("none of %d runs fails", r.seeds)
		})
	}
}
