package fakemesos

import (
	"testing"
	"time"
)

// action is what was done besides calls while a transcript was recorded: after the remark, or the acknowledgement, that
// has the text.
type action map[string]func(c *Cluster)

// recording is one transcript to replay.
type recording struct {
	actions action
	until   string // the remark at which to stop, since what follows is not modelled
	masters int
	agents  int
	users   map[string]string
}

func agent0(do func(c *Cluster, agent string)) func(*Cluster) {
	return func(c *Cluster) { do(c, c.Agents()[0].ID) }
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
	"sched01-subscribe-offers-heartbeat":  {},
	"sched02-resubscribe-failover":        {},
	"sched04-decline-filters":             {},
	"sched05-unacknowledged-resend":       {},
	"sched06-reconcile":                   {},
	"sched07-custom-executor":             {},
	"sched09-agent-lost-plain":            {actions: lostAgent},
	"sched10-agent-lost-partition-aware":  {actions: lostAgent},
	"sched24-agent-lost-checkpoint":       {actions: lostAgent},
	"sched11-suppress-revive":             {},
	"sched12-teardown-completed":          {},
	"sched13-errors":                      {},
	"sched14-invalid-offers-and-tasks":    {},
	"sched15-rescind":                     {actions: action{"The agent process is killed": agent0((*Cluster).StopAgent)}},
	"sched16-disconnect-failover-timeout": {},
	"sched18-shutdown-executor":           {},
	"sched21-authentication":              {users: map[string]string{"alice": "wonder", "bob": "builder"}},
	"sched22-inverse-offers":              {},
	"sched23-multiple-frameworks":         {},
	"exec13-errors":                       {},
	"exec15-executor-acknowledged":        {},
	"exec16-resubscribe-forgets-task":     {},
	"exec17-subscribe-twice":              {},
	"oper02-event-stream":                 {actions: action{"FRAMEWORK_REMOVED": func(c *Cluster) { c.AddAgent(AgentSpec{}) }}},
	"oper03-gone-drain-teardown":          {agents: 2},
	"exec11-agent-restart-checkpoint":     {},
	"exec12-agent-restart-too-late":       {},
	"exec14-agent-restart-no-checkpoint":  {},
	"oper04-errors":                       {until: "jsonp"},
}

// TestTranscripts replays what was recorded of real masters and agents.
func TestTranscripts(t *testing.T) {
	for name, rec := range transcripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := readTranscript(t, name+".txt")
			m := newIDs()
			opts := recorded(t, entries)
			opts.Users, opts.Masters = rec.users, rec.masters
			opts.Agents[0].Run = replayExecutor(t, m)
			c := New(t, opts)
			r := newReplay(t, c, m)
			r.actions, r.until = rec.actions, rec.until
			for range rec.agents - 1 {
				c.AddAgent(opts.Agents[0])
			}
			// The agents are known before the first call, which comes 0.1 s after an allocation.
			time.Sleep(opts.Times.Allocation + 5*time.Millisecond)
			r.run(entries)
		})
	}
}

// recorded are the options for the flags of a recording.
func recorded(t *testing.T, entries []*entry) Options {
	f := flags(entries)
	o := Options{Scale: replayScale, Agents: []AgentSpec{{Resources: f["resources"], Attributes: f["attributes"]}}}
	secs := func(name string) time.Duration {
		if f[name] == "" {
			return 0
		}
		d, err := time.ParseDuration(f[name][:len(f[name])-len("ecs")])
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(float64(d) * replayScale)
	}
	o.Times.Allocation = time.Duration(replayScale * float64(time.Second))
	o.OfferTimeout = secs("offer_timeout")
	o.Times.Register = secs("executor_registration_timeout")
	o.Times.Reregister = secs("executor_reregistration_timeout")
	o.Times.ShutdownGrace = secs("executor_shutdown_grace_period")
	if d := secs("agent_ping_timeout"); d > 0 {
		o.Times.PingTimeout = d * 3
	}
	return o
}
