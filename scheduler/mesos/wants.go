package mesos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"

	"sluice/dataflow"
)

// want is workers of a query that are to be launched and to have the same.
type want struct {
	key      string
	capacity dataflow.Resources
	need     Need   // that of the query, with the capacity
	never    string // why no agent can ever give that, "" if one may
	n        int    // workers to launch
	moving   int    // those of them that are to replace workers on agents that are to be maintained
	since    time.Time
	anyAgent bool               // agents that are avoided are used too, for there is no other
	verdicts map[string]verdict // what the last offers of each agent lacked
}

// hear notes a verdict. Of several offers that an agent makes at once the best counts.
func (w *want) hear(agent string, v verdict) {
	if was, ok := w.verdicts[agent]; ok && was.at.Equal(v.at) && was.kind.could() && !v.kind.could() {
		return
	}
	w.verdicts[agent] = v
}

// fresh says whether an agent can be supposed to offer still what it did.
func (c *Core) fresh(v verdict) bool { return c.now.Sub(v.at) <= reviveAgain+c.cfg.Patience }

// capacity is dataflow.Resources as it is stored.
type capacity struct {
	CPUs       float64 `json:"cpus,omitempty"`
	Mem        int64   `json:"mem,omitempty"`
	Disk       int64   `json:"disk,omitempty"`
	GPUs       int     `json:"gpus,omitempty"`
	Ports      int     `json:"ports,omitempty"`
	Attributes []value `json:"attributes,omitempty"`
}

// value is an attribute's.
type value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// IsZero is for encoding.
func (c capacity) IsZero() bool { return c.resources().IsZero() }

func newCapacity(r dataflow.Resources) capacity {
	c := capacity{CPUs: r.CPUs, Mem: r.Mem, Disk: r.Disk, GPUs: r.GPUs, Ports: r.Ports}
	for _, a := range r.Attributes {
		c.Attributes = append(c.Attributes, value(a))
	}
	return c
}

func (c capacity) resources() dataflow.Resources {
	r := dataflow.Resources{CPUs: c.CPUs, Mem: c.Mem, Disk: c.Disk, GPUs: c.GPUs, Ports: c.Ports}
	for _, a := range c.Attributes {
		r.Attributes = append(r.Attributes, dataflow.Attribute(a))
	}
	return r
}

// compareCapacities puts what fewest agents can be expected to have first.
func compareCapacities(a, b dataflow.Resources) int {
	return cmp.Or(
		cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(len(b.Attributes), len(a.Attributes)), cmp.Compare(b.CPUs, a.CPUs),
		cmp.Compare(b.Mem, a.Mem), cmp.Compare(b.Disk, a.Disk), cmp.Compare(b.Ports, a.Ports),
	)
}

// find gives the want with a key, nil if there is none.
func (q *query) find(key string) *want {
	for _, w := range q.wants {
		if w.key == key {
			return w
		}
	}
	return nil
}

// maxAsked bounds query.asked. A query that has more different workers is one that changes them all the time.
const maxAsked = 1000

// note remembers a capacity for which not every agent is good.
func (q *query) note(capacity dataflow.Resources) {
	if len(capacity.Attributes) > 0 && len(q.asked) < maxAsked {
		q.asked[capacity.String()] = capacity
	}
}

// sought counts the other capacities of the query's workers for which an agent has the attributes: a worker that could be
// elsewhere is in the way of theirs, since no two are on one agent.
func (q *query) sought(key string, attributes []pb.Attribute) (n int) {
	for k, capacity := range q.asked {
		if k == key {
			continue
		}
		has := func(a dataflow.Attribute) bool { return hasAttribute(attributes, a.Name, a.Value) }
		if !slices.ContainsFunc(capacity.Attributes, func(a dataflow.Attribute) bool { return !has(a) }) {
			n++
		}
	}
	return n
}

// ask wants one more worker of a query.
func (c *Core) ask(q *query, capacity dataflow.Resources) *want {
	c.reviveDue = true
	if len(q.wants) == 0 {
		q.wantSince, q.told, q.tells = c.now, "", 0
	}
	w := q.find(capacity.String())
	if w == nil {
		w = &want{key: capacity.String(), capacity: capacity, since: c.now, verdicts: map[string]verdict{}}
		c.measure(q, w)
		q.note(capacity)
		at, _ := slices.BinarySearchFunc(q.wants, w, func(a, b *want) int {
			return cmp.Or(compareCapacities(a.capacity, b.capacity), cmp.Compare(a.key, b.key))
		})
		q.wants = slices.Insert(q.wants, at, w)
	}
	w.n++
	return w
}

// measure says what a wanted worker takes in all.
func (c *Core) measure(q *query, w *want) {
	need, err := c.cfg.of(q.need, w.capacity)
	w.need, w.never = need, ""
	if err != nil {
		w.never = strings.TrimPrefix(err.Error(), "mesos: ")
	}
}

// less wants one worker less.
func (q *query) less(w *want) {
	w.n--
	if w.n <= 0 {
		q.wants = slices.DeleteFunc(slices.Clone(q.wants), func(x *want) bool { return x == w })
	}
}

// wants says whether workers of a query may be launched now.
func (c *Core) wants(q *query) bool {
	return !c.now.Before(q.notBefore) && slices.ContainsFunc(q.wants, func(w *want) bool { return w.never == "" })
}

func (c *Core) wanting() bool {
	for _, q := range c.queries {
		if c.wants(q) {
			return true
		}
	}
	return false
}

// The user is told again what is missing when that changes, after pauses that are doubled up to tellMax, and after
// missingAgain if it does not.
const (
	tellMax      = time.Minute
	missingAgain = 5 * time.Minute
)

// tellMissing tells the user what has been missing for a while.
func (c *Core) tellMissing(q *query) {
	pause := max(c.cfg.Patience, min(c.cfg.Patience<<min(max(q.tells-1, 0), 16), tellMax))
	if len(q.wants) == 0 || c.now.Before(q.notBefore) || c.now.Sub(q.wantSince) < c.cfg.Patience || c.now.Sub(q.toldAt) < pause {
		return
	}
	if c.now.Sub(q.lookedAt) < c.cfg.Patience/5 {
		return // with many agents it is no small text
	}
	q.lookedAt = c.now
	text := c.missingText(q)
	if text == q.told && c.now.Sub(q.toldAt) < missingAgain {
		return
	}
	q.told, q.toldAt = text, c.now
	q.tells++
	c.alert(q.name, text)
}

// Bounds of an alert.
const (
	mostWants = 4 // different workers that are told of
	mostLacks = 5 // agents for each
)

// missingText says which workers a query lacks, and why no agent has what they need.
func (c *Core) missingText(q *query) string {
	have, missing := 0, 0
	for _, w := range c.workers {
		if w.rec.Query == q.name && w.rec.Killed.IsZero() {
			have++
		}
	}
	for _, w := range q.wants {
		missing += w.n
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the query has %d of %d workers, on distinct agents", have, have+missing)
	if q.need.Shared {
		b.WriteString(" unless only one has enough")
	}
	b.WriteString(c.givenUpText(q))
	for _, w := range q.wants[:min(len(q.wants), mostWants)] {
		missing -= w.n
		which := "a worker"
		if w.n > 1 {
			which = fmt.Sprintf("%d workers", w.n)
		}
		fmt.Fprintf(&b, ". Missing: %s with %s; %s", which, w.need, c.lacks(q, w))
	}
	if missing > 0 {
		fmt.Fprintf(&b, ". Missing: %d more of other kinds", missing)
	}
	return b.String()
}

// givenUpText says for how long the query waits for workers of which nobody can say whether they run; "" if there are none.
func (c *Core) givenUpText(q *query) string {
	n, last := 0, time.Time{}
	for _, w := range c.workers {
		if at, ok := c.certainEnd(w); ok && w.rec.Query == q.name && (!w.rec.Lost.IsZero() || w.rec.Framework != c.id) {
			n++
			if at.After(last) {
				last = at
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(". Of %s that it had Mesos cannot say whether they have ended: what must not run twice, such as sinks that write files, waits until %s",
		plural(n, "worker", "workers"), clock(last))
}

// clock is a time as users are told.
func clock(at time.Time) string { return at.UTC().Format("15:04:05 UTC") }

// plural is a number of things.
func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// lacks says why no agent is good for a wanted worker.
func (c *Core) lacks(q *query, w *want) string {
	if w.never != "" {
		return "can never be had: " + w.never
	}
	count := map[verdictKind]int{}
	var texts []string
	offer, bad := 0, 0
	for _, a := range c.sortedAgents() {
		v, ok := w.verdicts[a.id]
		if !ok || v.at.Before(w.since) || !c.fresh(v) {
			continue
		}
		offer++
		count[v.kind]++
		if v.kind == fits {
			continue
		}
		bad++
		if len(texts) < mostLacks {
			if v.kind == inUse && c.leaving(q, a) {
				v.text = "has a worker of the query still, which is being ended"
			}
			texts = append(texts, fmt.Sprintf("agent %s %s", a.hostname, v.text))
		}
	}
	if offer == 0 {
		return "no agent offers anything"
	}
	text := fmt.Sprintf("%s, %d of them enough", plural(offer, "agent offers", "agents offer"), count[fits]+count[inUse])
	if more := bad - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d others", more))
	}
	if len(texts) > 0 {
		text += ": " + strings.Join(texts, "; ")
	}
	return text
}
