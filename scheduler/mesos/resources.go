package mesos

import (
	"fmt"
	"math"
	"slices"

	pb "github.com/mesos/mesos-go/api/v1/lib"
)

// milli is an amount in thousandths, the precision of Mesos, which compares amounts as such.
type milli int64

func toMilli(x float64) milli { return milli(math.Round(x * 1000)) }

func (m milli) float() float64 { return float64(m) / 1000 }

// pool is what offers of one agent and role hold. Resources keep their form, reservations included, so that
// what is taken is what the master knows.
type pool []pb.Resource

// usable says whether a resource is one that a worker may take: no volume, nothing that may be revoked.
func usable(r *pb.Resource) bool {
	return r.Disk == nil && r.Revocable == nil && r.Shared == nil && r.ProviderID == nil
}

// lastPort bounds ranges, which are only used of ports.
const lastPort = math.MaxUint16

// newPool copies the usable resources of offers.
func newPool(offers []*pb.Offer) pool {
	var p pool
	for _, o := range offers {
		for i := range o.Resources {
			r := o.Resources[i]
			if !usable(&r) || r.Scalar == nil && r.Ranges == nil {
				continue
			}
			if r.Scalar != nil {
				r.Scalar = &pb.Value_Scalar{Value: r.Scalar.Value}
			}
			if r.Ranges != nil {
				r.Ranges = &pb.Value_Ranges{Range: slices.Clone(r.Ranges.Range)}
				for j := range r.Ranges.Range {
					r.Ranges.Range[j].End = min(r.Ranges.Range[j].End, lastPort)
				}
			}
			p = append(p, r)
		}
	}
	return p
}

// has is how much of a resource there is; ports are counted.
func (p pool) has(name string) milli {
	var sum milli
	for _, r := range p {
		switch {
		case r.Name != name:
		case r.Scalar != nil:
			sum += toMilli(r.Scalar.Value)
		default:
			sum += 1000 * milli(countRanges(r.Ranges.Range))
		}
	}
	return sum
}

func countRanges(ranges []pb.Value_Range) (n int64) {
	for _, r := range ranges {
		if r.End >= r.Begin {
			n += int64(min(r.End-r.Begin+1, math.MaxInt32))
		}
	}
	return n
}

// amount is so much of a resource.
type amount struct {
	name string
	milli
}

func (n Need) amounts() []amount {
	return []amount{
		{"cpus", toMilli(n.CPUs)}, {"mem", toMilli(n.MemMB)}, {"disk", toMilli(n.DiskMB)},
		{"gpus", 1000 * milli(n.GPUs)}, {"ports", 1000 * milli(n.Ports)},
	}
}

// shortage says what of a need the pool has not, "" if it has all.
func (p pool) shortage(n Need) string {
	for _, a := range n.amounts() {
		if has := p.has(a.name); has < a.milli {
			return fmt.Sprintf("has %s of %s %s", number(has.float()), number(a.float()), a.name)
		}
	}
	return ""
}

// taken is what a worker gets.
type taken struct {
	executor, task []pb.Resource
	ports          []uint64
}

// The executor's own share of a need: enough that it runs before there is a task.
const (
	executorCPUs = milli(100)
	executorMem  = milli(32_000)
)

// take takes a need, of which there must be enough. Reserved resources are taken first, as they come
// before others in the order of reserved, and ports that are to be avoided last.
func (p pool) take(n Need, avoid func(port uint64) bool) taken {
	slices.SortStableFunc(p, func(a, b pb.Resource) int { return reserved(&b) - reserved(&a) })
	cpus, mem := min(executorCPUs, toMilli(n.CPUs)/2), min(executorMem, toMilli(n.MemMB)/2)
	t := taken{executor: append(p.scalar("cpus", cpus), p.scalar("mem", mem)...)}
	for _, a := range n.amounts() {
		switch a.name {
		case "cpus":
			a.milli -= cpus
		case "mem":
			a.milli -= mem
		case "ports":
			continue
		}
		t.task = append(t.task, p.scalar(a.name, a.milli)...)
	}
	ports, taken := p.takePorts(n.Ports, avoid)
	t.task, t.ports = append(t.task, ports...), taken
	return t
}

func reserved(r *pb.Resource) int {
	if len(r.Reservations) > 0 || r.Reservation != nil || r.Role != nil && *r.Role != "*" {
		return 1
	}
	return 0
}

func (p pool) scalar(name string, want milli) (out []pb.Resource) {
	for i := range p {
		r := &p[i]
		if want <= 0 || r.Name != name || r.Scalar == nil {
			continue
		}
		part := min(want, toMilli(r.Scalar.Value))
		if part <= 0 {
			continue
		}
		want -= part
		r.Scalar.Value = (toMilli(r.Scalar.Value) - part).float()
		piece := *r
		piece.Scalar = &pb.Value_Scalar{Value: part.float()}
		out = append(out, piece)
	}
	return out
}

// takePorts takes n ports, of which there must be as many. Those to be avoided come last.
func (p pool) takePorts(n int, avoid func(port uint64) bool) (out []pb.Resource, ports []uint64) {
	of := make([][]uint64, len(p)) // the ports taken of each resource
	for _, last := range []bool{false, true} {
		for i := range p {
			if r := &p[i]; r.Name == "ports" && r.Ranges != nil {
				before := len(ports)
				ports = appendPorts(ports, n, r.Ranges.Range, func(port uint64) bool { return avoid(port) == last })
				of[i] = append(of[i], ports[before:]...)
			}
		}
	}
	for i := range p {
		if len(of[i]) == 0 {
			continue
		}
		part := p[i]
		rest, piece := cutPorts(part.Ranges.Range, of[i])
		p[i].Ranges = &pb.Value_Ranges{Range: rest}
		part.Ranges = &pb.Value_Ranges{Range: piece}
		out = append(out, part)
	}
	return out, ports
}

// appendPorts adds the ports of ranges that are good, until there are n.
func appendPorts(ports []uint64, n int, ranges []pb.Value_Range, good func(uint64) bool) []uint64 {
	for _, r := range ranges {
		for port := r.Begin; port <= r.End && len(ports) < n; port++ {
			if good(port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// cutPorts takes ports out of ranges: what is left of them, and what was taken.
func cutPorts(ranges []pb.Value_Range, ports []uint64) (rest, taken []pb.Value_Range) {
	ports = slices.Sorted(slices.Values(ports))
	for _, r := range ranges {
		for _, port := range ports {
			if port < r.Begin || port > r.End {
				continue
			}
			if port > r.Begin {
				rest = append(rest, pb.Value_Range{Begin: r.Begin, End: port - 1})
			}
			r.Begin = port + 1
			if last := len(taken) - 1; last >= 0 && taken[last].End+1 == port {
				taken[last].End = port
			} else {
				taken = append(taken, pb.Value_Range{Begin: port, End: port})
			}
		}
		if r.Begin <= r.End {
			rest = append(rest, r)
		}
	}
	return rest, taken
}
