package fakemesos

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// resource is an amount of one kind: a scalar, in thousandths, or ranges.
type resource struct {
	name     string
	reserved string // the role of a static reservation, "" when unreserved
	milli    int64  // of a scalar
	ranges   []span // of ranges, sorted and disjoint
	isRanges bool
}

// span is a closed range of integers.
type span struct{ lo, hi uint64 }

// resources is a bag with at most one entry of a name and reservation, none of them empty.
type resources []resource

func (r resource) same(o resource) bool { return r.name == o.name && r.reserved == o.reserved }

func (r resource) empty() bool { return r.milli == 0 && len(r.ranges) == 0 }

func (rs resources) clone() resources {
	out := slices.Clone(rs)
	for i := range out {
		out[i].ranges = slices.Clone(out[i].ranges)
	}
	return out
}

func (rs resources) find(o resource) int {
	return slices.IndexFunc(rs, func(r resource) bool { return r.same(o) })
}

// plus returns the sum; neither operand is changed.
func (rs resources) plus(os resources) resources {
	out := rs.clone()
	for _, o := range os {
		i := out.find(o)
		if i < 0 {
			o.ranges = slices.Clone(o.ranges)
			out = append(out, o)
			continue
		}
		out[i].milli += o.milli
		out[i].ranges = joinSpans(append(out[i].ranges, o.ranges...))
	}
	return out.tidy()
}

// minus returns rs without os. What os has and rs has not is ignored.
func (rs resources) minus(os resources) resources {
	out := rs.clone()
	for _, o := range os {
		i := out.find(o)
		if i < 0 {
			continue
		}
		out[i].milli = max(0, out[i].milli-o.milli)
		out[i].ranges = cutSpans(out[i].ranges, o.ranges)
	}
	return out.tidy()
}

// contains says whether all of os is in rs.
func (rs resources) contains(os resources) bool {
	for _, o := range os {
		i := rs.find(o)
		if i < 0 || rs[i].milli < o.milli || len(cutSpans(o.ranges, rs[i].ranges)) > 0 {
			return false
		}
	}
	return true
}

// tidy removes what is empty and sorts as masters do: ranges, reserved scalars, unreserved ones.
func (rs resources) tidy() resources {
	rs = slices.DeleteFunc(rs, resource.empty)
	slices.SortStableFunc(rs, func(a, b resource) int { return a.rank() - b.rank() })
	return rs
}

func (r resource) rank() int {
	rank := slices.Index([]string{"cpus", "mem", "disk", "gpus"}, r.name)
	switch {
	case r.isRanges:
		return -10
	case r.reserved != "":
		return rank - 5
	case rank < 0:
		return 10
	}
	return rank
}

// forRole is the part that may be offered to a role: what is unreserved, and what is reserved for it.
func (rs resources) forRole(role string) resources {
	var out resources
	for _, r := range rs {
		if r.reserved == "" || r.reserved == role {
			out = append(out, r)
		}
	}
	return out
}

// scalar is the sum of the scalars of a name, in thousandths.
func (rs resources) scalar(name string) int64 {
	var sum int64
	for _, r := range rs {
		if r.name == name {
			sum += r.milli
		}
	}
	return sum
}

func joinSpans(in []span) []span {
	in = slices.Clone(in)
	slices.SortFunc(in, func(a, b span) int { return cmpUint(a.lo, b.lo) })
	var out []span
	for _, s := range in {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func cutSpans(from, what []span) []span {
	out := slices.Clone(from)
	for _, w := range what {
		var next []span
		for _, s := range out {
			if w.hi < s.lo || w.lo > s.hi {
				next = append(next, s)
				continue
			}
			if s.lo < w.lo {
				next = append(next, span{s.lo, w.lo - 1})
			}
			if w.hi < s.hi {
				next = append(next, span{w.hi + 1, s.hi})
			}
		}
		out = next
	}
	return out
}

// view says how resources are shown to a framework (rule 21).
type view struct {
	refined    bool   // RESERVATION_REFINEMENT: reservations, no role
	allocation string // the role for allocation_info, "" for none
}

func (rs resources) show(v view) []mesos.Resource {
	out := make([]mesos.Resource, 0, len(rs))
	for _, r := range rs {
		out = append(out, r.show(v))
	}
	return out
}

func (r resource) show(v view) mesos.Resource {
	m := mesos.Resource{Name: r.name}
	kind := mesos.SCALAR
	if r.isRanges {
		kind = mesos.RANGES
		m.Ranges = &mesos.Value_Ranges{}
		for _, s := range r.ranges {
			m.Ranges.Range = append(m.Ranges.Range, mesos.Value_Range{Begin: s.lo, End: s.hi})
		}
	} else {
		m.Scalar = &mesos.Value_Scalar{Value: float64(r.milli) / 1000}
	}
	m.Type = &kind
	if v.allocation != "" {
		m.AllocationInfo = &mesos.Resource_AllocationInfo{Role: ptr(v.allocation)}
	}
	switch {
	case !v.refined && r.reserved != "":
		m.Role = ptr(r.reserved)
	case !v.refined:
		m.Role = ptr("*")
	case r.reserved != "":
		static := mesos.Resource_ReservationInfo_STATIC
		m.Reservations = []mesos.Resource_ReservationInfo{{Type: &static, Role: ptr(r.reserved)}}
	}
	return m
}

// readResources reads what a framework sends.
func readResources(in []mesos.Resource) resources {
	var out resources
	for _, m := range in {
		out = out.plus(resources{readResource(m)})
	}
	return out
}

func readResource(m mesos.Resource) resource {
	r := resource{name: m.Name}
	if role := m.GetRole(); m.Role != nil && role != "*" {
		r.reserved = role
	}
	if n := len(m.Reservations); n > 0 {
		r.reserved = m.Reservations[n-1].GetRole()
	}
	if m.Scalar != nil {
		r.milli = int64(math.Round(m.Scalar.Value * 1000))
	}
	if m.Ranges != nil {
		r.isRanges = true
		for _, s := range m.Ranges.Range {
			r.ranges = append(r.ranges, span{s.Begin, s.End})
		}
		r.ranges = joinSpans(r.ranges)
	}
	return r
}

// text is how a master names resources in its messages.
func (rs resources) text(role string) string {
	var parts []string
	for _, r := range rs {
		name := fmt.Sprintf("%s(allocated: %s)", r.name, role)
		if r.reserved != "" {
			name += fmt.Sprintf("(reservations: [(STATIC,%s)])", r.reserved)
		}
		parts = append(parts, name+":"+r.amount())
	}
	return strings.Join(parts, "; ")
}

func (r resource) amount() string {
	if !r.isRanges {
		return strconv.FormatFloat(float64(r.milli)/1000, 'f', -1, 64)
	}
	var spans []string
	for _, s := range r.ranges {
		spans = append(spans, fmt.Sprintf("%d-%d", s.lo, s.hi))
	}
	return "[" + strings.Join(spans, ", ") + "]"
}

func ptr[T any](v T) *T { return &v }
