package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/rewrite"
	"sluice/specs/xmlspec"
)

// workload is a query that is run, in two forms, with its input.
type workload struct {
	text    string
	logical *dataflow.Graph
	graph   *dataflow.Graph // rewritten, with placements
	steps   []string        // what was done to it
}

const specType = `  <type name="T">
    <column name="ts" type="timestamp" eventtime="true"/>
    <column name="k" type="string"/>
    <column name="v" type="int"/>
    <column name="p" type="string"/>
  </type>
`

// spec writes a spec.
type spec struct {
	strings.Builder
	world *world
	names map[string]int
}

// pick draws one of several texts.
func (w *world) pick(of ...string) string { return of[w.rand.IntN(len(of))] }

// operator writes an operator with one output and returns the output's name; params are pairs.
func (s *spec) operator(kind string, inputs []string, params ...string) string {
	s.names[kind]++
	name := fmt.Sprintf("%s%d", kind, s.names[kind])
	fmt.Fprintf(s, "  <operator name=%q type=%q>\n", name, kind)
	for _, in := range inputs {
		fmt.Fprintf(s, "    <input name=%q/>\n", in)
	}
	escape := strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;")
	for i := 0; i < len(params); i += 2 {
		fmt.Fprintf(s, "    <param name=%q>%s</param>\n", params[i], escape.Replace(params[i+1]))
	}
	typ, out := "", "s_"+name
	late := kind == "aggregate" && strings.Contains(strings.Join(params, " "), "window_") && s.world.chance(0.25)
	if kind == "reader" {
		typ = ` type="T"`
	}
	if kind != "writer" {
		fmt.Fprintf(s, "    <output name=%q%s/>\n", out, typ)
	}
	if late {
		fmt.Fprintf(s, "    <output name=\"late_%s\" port=\"late\"/>\n", name)
	}
	s.WriteString("  </operator>\n")
	if late {
		s.writer("late_" + name)
	}
	return out
}

func (s *spec) reader() string {
	n := s.names["reader"] + 1
	return s.operator("reader", nil, "path", fmt.Sprintf("r%d.csv", n), "watermark-delay", s.world.pick("0s", "4s", "15s"))
}

func (s *spec) filter(in string) string {
	return s.operator("filter", []string{in}, "condition", s.world.pick("v % 10 < 8", "v % 10 > 0", "k <> 'a' OR v % 10 > 3", "v % 3 <> 1"))
}

func (s *spec) mapping(in string) string {
	return s.operator("map", []string{in}, "select", s.world.pick("ts, k, v + 1 AS v, p", "ts, k, v * 2 AS v, p", "ts, k, v, p"))
}

// aggregate works by key, in windows of time or of rows, or over all.
func (s *spec) aggregate(in string) string {
	w := s.world
	window := w.pick("tumbling(7s)", "tumbling(20s)", "hopping(12s, 4s)", "session(5s)", "rows(3)", "rows(4, 2)", "")
	selects := "k, count(*) AS n, sum(v) AS v, min(v) AS least, max(v) AS most"
	if window != "" && !strings.HasPrefix(window, "rows") {
		selects = "window_start, window_end, " + selects
	}
	params := []string{"group-by", "k", "select", selects}
	if window != "" {
		params = append(params, "window", window)
	}
	if strings.HasPrefix(window, "tumbling") && w.chance(0.3) {
		params = append(params, "allowed-lateness", "10s")
	}
	return s.operator("aggregate", []string{in}, params...)
}

func (s *spec) union(ins ...string) string { return s.operator("union", ins) }

func (s *spec) writer(in string) {
	s.operator("writer", []string{in}, "path", fmt.Sprintf("w%d.csv", s.names["writer"]+1))
}

// shapes are the kinds of queries.
var shapes = map[string]func(*spec){
	"chain": func(s *spec) {
		s.writer(s.filter(s.mapping(s.filter(s.reader()))))
	},
	"window": func(s *spec) {
		s.writer(s.aggregate(s.filter(s.reader())))
	},
	"union": func(s *spec) {
		s.writer(s.aggregate(s.union(s.filter(s.reader()), s.mapping(s.reader()))))
	},
	"diamond": func(s *spec) {
		f := s.filter(s.reader())
		u := s.union(s.mapping(f), s.filter(f), f)
		s.writer(s.aggregate(u))
		if s.world.chance(0.5) {
			s.writer(u)
		}
	},
	"two": func(s *spec) {
		f := s.filter(s.union(s.reader(), s.reader()))
		s.writer(s.aggregate(f))
		s.writer(s.filter(s.aggregate2(f)))
	},
}

// aggregate2 is an aggregate whose output can be filtered like the input.
func (s *spec) aggregate2(in string) string {
	return s.operator("aggregate", []string{in}, "group-by", "k", "window", s.world.pick("tumbling(9s)", "session(4s)"),
		"select", "window_time AS ts, k, sum(v) AS v")
}

var engine = &rewrite.Engine{Catalog: catalog.Operators}

// parse makes a graph of a spec.
func parse(text string) (*dataflow.Graph, error) {
	g, diags := xmlspec.Parse("sim.xml", strings.NewReader(text), func(string) (string, bool) { return "", false })
	if !diags.HasErrors() {
		diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("%w in\n%s", diags, text)
	}
	return g, nil
}

// drawWorkload draws a query and what reads and writes.
func (w *world) drawWorkload() error {
	s := &spec{world: w, names: map[string]int{}}
	s.WriteString("<dataflow name=\"sim\">\n" + specType)
	shapes[w.plan.Shape](s)
	s.WriteString("</dataflow>\n")
	l := workload{text: s.String()}
	var err error
	if l.logical, err = parse(l.text); err != nil {
		return err
	}
	if l.graph, err = parse(l.text); err != nil {
		return err
	}
	if w.plan.Needs {
		w.drawNeeds(l.graph)
	}
	for _, rule := range w.plan.Rewrites {
		if err := w.rewrite(&l, rule); err != nil {
			return err
		}
	}
	w.place(l.graph)
	w.workload = l
	w.query, err = dataflow.BuildTasks(l.graph, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		return err
	}
	w.drawEnds()
	return nil
}

// drawNeeds lets some operators need resources.
func (w *world) drawNeeds(g *dataflow.Graph) {
	for _, op := range g.Operators {
		if w.chance(0.4) {
			op.Resources = dataflow.Resources{CPUs: float64(w.between(0, 4)) / 2, Mem: w.between(0, 3) << 20, Ports: int(w.between(0, 1))}
		}
		if w.chance(0.2) {
			op.Resources.Attributes = []dataflow.Attribute{{Name: "rack", Value: w.pick("r1", "r2")}}
		}
	}
}

// drawEnds draws the inputs, and how sinks publish.
func (w *world) drawEnds() {
	w.inputs, w.sinks = map[string]*input{}, map[string]*published{}
	for _, op := range w.workload.logical.Operators {
		switch op.Type {
		case "reader":
			in := w.drawInput(int(w.between(int64(w.plan.LeastRows), int64(w.plan.MostRows))), w.between(w.plan.Span/8, w.plan.Span))
			delay, _ := dataflow.ParseDuration(op.Value("watermark-delay"))
			in.options = operators.EpochOptions{
				Rows: int(w.between(1, 8)), WatermarkDelay: time.Duration(delay) * time.Microsecond,
				Interval:    time.Duration(w.plan.Interval) * time.Microsecond,
				IdleTimeout: time.Duration(w.plan.Idle) * time.Microsecond,
			}
			in.endless = w.plan.Endless
			w.inputs[op.Name] = in
		case "writer":
			w.sinks[op.Name] = &published{name: op.Name, single: w.chance(w.plan.SingleFile)}
		}
	}
}

// rewrite applies a rule somewhere, if there is a place for it.
func (w *world) rewrite(l *workload, name string) error {
	i := slices.IndexFunc(rewrite.Builtin().Rules(), func(r *rewrite.Rule) bool { return r.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no rule %q", name)
	}
	rule := rewrite.Builtin().Rules()[i]
	rw := dataflow.Rewrite{Rule: name}
	args := map[string]string{}
	if rule.Param("k") != nil {
		args["k"] = w.pick("2", "2", "3")
		rw.Params = append(rw.Params, dataflow.Param{Name: "k", Value: args["k"]})
	}
	var sites []string
	for _, op := range l.graph.Operators {
		if op.Type == "writer" || op.Type == "reader" || op.Desc.Added {
			continue
		}
		if engine.Applies(rule, op, args) == nil {
			sites = append(sites, op.Name)
		}
		if op.Origin != nil && op.Origin.Replica == 1 && l.graph.Operator(op.Origin.Of) == nil && engine.Applies(rule, op, args) == nil {
			sites = append(sites, op.Origin.Of)
		}
	}
	if len(sites) == 0 {
		return nil
	}
	rw.Operator = w.pick(sites...)
	g := *l.graph
	g.Rewrites = []dataflow.Rewrite{rw}
	result, diags := engine.Run(&g, rewrite.Builtin())
	if diags.HasErrors() {
		return nil // it does not apply to all that the name means
	}
	l.graph = result.Graph
	l.steps = append(l.steps, fmt.Sprintf("%s(%s) %v", name, rw.Operator, args))
	return nil
}

// place gives the operators that no rule has placed places of their own, so that there are many tasks.
func (w *world) place(g *dataflow.Graph) {
	n := int64(len(g.Operators))
	if w.chance(0.3) {
		n = w.between(1, 3)
	}
	for _, op := range g.Operators {
		if len(op.Placement) > 0 {
			continue
		}
		op.Placement = []dataflow.Placement{{Group: fmt.Sprintf("sim#%d", w.between(1, n)), Label: "p"}}
	}
}
