package fakemesos

import (
	"cmp"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// action is what was done besides calls while a transcript was recorded: after the remark, or the acknowledgement, that
// has the text.
type action map[string]func(c *Cluster)

// recording is one transcript to replay.
type recording struct {
	actions action
	until   string  // the remark at which to stop, since what follows is not modelled
	scale   float64 // of time: 0 means that a second of the recording is 50 ms
	grace   float64 // seconds of the shutdown grace period where its end is a race in the recording, else 0
	real    bool    // commands are run by a shell
	timed   bool    // allocations happen at intervals, not where the recording has offers
	masters int
	agents  int
	users   map[string]string
}

func agent0(do func(c *Cluster, agent string)) func(*Cluster) {
	return func(c *Cluster) { do(c, c.Agents()[0].ID) }
}

// restart stops an agent and starts it again after a while; the executor of its framework is gone by then.
func restart(c *Cluster, agent string) {
	c.StopAgent(agent)
	time.AfterFunc(c.opts.scaled(2), func() { c.StartAgent(agent) })
}

var lostAgent = action{
	"The agent process is stopped (SIGSTOP)":     agent0((*Cluster).Partition),
	"The agent goes on (SIGCONT)":                agent0((*Cluster).Heal),
	"ACKNOWLEDGE t2 TASK_RUNNING":                agent0((*Cluster).StopAgent),
	"A new agent process with the same work_dir": agent0((*Cluster).StartAgent),
	"ACKNOWLEDGE t3 TASK_RUNNING":                agent0((*Cluster).LeaveAgent),
}

// transcripts are those that are replayed, each with the recordings of its executors.
var transcripts = map[string]recording{
	"sched01-subscribe-offers-heartbeat":  {timed: true},
	"sched02-resubscribe-failover":        {timed: true},
	"sched03-command-task":                {real: true, scale: 0.2, until: "Health check and max_completion_time"},
	"sched04-decline-filters":             {timed: true},
	"sched05-unacknowledged-resend":       {},
	"sched06-reconcile":                   {},
	"sched07-custom-executor":             {},
	"sched09-agent-lost-plain":            {actions: lostAgent},
	"sched10-agent-lost-partition-aware":  {actions: lostAgent},
	"sched24-agent-lost-checkpoint":       {actions: lostAgent},
	"sched11-suppress-revive":             {timed: true},
	"sched12-teardown-completed":          {},
	"sched13-errors":                      {},
	"sched14-invalid-offers-and-tasks":    {},
	"sched15-rescind":                     {timed: true, actions: action{"The agent process is killed": agent0((*Cluster).StopAgent)}},
	"sched16-disconnect-failover-timeout": {timed: true},
	"sched18-shutdown-executor":           {},
	"sched21-authentication":              {users: map[string]string{"alice": "wonder", "bob": "builder"}},
	"sched22-inverse-offers":              {timed: true},
	"sched23-multiple-frameworks":         {timed: true},
	"exec13-errors":                       {},
	"exec15-executor-acknowledged":        {},
	"exec16-resubscribe-forgets-task":     {grace: 8},
	"exec17-subscribe-twice":              {},
	"oper02-event-stream":                 {actions: action{"FRAMEWORK_REMOVED": func(c *Cluster) { c.AddAgent(AgentSpec{}) }}},
	"oper03-gone-drain-teardown":          {agents: 2},
	"exec11-agent-restart-checkpoint": {scale: 0.1, actions: action{
		`"cmd" & TASK_RUNNING`:                       agent0((*Cluster).StopAgent),
		"It is started again with the same work_dir": func(c *Cluster) { time.Sleep(c.opts.scaled(7.6)); c.StartAgent(c.Agents()[0].ID) },
	}},
	"exec12-agent-restart-too-late": {scale: 0.1, actions: action{
		`"t1" & TASK_RUNNING`: agent0(restart),
		`"t2" & TASK_RUNNING`: agent0(restart),
	}},
	"exec14-agent-restart-no-checkpoint": {actions: action{
		"offer ...-O1":     agent0((*Cluster).StopAgent),
		`"t1" & TASK_LOST`: func(c *Cluster) { time.Sleep(c.opts.scaled(2.8)); c.StartAgent(c.Agents()[0].ID) },
	}},
	"sched19-master-restart": {timed: true, scale: 0.1, actions: action{
		"The master is killed (SIGKILL)": func(c *Cluster) {
			c.Partition(c.Agents()[0].ID) // it registers again when the recording says so
			c.RestartMaster(c.opts.scaled(0.5))
		},
		"line 282": agent0((*Cluster).Heal),
		"Is the teardown remembered over a further restart": func(c *Cluster) { c.RestartMaster(c.opts.scaled(1)) },
	}},
	"sched20-not-leading-redirect": {timed: true, scale: 0.1, masters: 2, until: "A master with a ZooKeeper path",
		actions: action{"The leader is killed": (*Cluster).FailOver, "line 359": func(c *Cluster) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.elect(0)
		}}},
	"oper04-errors": {until: "jsonp"},
}

// TestTranscripts replays what was recorded of real masters and agents. A replay that fails is tried again four times
// slower: what was only a matter of time on a busy machine passes then, and what is wrong fails again.
func TestTranscripts(t *testing.T) {
	for name, rec := range transcripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fast := cmp.Or(rec.scale, 0.05)
			first := &trial{TB: t}
			if first.passes(func(t testing.TB) { rec.replay(t, name, fast) }) {
				return
			}
			t.Logf("tried again, since: %s", strings.Join(first.errors, "\n"))
			rec.replay(t, name, 4*fast)
		})
	}
}

func (rec recording) replay(t testing.TB, name string, scale float64) {
	entries := readTranscript(t, name+".txt")
	m := newIDs(scale)
	opts := recorded(t, entries, scale)
	if !rec.timed {
		opts.Times.Allocation = time.Hour
	}
	if rec.grace > 0 {
		opts.Times.ShutdownGrace, m.anyGrace = m.time(rec.grace), true
	}
	opts.Users, opts.Masters = rec.users, rec.masters
	opts.Agents[0].Run, opts.Agents[0].Command = replayExecutor(t, m), command
	if rec.real {
		opts.Agents[0].Command = nil
	}
	c := New(t, opts)
	defer c.Close()
	for range rec.agents - 1 {
		c.AddAgent(opts.Agents[0])
	}
	r := newReplay(t, c, m)
	r.actions, r.until, r.manual = rec.actions, rec.until, !rec.timed
	if rec.timed { // the first call comes 0.1 s after an allocation
		time.Sleep(opts.Times.Allocation + m.time(0.1))
	}
	r.run(entries)
}

// trial is a test that may fail.
type trial struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

// passes runs a test to its end, in a goroutine that it may leave.
func (x *trial) passes(run func(testing.TB)) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(x)
	}()
	<-done
	return !x.Failed()
}

func (x *trial) note(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.errors = append(x.errors, text)
}

func (x *trial) Failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.errors) > 0
}

func (x *trial) Error(args ...any)                 { x.note(fmt.Sprint(args...)) }
func (x *trial) Errorf(format string, args ...any) { x.note(fmt.Sprintf(format, args...)) }
func (x *trial) Fatal(args ...any)                 { x.note(fmt.Sprint(args...)); runtime.Goexit() }

// command runs the commands of the transcripts: sleep N and exit N, joined with a semicolon.
func command(p Process) int {
	for part := range strings.SplitSeq(p.Command.GetValue(), ";") {
		words := strings.Fields(part)
		if len(words) < 2 {
			continue
		}
		n, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return 1
		}
		if words[0] == "exit" {
			return int(n)
		}
		select {
		case <-time.After(time.Duration(n * float64(time.Second))):
		case <-p.Done():
		}
	}
	return 0
}

// recorded are the options for the flags of a recording.
func recorded(t testing.TB, entries []*entry, scale float64) Options {
	f := flags(entries)
	o := Options{Scale: scale, Agents: []AgentSpec{{Resources: f["resources"], Attributes: f["attributes"]}}}
	secs := func(name string) time.Duration {
		if f[name] == "" {
			return 0
		}
		d, err := time.ParseDuration(f[name][:len(f[name])-len("ecs")])
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(float64(d) * scale)
	}
	o.Times.Allocation = time.Duration(scale * float64(time.Second))
	o.OfferTimeout = secs("offer_timeout")
	o.Times.Register = secs("executor_registration_timeout")
	o.Times.Reregister = secs("executor_reregistration_timeout")
	o.Times.ShutdownGrace = secs("executor_shutdown_grace_period")
	o.Times.LeaderExpiration = time.Hour
	if d := secs("agent_ping_timeout"); d > 0 {
		o.Times.PingTimeout = d * 3
	}
	return o
}
