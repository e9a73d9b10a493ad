package fakemesos

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// crash is the end of an agent's process. Executors see their streams break; those without checkpoint end themselves.
func (a *agent) crash() {
	if !a.running {
		return
	}
	a.running, a.recovering = false, false
	_ = a.server.Close()
	for id, f := range a.frameworks {
		for _, u := range f.updates {
			a.c.drop(u.timer)
		}
		for _, e := range f.inOrder() {
			a.c.drop(e.register)
			e.subscribed = e.command || a.spec.Simulate
			if e.stream != nil {
				e.stream.end(true)
				e.stream = nil
			}
		}
		if !f.info.GetCheckpoint() {
			a.abandon(f)
			delete(a.frameworks, id)
		}
	}
}

// abandon forgets a framework without checkpoint. Mesos' own executors end when the agent does.
func (a *agent) abandon(f *agentFramework) {
	for _, e := range f.inOrder() {
		e.orphan = true
		if e.command || a.spec.Simulate {
			e.kill()
		}
	}
}

func (a *agent) killAll() {
	for _, f := range a.frameworks {
		for _, e := range f.inOrder() {
			e.orphan = true
			e.kill()
		}
	}
}

// recover starts the process again: executors have a time to subscribe, then the agent registers.
func (a *agent) recover() {
	a.recovering = true
	live := false
	for _, f := range a.frameworks {
		for _, e := range f.inOrder() {
			live = live || !e.ended && !e.exited
		}
	}
	if !live {
		a.c.after(0, a.recovered)
		return
	}
	a.c.after(a.c.opts.Times.Reregister, a.recovered)
}

// recovered is rule 43.
func (a *agent) recovered() {
	if !a.recovering {
		return
	}
	a.recovering = false
	if m := a.c.m; m != nil && !a.partitioned && !m.gone[a.id] {
		m.register(a)
	}
	wait := mesosDuration(a.c.opts.Times.Reregister)
	for _, f := range a.frameworks {
		gone := mesos.TASK_LOST
		if (&framework{info: &f.info}).aware() {
			gone = mesos.TASK_GONE
		}
		for _, e := range f.inOrder() {
			switch {
			case e.ended:
			case e.exited:
				e.ended = true
				if m := a.master(); m != nil {
					m.executorEnded(f.info.GetID().GetValue(), m.nodes[a.id], e.id, e.waitStatus, false)
				}
				e.endTasks()
			case !e.subscribed:
				e.end = ending{gone, mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT, "Executor did not reregister within " + wait}
				a.c.after(a.c.opts.Times.Reregister/2, e.kill) // the end of a container takes a moment
			}
		}
	}
}
