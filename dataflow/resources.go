package dataflow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Resources are what an operator needs of the machine that runs it beside what every worker has. What a task
// needs is the sum over its operators. ParseCPUs and its like read them.
type Resources struct {
	CPUs  float64 // cores, also parts of one
	Mem   int64   // bytes
	Disk  int64   // bytes
	GPUs  int
	Ports int // of the machine, besides the one at which the worker listens
	// Attributes are values that attributes of the machine must have, in the order of their names, each once.
	Attributes []Attribute
}

// Attribute is a value that an attribute of a machine must have.
type Attribute struct{ Name, Value string }

// IsZero reports whether nothing is needed.
func (r Resources) IsZero() bool { return r.Amounts() == Amounts{} && len(r.Attributes) == 0 }

// Amounts are Resources without attributes.
type Amounts struct {
	CPUs      float64
	Mem, Disk int64
	GPUs      int
	Ports     int
}

// Amounts are what can be used up.
func (r Resources) Amounts() Amounts { return Amounts{r.CPUs, r.Mem, r.Disk, r.GPUs, r.Ports} }

// Together are the resources of two users on one machine. False says that no machine has both: an attribute
// would need two values.
func (r Resources) Together(o Resources) (Resources, bool) {
	sum := Resources{
		CPUs: r.CPUs + o.CPUs, Mem: addBytes(r.Mem, o.Mem), Disk: addBytes(r.Disk, o.Disk), GPUs: r.GPUs + o.GPUs, Ports: r.Ports + o.Ports,
	}
	for a, b := r.Attributes, o.Attributes; len(a)+len(b) > 0; {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			sum.Attributes, a = append(sum.Attributes, a[0]), a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			sum.Attributes, b = append(sum.Attributes, b[0]), b[1:]
		case a[0] != b[0]:
			return sum, false
		default:
			sum.Attributes, a, b = append(sum.Attributes, a[0]), a[1:], b[1:]
		}
	}
	return sum, true
}

// addBytes adds two amounts; what is more than there can be stays so.
func addBytes(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// Agree reports whether a machine can have all attributes of both.
func (r Resources) Agree(o Resources) bool {
	few, many := r.Attributes, o.Attributes
	if len(few) > len(many) {
		few, many = many, few
	}
	return !slices.ContainsFunc(few, func(a Attribute) bool {
		i, found := slices.BinarySearchFunc(many, a.Name, func(b Attribute, name string) int { return cmp.Compare(b.Name, name) })
		return found && many[i] != a
	})
}

// Equal reports whether the two are the same.
func (r Resources) Equal(o Resources) bool { return r.Covers(o) && o.Covers(r) }

// WithoutCPUs are the resources but for cores, which who has too few of them may share.
func (r Resources) WithoutCPUs() Resources {
	r.CPUs = 0
	return r
}

// Covers reports whether who has r has o: of each amount as much, and all attributes.
func (r Resources) Covers(o Resources) bool {
	// Sums of the same parts in another order differ in the last digits.
	enough := r.CPUs >= o.CPUs-1e-9 && r.Mem >= o.Mem && r.Disk >= o.Disk && r.GPUs >= o.GPUs && r.Ports >= o.Ports
	return enough && !slices.ContainsFunc(o.Attributes, func(a Attribute) bool { return !slices.Contains(r.Attributes, a) })
}

// String lists what is needed: "2 cpus, 512MB of mem, attribute rack=r1"; "nothing" if that is so.
func (r Resources) String() string {
	var parts []string
	amount := func(text, unit string) {
		if text != "0" && text != "0B" {
			parts = append(parts, text+unit)
		}
	}
	amount(strconv.FormatFloat(math.Round(r.CPUs*1000)/1000, 'f', -1, 64), " cpus")
	amount(ByteSize(r.Mem), " of mem")
	amount(ByteSize(r.Disk), " of disk")
	amount(strconv.Itoa(r.GPUs), " gpus")
	amount(strconv.Itoa(r.Ports), " ports")
	for _, a := range r.Attributes {
		parts = append(parts, "attribute "+a.Name+"="+a.Value)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// ByteSize gives an amount of bytes as specs have it: "512MB", in units of 1024 of which it is a whole number.
func ByteSize(n int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%d%s", n, units[i])
}
