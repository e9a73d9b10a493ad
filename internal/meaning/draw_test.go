package meaning

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/specs/xmlspec"
)

// query is a drawn spec with rows for its sources.
type query struct {
	text   string
	graph  *dataflow.Graph
	inputs map[string]*input
	rows   string // those of the inputs, for messages
	// orders are, by writer, those that rows keep where an aggregate above was divided.
	orders map[string]order
}

// column is a column of a drawn stream.
type column struct {
	name string
	kind string // "int", "float", ...; "decimal" of any scale
	// stable tells that it has the same values however sums are added up, exact that sums over it are
	// the same.
	stable, exact bool
}

// stream is a drawn stream.
type stream struct {
	name    string
	columns []column
	time    string // column with the event time, "" if none
	order   order  // see query.orders
}

// drawer draws a spec.
type drawer struct {
	t       *rapid.T
	w       strings.Builder
	streams []*stream
	read    map[*stream]bool
	orders  map[string]order
	name    string // of the operator that is drawn
	clock   bool   // expressions may ask for now(), which the epochs decide
}

func (d *drawer) int(from, to int, what string) int { return rapid.IntRange(from, to).Draw(d.t, what) }

// chance holds once out of n times.
func (d *drawer) chance(n int, what string) bool { return d.int(1, n, what) == n }

func draw[T any](d *drawer, what string, of ...T) T { return rapid.SampledFrom(of).Draw(d.t, what) }

const typeText = `  <type name="T">
    <column name="ts" type="timestamp" eventtime="true"/>
    <column name="k" type="string"/>
    <column name="j" type="int"/>
    <column name="v" type="int"/>
    <column name="f" type="float"/>
    <column name="m" type="decimal(6,2)"/>
    <column name="b" type="bool"/>
  </type>
`

var sourceColumns = []column{
	{"ts", "timestamp", true, true}, {"k", "string", true, true}, {"j", "int", true, true}, {"v", "int", true, true},
	{"f", "float", true, true}, {"m", "decimal", true, true}, {"b", "bool", true, true},
}

// drawQuery draws a query. With fixed epochs, what it gives may depend on them.
func drawQuery(t *rapid.T, fixed bool) *query {
	d := &drawer{t: t, read: map[*stream]bool{}, orders: map[string]order{}}
	d.w.WriteString("<dataflow name=\"drawn\">\n" + typeText)
	sources := draw(d, "sources", 1, 1, 1, 2, 3)
	d.clock = fixed && sources == 1
	for i := range sources {
		d.name = fmt.Sprintf("r%d", i+1)
		d.source()
	}
	for i := range d.int(1, 8, "operators") {
		d.name = fmt.Sprintf("o%d", i+1)
		d.operator()
	}
	d.writers()
	d.w.WriteString("</dataflow>\n")
	q := &query{text: d.w.String(), inputs: map[string]*input{}, orders: d.orders}
	q.graph = parse(t, q.text)
	for i := range sources {
		op := q.graph.Operator(fmt.Sprintf("r%d", i+1))
		in := drawRows(d, op)
		q.inputs[op.Name] = in
		q.rows += op.Name + ":\n" + in.String()
	}
	return q
}

// parse parses and resolves a spec.
func parse(t interface{ Fatalf(string, ...any) }, text string) *dataflow.Graph {
	g, diags := xmlspec.Parse("drawn.xml", strings.NewReader(text), func(string) (string, bool) { return "", false })
	if !diags.HasErrors() {
		diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	}
	if diags.HasErrors() {
		t.Fatalf("%s\nin\n%s", diags, text)
	}
	return g
}

// param is a parameter of a drawn operator.
type param struct{ name, value string }

// output is an output of a drawn operator.
type output struct {
	port string
	stream
}

// write writes an operator; its outputs become streams that others may read.
func (d *drawer) write(kind string, inputs []*stream, params []param, outputs ...output) {
	fmt.Fprintf(&d.w, "  <operator name=%q type=%q>\n", d.name, kind)
	for _, in := range inputs {
		d.read[in] = true
		fmt.Fprintf(&d.w, "    <input name=%q/>\n", in.name)
	}
	if d.chance(6, "attribute") { // operators that are not fused if theirs differ
		fmt.Fprintf(&d.w, "    <resources attributes=\"rack=%s\"/>\n", draw(d, "rack", "r1", "r2"))
	}
	for _, p := range params {
		var text bytes.Buffer
		xml.EscapeText(&text, []byte(p.value))
		fmt.Fprintf(&d.w, "    <param name=%q>%s</param>\n", p.name, text.String())
	}
	for _, o := range outputs {
		typ, port := "", ""
		if kind == "reader" && o.port == "" {
			typ = ` type="T"`
		}
		if o.port != "" {
			port = fmt.Sprintf(" port=%q", o.port)
		}
		fmt.Fprintf(&d.w, "    <output name=%q%s%s/>\n", o.name, typ, port)
		s := o.stream
		d.streams = append(d.streams, &s)
	}
	d.w.WriteString("  </operator>\n")
}

func (d *drawer) source() {
	params := []param{
		{"path", d.name + ".csv"},
		{"epoch-rows", draw(d, "epoch-rows", "1", "2", "5", "9", "1000")},
		{"watermark-delay", draw(d, "watermark-delay", "0s", "0s", "3s", "20s")},
	}
	outputs := []output{{"", stream{name: "s" + d.name, columns: sourceColumns, time: "ts", order: anyOrder}}}
	if d.chance(4, "source with errors") {
		params = append(params, param{"on-error", "dead-letter"})
		outputs = append(outputs, d.errors())
	}
	d.write("reader", nil, params, outputs...)
}

var errorColumns = []column{{"row", "string", true, true}, {"place", "string", false, false}, {"reason", "string", true, true}}

func (d *drawer) errors() output {
	return output{"errors", stream{name: "e" + d.name, columns: errorColumns, order: anyOrder}}
}

// onError draws what becomes of bad rows.
func (d *drawer) onError(in *stream, params []param, outputs []output) ([]param, []output) {
	// The text of a bad row has all of its columns.
	unstable := slices.ContainsFunc(in.columns, func(c column) bool { return !c.stable })
	switch policy := draw(d, "on-error", "fail", "skip", "skip", "dead-letter", "dead-letter"); {
	case policy == "dead-letter" && unstable, policy == "fail":
	case policy == "skip":
		params = append(params, param{"on-error", policy})
	default:
		params = append(params, param{"on-error", policy})
		outputs = append(outputs, d.errors())
	}
	return params, outputs
}

// pick draws a stream to be read: the last ones more often, for longer chains.
func (d *drawer) pick() *stream {
	if n := len(d.streams); n > 2 && !d.chance(3, "any stream") {
		return d.streams[n-1-d.int(0, 1, "recent stream")]
	}
	return rapid.SampledFrom(d.streams).Draw(d.t, "stream")
}

func (d *drawer) operator() {
	in := d.pick()
	out := stream{name: "s" + d.name, columns: in.columns, time: in.time, order: in.order}
	switch draw(d, "type", "filter", "filter", "map", "aggregate", "aggregate", "aggregate", "union") {
	case "filter":
		params, outputs := d.onError(in, []param{{"condition", d.condition(in, 2)}}, []output{{"", out}})
		d.write("filter", []*stream{in}, params, outputs...)
	case "map":
		d.mapping(in, out)
	case "aggregate":
		d.aggregate(in)
	case "union":
		d.union(in, out)
	}
}

func (d *drawer) mapping(in *stream, out stream) {
	var items []string
	out.columns, out.time = nil, ""
	if draw(d, "all columns", true, true, false) {
		items = append(items, "*")
		out.columns, out.time = slices.Clone(in.columns), in.time
	} else {
		for _, c := range in.columns {
			if c.name == in.time && !d.chance(4, "no event time") || d.chance(2, "keep "+c.name) {
				items = append(items, d.reference(in, c))
				out.columns = append(out.columns, c)
				if c.name == in.time {
					out.time = c.name
				}
			}
		}
	}
	for i := range d.int(0, 2, "computed") {
		x := d.expression(in, draw(d, "kind", "int", "int", "string", "float", "bool", "decimal"), 2)
		c := column{fmt.Sprintf("%sc%d", d.name, i+1), x.kind, x.stable, x.exact}
		items = append(items, x.text+" AS "+c.name)
		out.columns = append(out.columns, c)
	}
	if len(items) == 0 {
		items, out.columns = []string{"1 AS " + d.name + "c1"}, []column{{d.name + "c1", "int", true, true}}
	}
	out.order = kept(out.order, out.columns)
	params, outputs := d.onError(in, []param{{"select", strings.Join(items, ", ")}}, []output{{"", out}})
	d.write("map", []*stream{in}, params, outputs...)
}

// kept is the order of rows that have these columns only.
func kept(o order, columns []column) order {
	for _, k := range o.columns {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.name == k }) {
			return anyOrder
		}
	}
	return o
}

// union joins streams of the same columns; there may be only the one.
func (d *drawer) union(in *stream, out stream) {
	inputs := []*stream{in}
	for _, s := range d.streams {
		if s != in && sameColumns(s, in) && len(inputs) < 3 && d.chance(2, "join") {
			inputs = append(inputs, s)
		}
	}
	if d.chance(4, "twice") {
		inputs = append(inputs, in)
	}
	for _, s := range inputs {
		if s.order.any || !slices.Equal(s.order.columns, in.order.columns) {
			out.order = anyOrder
		}
	}
	out.columns = slices.Clone(in.columns)
	for _, s := range inputs {
		for i, c := range s.columns {
			out.columns[i].stable = out.columns[i].stable && c.stable
			out.columns[i].exact = out.columns[i].exact && c.exact
		}
	}
	d.write("union", inputs, nil, output{"", out})
}

func sameColumns(a, b *stream) bool {
	return a.time == b.time && slices.EqualFunc(a.columns, b.columns, func(x, y column) bool { return x.name == y.name && x.kind == y.kind })
}

// writers writes each stream that nobody reads, and some others.
func (d *drawer) writers() {
	for _, s := range d.streams {
		if d.read[s] && !d.chance(5, "written too") || strings.HasPrefix(s.name, "e") && d.chance(4, "not read") {
			continue
		}
		d.name = "w" + s.name
		d.orders[d.name] = s.order
		d.write("writer", []*stream{s}, []param{{"path", d.name + ".csv"}})
	}
}
