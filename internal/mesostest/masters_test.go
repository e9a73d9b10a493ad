package mesostest

import (
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/internal/fakemesos"
)

// connected tells whether the leading master has the framework.
func (c *cluster) connected() bool {
	f := c.Frameworks()
	return len(f) == 1 && f[0].Connected
}

// TestMasterFailsOver: the leading master dies twice, and once there is none for a while; in between an executor dies
// while no master leads. The query runs on, and what died comes back.
func TestMasterFailsOver(t *testing.T) {
	t.Parallel()
	calmOnce(t, func() { masterFailsOver(t) })
}

func masterFailsOver(t *testing.T) {
	c := newCluster(t, 5)
	s := c.scheduler()
	q := newStream(t, 7, hotStandby)
	q.submit(s)
	s.runs("stream")
	before, begin := c.pids(), time.Now()

	c.FailOver()
	size := q.size()
	time.Sleep(500 * time.Millisecond)
	calm(t, begin, q.size() > size, "nothing is written while no master leads")
	eventually(t, startTime, "the framework is connected again", c.connected)
	t.Logf("connected again %v after a master has died", time.Since(begin).Round(time.Millisecond))
	now := s.runs("stream")
	c.undisturbed(begin, before, now)

	victim := workerOf(t, now, hotStandby.copied)
	c.RestartMaster(time.Second)
	c.killExecutor(victim)
	s.again("stream", startTime, now)
	q.finish(s)
	c.quiet()
}

// TestCallsAreLost: calls and their answers get lost, and events come twice or never. The query starts and ends all
// the same, and nothing is left.
func TestCallsAreLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	s := c.scheduler()
	c.addFaults()
	q := newStream(t, 5, checkpoint)
	q.submit(s)
	now := s.runs("stream")
	c.killExecutor(workerOf(t, now, checkpoint.sink))
	s.again("stream", startTime, now)
	q.finish(s)
	c.quiet()
}

// addFaults loses one call or answer of each type that launches, acknowledges and asks, and sends some updates twice.
func (c *cluster) addFaults() {
	for call, do := range map[scheduler.Call_Type]fakemesos.CallAction{
		scheduler.Call_ACCEPT: fakemesos.LoseAnswer, scheduler.Call_ACKNOWLEDGE: fakemesos.LoseCall,
		scheduler.Call_RECONCILE: fakemesos.LoseCall, scheduler.Call_KILL: fakemesos.LoseAnswer,
	} {
		match := func(x *scheduler.Call) bool { return x.Type == call }
		c.FaultCalls(fakemesos.CallFault{Match: match, Do: do, Times: 1})
	}
	update := func(_ string, e *scheduler.Event) bool { return e.Type == scheduler.Event_UPDATE }
	c.FaultEvents(fakemesos.EventFault{Match: update, Do: fakemesos.DuplicateEvent, Times: 5})
}
