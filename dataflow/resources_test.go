package dataflow_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
)

func TestParseByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0B": 0, "1B": 1, "512MB": 512 << 20, "1.5GB": 3 << 29, "1 KB": 1024, "0.1KB": 103, "1024TB": 1 << 50, ".5KB": 512,
	} {
		if got, err := dataflow.ParseByteSize(text); err != nil || got != want {
			t.Errorf("%s is %d, error %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a size", "512": "needs a unit", "MB": "is not a size", "1mb": "is not a size", "-1MB": "-1MB is negative",
		"1e3B": "is not a size", "NaNB": "is not a size", "InfMB": "is not a size", "1.2.3B": "is not a size", "1024.1TB": "is too much",
		"0x10B": "is not a size", "1_0B": "is not a size", "9999999999999999999999999999999999999999999B": "is not a size",
	} {
		if got, err := dataflow.ParseByteSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %d, error %v; want %q", text, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // what is written is read as it was
		n := rapid.Int64Range(0, dataflow.MaxBytes).Draw(t, "bytes")
		if shift := rapid.IntRange(0, 40).Draw(t, "zeros"); shift > 0 {
			n = n >> shift << shift
		}
		if got, err := dataflow.ParseByteSize(dataflow.ByteSize(n)); err != nil || got != n {
			t.Fatalf("%d is written %s and read as %d, error %v", n, dataflow.ByteSize(n), got, err)
		}
	})
}

func TestParseNumbers(t *testing.T) {
	for text, want := range map[string]float64{"2": 2, "0.5": 0.5, ".25": 0.25, "1.": 1, "0": 0, "0.0001": 0.001, "0.3333": 0.334, "100000": 100_000} {
		if got, err := dataflow.ParseCPUs(text); err != nil || got != want {
			t.Errorf("%s cores are %v, error %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "NaN", "Inf", "1e2", "100000.1", "-1", "1,5", "two", " 1"} {
		if got, err := dataflow.ParseCPUs(text); err == nil {
			t.Errorf("%q is read as %v cores", text, got)
		}
		if got, err := dataflow.ParseCount(text, "ports", 1000); err == nil {
			t.Errorf("%q is read as %v ports", text, got)
		}
	}
	if got, err := dataflow.ParseCount("1000", "ports", 1000); err != nil || got != 1000 {
		t.Errorf("1000 is read as %v, error %v", got, err)
	}
}

func TestParseAttributes(t *testing.T) {
	list, errs := dataflow.ParseAttributes(" zone = a=b,rack=r1 ,disk=solid state")
	if want := "[{disk solid state} {rack r1} {zone a=b}]"; len(errs) > 0 || fmt.Sprint(list) != want {
		t.Errorf("%v, errors %v, not %s", list, errs, want)
	}
	list, errs = dataflow.ParseAttributes("rack=r1, ,=x,y=,rack=r1,a\nb=c,z=1")
	var at []int
	for _, err := range errs {
		at = append(at, err.Offset)
	}
	if want := "[9 10 13 16 24]"; fmt.Sprint(at) != want || fmt.Sprint(list) != "[{rack r1} {z 1}]" {
		t.Errorf("%v, errors at %v, not %s: %v", list, at, want, errs)
	}
}

// TestManyAttributes: what is hostile takes no time.
func TestManyAttributes(t *testing.T) {
	var text strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&text, "a%d=b,", i)
	}
	if list, errs := dataflow.ParseAttributes(text.String()); len(list) != dataflow.MaxAttributes || len(errs) != 1 || errs[0].Offset != 5*10+6*54 {
		t.Errorf("%d attributes, errors %v", len(list), errs)
	}
	const n = 20_000
	inputs := make([][]int, n)
	for i := 1; i < n; i++ {
		inputs[i] = []int{i - 1}
	}
	g := graphOf(inputs)
	dataflow.Resolve(g, anyCatalog)
	for i, op := range g.Operators {
		op.Resources.Attributes = []dataflow.Attribute{{Name: fmt.Sprint("a", i), Value: "b"}}
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
	if want := (n + dataflow.MaxAttributes - 1) / dataflow.MaxAttributes; err != nil || len(p.Tasks) != want {
		t.Errorf("%d tasks, not %d, error %v", len(p.Tasks), want, err)
	}
}

func TestTogether(t *testing.T) {
	attributes := func(text string) []dataflow.Attribute {
		list, errs := dataflow.ParseAttributes(text)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return list
	}
	a := dataflow.Resources{CPUs: 0.1, Mem: 1 << 30, GPUs: 1, Attributes: attributes("rack=r1,disk=ssd")}
	b := dataflow.Resources{CPUs: 0.2, Mem: math.MaxInt64 - 1, Ports: 2, Attributes: attributes("zone=z, disk=ssd")}
	sum, ok := a.Together(b)
	if want := "0.3 cpus, 9223372036854775807B of mem, 1 gpus, 2 ports, attribute disk=ssd, attribute rack=r1, attribute zone=z"; !ok || sum.String() != want {
		t.Errorf("%v %v, not %s", sum, ok, want)
	}
	if !sum.Covers(a) || !sum.Covers(b) || a.Covers(sum) || !sum.Equal(sum) || sum.Equal(a) {
		t.Errorf("%v does not cover its parts", sum)
	}
	if a.Agree(dataflow.Resources{Attributes: attributes("disk=hdd")}) {
		t.Error("a machine has two kinds of disk")
	}
	if len(a.Attributes) != 2 || a.String() != "0.1 cpus, 1GB of mem, 1 gpus, attribute disk=ssd, attribute rack=r1" {
		t.Errorf("it has become %v", a)
	}
}

// TestFuseRandom: whatever operators need, a task needs the sum, no machine is to have two values of an attribute,
// and tasks form no cycle.
func TestFuseRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := graphOf(randomEdges(t, true))
		dataflow.Resolve(g, anyCatalog)
		for _, op := range g.Operators {
			op.Resources.Mem = rapid.Int64Range(0, 3).Draw(t, "mem")
			for _, name := range []string{"disk", "rack"} {
				if v := rapid.IntRange(0, 4).Draw(t, name); v < 2 {
					op.Resources.Attributes = append(op.Resources.Attributes, dataflow.Attribute{Name: name, Value: fmt.Sprint(v)})
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "placed") == 0 {
				op.Placement = []dataflow.Placement{{Group: "g", Label: "p"}}
			}
		}
		p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		place := make(map[*dataflow.Task]int)
		for i, task := range p.Tasks {
			place[task] = i
			var sum dataflow.Resources
			for _, op := range task.Operators {
				var ok bool
				if sum, ok = sum.Together(op.Resources); !ok {
					t.Fatalf("task %s needs attributes that contradict each other:\n%s", task.Name, g.Statements(dataflow.TermOptions{}))
				}
			}
			if !sum.Equal(task.Resources) {
				t.Fatalf("task %s needs %v, and its operators %v", task.Name, task.Resources, sum)
			}
		}
		for _, ch := range p.Channels {
			if place[ch.FromTask] >= place[ch.ToTask] {
				t.Fatalf("task %s comes after %s, which reads from it:\n%s\n%s", ch.FromTask.Name, ch.ToTask.Name, g.Statements(dataflow.TermOptions{}), p.Text())
			}
		}
	})
}

// TestResourcesShown: all text forms of a graph have what operators need, and a task that needs something else is
// another one.
func TestResourcesShown(t *testing.T) {
	g := parseGraph(t, `
type T: a int
s = read() -> s1:T {path=x}
f = pass(s1) -> s2
p = pass(s2) -> s3
q = pass(s3) -> s4
w = write(s4)`)
	if diags := dataflow.Resolve(g, taskCatalog); diags.HasErrors() {
		t.Fatal(diags)
	}
	build := func() *dataflow.Physical {
		p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rack := func(v string) []dataflow.Attribute { return []dataflow.Attribute{{Name: "rack", Value: v}} }
	g.Operator("s").Resources = dataflow.Resources{Mem: 1 << 20, Attributes: rack("r1")}
	g.Operator("f").Resources = dataflow.Resources{CPUs: 0.5, Mem: 1 << 20}
	g.Operator("p").Resources = dataflow.Resources{CPUs: 1, GPUs: 1, Attributes: rack("r2")}
	g.Operator("w").Resources = dataflow.Resources{Attributes: rack("r1")}
	was := build()
	const want = `task s: s, f, needs 0.5 cpus, 2MB of mem, attribute rack=r1
task p: p, q, needs 1 cpus, 1 gpus, attribute rack=r2
task w: w, needs attribute rack=r1
channel s -> p: s2
channel p -> w: s4
`
	if got := was.Text(); got != want {
		t.Errorf("got\n%s\nnot\n%s", got, want)
	}
	if got, want := g.Operator("p").Statement(dataflow.TermOptions{}), "p := pass(f) needs 1 cpus, 1 gpus, attribute rack=r2"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	tasks, err := was.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		strings.Join(strings.Fields(string(tasks)), " "):    `"resources": { "cpus": 0.5, "mem": 2097152, "attributes": { "rack": "r1" } }`,
		strings.Join(strings.Fields(graphState(t, g)), " "): `"outputs": [ "s2" ], "resources": { "cpus": 0.5, "mem": 1048576 }`,
		was.Dot(): `label="task p\nneeds 1 cpus, 1 gpus, attribute rack=r2";`,
		g.Dot():   `"f" [label="f\npass\nneeds 0.5 cpus, 1MB of mem"];`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	g = g.Clone()
	g.Operator("q").Resources.Mem = 1
	c := dataflow.Compare(was, build())
	if len(c.Stay) != 2 || len(c.Come) != 1 || c.Come[0].Name != "p" || len(c.Go) != 1 {
		t.Errorf("a task needs more, and the change is\n%s", c.Text())
	}
}
