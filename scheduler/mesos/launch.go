package mesos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	pb "github.com/mesos/mesos-go/api/v1/lib"

	work "sluice/executor/mesos"
	"sluice/scheduler"
)

// launch plans a worker. It is stored, with where and from what, before ACCEPT is said.
func (c *Core) launch(q *query, want *want, g *offered) {
	c.next++
	extra := want.moving > 0
	want.moving = max(want.moving-1, 0)
	q.less(want)
	id := fmt.Sprintf("w%d-%s", c.next, c.cfg.NewID())
	t := g.pool.take(want.need, func(port uint64) bool { return c.avoids(g.agent, port) })
	own := min(q.need.Ports, len(t.ports))
	w := &worker{id: scheduler.WorkerID(id), asked: true, answered: true, extra: extra, nextKill: c.now, rec: workerRecord{
		Query: q.name, Framework: c.id, Agent: g.agent.id, Hostname: g.agent.hostname, Offers: offerTexts(g.ids),
		Resources: want.need.text(), Capacity: newCapacity(want.capacity), Ports: t.ports[:own], Operators: t.ports[own:], Began: c.now,
	}}
	c.add(w)
	c.saveWorker(w)
	g.tasks = append(g.tasks, c.task(q, w, t))
}

func offerTexts(ids []pb.OfferID) (out []string) {
	for _, id := range ids {
		out = append(out, id.Value)
	}
	return out
}

// task is a worker as Mesos sees it. Its executor has its name, so that two never differ under one name.
func (c *Core) task(q *query, w *worker, t taken) pb.TaskInfo {
	id, shell, title := string(w.id), true, "worker of "+q.name
	grace := pb.DurationInfo{Nanoseconds: c.cfg.KillGrace.Nanoseconds()}
	command := &pb.CommandInfo{Shell: &shell, Value: &q.executor.Command}
	for _, uri := range q.executor.URIs {
		command.URIs = append(command.URIs, pb.CommandInfo_URI{Value: uri})
	}
	env := q.executor.Env
	if len(w.rec.Operators) > 0 {
		env = maps.Clone(env)
		if env == nil {
			env = map[string]string{}
		}
		env[PortsVariable] = portsText(w.rec.Operators)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		if command.Environment == nil {
			command.Environment = &pb.Environment{}
		}
		command.Environment.Variables = append(command.Environment.Variables, pb.Environment_Variable{Name: name, Value: &value})
	}
	return pb.TaskInfo{
		Name: title, TaskID: pb.TaskID{Value: id}, AgentID: pb.AgentID{Value: w.rec.Agent}, Resources: t.task,
		Executor: &pb.ExecutorInfo{
			Type: pb.ExecutorInfo_CUSTOM, ExecutorID: pb.ExecutorID{Value: id}, Name: &title, Source: &q.name,
			Command: command, Resources: t.executor, ShutdownGracePeriod: &grace,
		},
		Data: c.workOf(q, w),
	}
}

func (c *Core) workOf(q *query, w *worker) []byte {
	data, err := json.Marshal(work.Work{
		Worker: string(w.id), Control: q.executor.Control, Ports: w.rec.Ports, Silence: c.cfg.Silence, Margin: c.cfg.Margin,
	})
	if err != nil {
		c.alert(q.name, fmt.Sprintf("mesos: what worker %s is to do cannot be written: %v", w.id, err))
	}
	return data
}

// PortsVariable has, in the environment of a worker, the ports of its agent that are for operators: "31002,31003". It
// is not set if they have asked for none.
const PortsVariable = "SLUICE_PORTS"

func portsText(ports []uint64) string {
	var out []string
	for _, p := range ports {
		out = append(out, strconv.FormatUint(p, 10))
	}
	return strings.Join(out, ",")
}
