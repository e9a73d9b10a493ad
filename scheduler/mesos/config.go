package mesos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/dataflow"
)

// Config is what a Core must know. Times that are zero get the usual values.
type Config struct {
	// User runs the executors on the agents, and Name is what operators see. Both must be set.
	User, Name string
	// Principal is for authentication and access rules; "" for clusters without.
	Principal string
	// Roles in which resources are taken; none means "*".
	Roles []string
	// GPUs asks for offers of agents that have GPUs, which others do not get.
	GPUs bool
	// Hostname and WebUI say where the scheduler is, for operators.
	Hostname, WebUI string
	// NewID gives a text that nobody else has or will have, of letters, digits and "-".
	NewID func() string

	// FailoverTimeout is for how long Mesos keeps the framework and its tasks while no scheduler is subscribed.
	FailoverTimeout time.Duration
	// Silence is after how long without a word of the scheduler a worker ends by itself, on an agent that cannot
	// be reached too. At most FailoverTimeout.
	Silence time.Duration
	// Margin is added to Silence: what a worker may take to end, and clocks to differ.
	Margin time.Duration
	// KillGrace is how long a worker that is killed may take to write its state, and then its executor to end.
	KillGrace time.Duration
	// Heartbeats that may be missing before the connection is given up. Default 3.
	Heartbeats int
	// ConnectTimeout bounds SUBSCRIBE up to the first event.
	ConnectTimeout time.Duration
	// RetryFirst and RetryMax are the shortest and longest pause before another subscription.
	RetryFirst, RetryMax time.Duration
	// ReconcileFirst and ReconcileMax are pauses between explicit reconciliations; Implicit is the one between
	// implicit ones.
	ReconcileFirst, ReconcileMax, Implicit time.Duration
	// RefuseLong is for how long offers are refused when nothing is wanted, RefuseShort when they do not fit.
	RefuseLong, RefuseShort time.Duration
	// RevivePause is the least time between two REVIVE.
	RevivePause time.Duration
	// Repeat is the pause before KILL or a move of the control stream is said again.
	Repeat time.Duration
	// LaunchTimeout is how long a worker may take until Mesos has heard of its executor.
	LaunchTimeout time.Duration
	// Patience is how long a need must be unmet before the user is told, an agent is shared, or one with GPUs is used
	// by a worker that needs none.
	Patience time.Duration
	// QuickEnd is how long a worker must run for its end to be no sign that none can run.
	QuickEnd time.Duration
	// QuickFirst and QuickMax are pauses before another worker when some have ended so.
	QuickFirst, QuickMax time.Duration
	// An agent on which AvoidAfter workers failed within AvoidWithin gets none for Avoid. The port at which a worker
	// should have listened that could not run is taken last on its agent for as long.
	AvoidAfter         int
	AvoidWithin, Avoid time.Duration
	// MoveTimeout is how long workers may take to move away from an agent that is to be maintained.
	MoveTimeout time.Duration
}

func (c Config) withDefaults() Config {
	usual := func(d *time.Duration, value time.Duration) { *d = cmp.Or(*d, value) }
	usual(&c.FailoverTimeout, 7*24*time.Hour)
	usual(&c.Silence, min(5*time.Minute, c.FailoverTimeout))
	usual(&c.Margin, 30*time.Second)
	usual(&c.KillGrace, 3*time.Second)
	usual(&c.ConnectTimeout, 15*time.Second)
	usual(&c.RetryFirst, 200*time.Millisecond)
	usual(&c.RetryMax, 5*time.Second)
	usual(&c.ReconcileFirst, 5*time.Second)
	usual(&c.ReconcileMax, time.Minute)
	usual(&c.Implicit, 15*time.Minute)
	usual(&c.RefuseLong, time.Hour)
	usual(&c.RefuseShort, 5*time.Second)
	usual(&c.RevivePause, 2*time.Second)
	usual(&c.Repeat, 5*time.Second)
	usual(&c.LaunchTimeout, 5*time.Minute)
	usual(&c.Patience, 5*time.Second)
	usual(&c.QuickEnd, 10*time.Second)
	usual(&c.QuickFirst, 500*time.Millisecond)
	usual(&c.QuickMax, time.Minute)
	usual(&c.AvoidWithin, 10*time.Minute)
	usual(&c.Avoid, 5*time.Minute)
	usual(&c.MoveTimeout, 5*time.Minute)
	c.Heartbeats = cmp.Or(c.Heartbeats, 3)
	c.AvoidAfter = cmp.Or(c.AvoidAfter, 3)
	if len(c.Roles) == 0 {
		c.Roles = []string{"*"}
	}
	return c
}

// Validate says what is wrong with a Config.
func (c Config) Validate() error {
	var errs []error
	if c.User == "" || c.Name == "" || c.NewID == nil {
		errs = append(errs, errors.New("mesos: the user, the name and the source of ids must be given"))
	}
	d := c.withDefaults()
	if d.Silence > d.FailoverTimeout {
		errs = append(errs, fmt.Errorf("mesos: workers would go on for %v without a scheduler, but Mesos ends them after %v: a longer failover timeout is needed", d.Silence, d.FailoverTimeout))
	}
	return errors.Join(errs...)
}

// possible says why no agent can ever give what a worker needs, nil if one may.
func (c Config) possible(n Need) error {
	if err := n.Validate(); err != nil {
		return err
	}
	roles := c.withDefaults().Roles
	for _, r := range n.Roles {
		if !slices.Contains(roles, r) {
			return fmt.Errorf("mesos: role %q is none of the scheduler's roles %q", r, roles)
		}
	}
	if n.GPUs > 0 && !c.GPUs {
		return fmt.Errorf("mesos: %d gpus are needed, but the scheduler does not ask for agents that have GPUs: it must be started with --mesos-gpus", n.GPUs)
	}
	return nil
}

// of is what a worker takes that has a capacity beside what every worker takes. An error says why no agent can
// ever give it.
func (c Config) of(base Need, capacity dataflow.Resources) (Need, error) {
	n, err := base.with(capacity)
	if err == nil {
		err = c.possible(n)
	}
	return n, err
}
