package mesos

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	pb "github.com/mesos/mesos-go/api/v1/lib"

	"sluice/dataflow"
)

// Need is what a worker takes of an agent. What it names is for the whole worker: the executor's own share is
// part of it.
type Need struct {
	CPUs   float64
	MemMB  float64
	DiskMB float64
	GPUs   int
	// Ports is how many ports of the agent's "ports" resource the worker gets. With 0 it listens on any free one.
	Ports int
	// Attributes are values that attributes of the agent must have.
	Attributes map[string]string
	// Roles are those whose offers may be used; none means all of the framework.
	Roles []string
	// Shared allows two workers of the query on one agent if no other agent offers anything.
	Shared bool
}

// Bounds of a Need, which is written by users.
const (
	maxAmount = 1 << 30
	maxPorts  = 1000
)

// Validate says what is wrong with a Need.
func (n Need) Validate() error {
	var errs []error
	for _, a := range []struct {
		name   string
		amount float64
	}{{"cpus", n.CPUs}, {"mem", n.MemMB}, {"disk", n.DiskMB}, {"gpus", float64(n.GPUs)}} {
		if !(a.amount >= 0 && a.amount <= maxAmount) {
			errs = append(errs, fmt.Errorf("mesos: %s is %v; it must be between 0 and %d", a.name, a.amount, maxAmount))
		}
	}
	if n.CPUs < 0.02 || n.MemMB < 1 {
		errs = append(errs, fmt.Errorf("mesos: a worker needs at least 0.02 cpus and 1 MB of mem, not %v and %v", n.CPUs, n.MemMB))
	}
	if n.Ports < 0 || n.Ports > maxPorts {
		errs = append(errs, fmt.Errorf("mesos: ports is %d; it must be between 0 and %d", n.Ports, maxPorts))
	}
	return errors.Join(errs...)
}

// with is what a worker takes that has a capacity beside what every worker takes. An error says that no agent
// can have both.
func (n Need) with(c dataflow.Resources) (Need, error) {
	n.CPUs += c.CPUs
	n.MemMB += megabytes(c.Mem)
	n.DiskMB += megabytes(c.Disk)
	n.GPUs += c.GPUs
	n.Ports += c.Ports
	if len(c.Attributes) == 0 {
		return n, nil
	}
	own := n.Attributes
	n.Attributes = maps.Clone(own)
	if n.Attributes == nil {
		n.Attributes = map[string]string{}
	}
	for _, a := range c.Attributes {
		if value, ok := own[a.Name]; ok && value != a.Value {
			return n, fmt.Errorf("mesos: attribute %s must be %q for every worker (--mesos-attributes) and %q for an operator: no agent is both",
				a.Name, value, a.Value)
		}
		n.Attributes[a.Name] = a.Value
	}
	return n, nil
}

// megabytes are bytes as Mesos counts them, to the thousandth, rounded up.
func megabytes(bytes int64) float64 { return math.Ceil(float64(bytes)/(1<<20)*1000) / 1000 }

// text says what is needed, without attributes.
func (n Need) text() string {
	parts := []string{number(n.CPUs) + " cpus", number(n.MemMB) + " MB of mem"}
	if n.DiskMB > 0 {
		parts = append(parts, number(n.DiskMB)+" MB of disk")
	}
	if n.GPUs > 0 {
		parts = append(parts, strconv.Itoa(n.GPUs)+" gpus")
	}
	if n.Ports > 0 {
		parts = append(parts, strconv.Itoa(n.Ports)+" ports")
	}
	return strings.Join(parts, ", ")
}

// String says what is needed: "2 cpus, 64 MB of mem, attribute rack=r1".
func (n Need) String() string {
	text := n.text()
	for _, name := range slices.Sorted(maps.Keys(n.Attributes)) {
		text += ", attribute " + name + "=" + n.Attributes[name]
	}
	return text
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// wrongAttribute is the first attribute that an agent does not have as needed, "" if there is none.
func (n Need) wrongAttribute(has []pb.Attribute) string {
	var wrong []string
	for name, value := range n.Attributes {
		if !hasAttribute(has, name, value) {
			wrong = append(wrong, name+"="+value)
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return slices.Min(wrong)
}

func hasAttribute(has []pb.Attribute, name, value string) bool {
	return slices.ContainsFunc(has, func(a pb.Attribute) bool { return a.Name == name && attributeIs(a, value) })
}

// attributeIs compares an attribute with a value: a text and a number must be equal to it, a set or ranges
// must hold it.
func attributeIs(a pb.Attribute, value string) bool {
	switch {
	case a.Text != nil:
		return a.Text.Value == value
	case a.Set != nil:
		return slices.Contains(a.Set.Item, value)
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return false
	}
	if a.Scalar != nil {
		return a.Scalar.Value == x
	}
	return a.Ranges != nil && slices.ContainsFunc(a.Ranges.Range, func(r pb.Value_Range) bool {
		return x >= float64(r.Begin) && x <= float64(r.End)
	})
}
