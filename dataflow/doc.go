/*
Package dataflow is the graph of a query: operators joined by typed streams. A front end builds it from a
spec, Resolve checks and completes it against a catalog of operators, and everything behind that
(rewriting, placement, execution) starts from the result.

	g, diags := xmlspec.Parse("flights.xml", file, os.LookupEnv)
	if g != nil {
		diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
		diags.Sort()
	}
	if diags.HasErrors() {
		return diags
	}
	fmt.Print(g.Term(dataflow.TermOptions{}))

prints

	sink := writer(late := filter(source := reader))

# Graph

An operator has a name, a type, parameters, inputs in declared order and outputs. Each output is a stream:
it has a name, one producer, any number of consumers, and after Resolve a Schema. An operator has at most one
main output; further ones are its ports (Descriptor.Ports), such as "errors". Names are unique within their
kind: operators, streams, declared types, parameters of one operator. An operator and a stream may have the
same name. The graph has no cycles.

The package does no input or output, and it knows no operator: a Catalog finds the Descriptor of a type,
which tells its parameters, its numbers of inputs and outputs, its properties, and has a Check that finds the
output schemas and whatever else may be wrong.

# Resolve

Resolve reports all that is wrong at once, each mistake once:

  - Names: unknown operator types, parameters, streams, types and ports, with the nearest known name if it is
    within half the length (Nearest); duplicates; two producers of one stream, with both places.
  - Numbers of inputs and outputs, required parameters, and each parameter's value by its ParamType.
  - Cycles: the whole cycle, once, at its first operator.
  - Schemas: in topological order each operator's Check is called with the schemas of its inputs. Where an
    output's type is declared, it must agree with what Check returns: the same columns in the same order with
    the same types; not nullable only where the operator gives no NULL; the same event time, if it declares
    one. A stream's schema is the one that Check returns.
  - Warnings: a stream that is not used, a graph without a sink.

An error in one operator hides none in another and causes none in another. What is unknown is checked as
the name that is suggested for it. Where that does not help, schemas are nil and columns Invalid, and
whatever follows from these is not reported.

An output that is named like a port of its operator ("errors") and says nothing about it means this port,
unless it is the operator's only output.

# Values

ParseType reads column types: bool int float decimal(p,s) string bytes timestamp duration; plain "decimal"
is decimal(38,9), "decimal(p)" is decimal(p,0). ParseDuration reads durations: 250ms 10s 5m 1h 2d, also
1h30m and 1.5s. ParseByteSize reads sizes: 512MB 1.5GB, in units of 1024.

# Term notation

Term gives one line for each operator whose outputs nobody reads:

	term     = name ":=" type [ "(" input { "," input } ")" ] [ "{" param { "," param } "}" ]
	input    = term | name | "(" term ")" "." port | name "." port | "?" stream
	param    = name "=" value

The first time that an operator is met, it is written in full, and after that by its name. A stream that
comes from another output than the main one has the port after a point:

	sink := writer(late := filter(source := reader))
	rest := writer(source.errors)
	both := writer(u := union(a := reader, (b := reader).errors))

"?x" is a stream x that nothing gives; it occurs only in graphs with errors. A name is written as it is if it
is a letter or "_" followed by letters, digits, "_", "-" and "."; others are quoted as in Go. So is a value
with other characters than these.

# Physical graphs

Rewriting (package rewrite) makes other graphs of a graph: Clone gives a copy that may be changed. What it
adds to an operator is its Origin, which tells what it stands for; Placement and Standby; and Annotations. An
input that reads another stream than the spec names keeps the name that the operator's expressions know it by
(Input.Scope). Named finds what a name of the spec means afterwards. Statement shows all this:

	late.1 := filter(late.failover.1){checkpoint = true} @{checkpoint#1:p1} standby needs 2 cpus, 512MB of mem

BuildTasks divides a graph into tasks. Operators that are connected and equally placed are fused, as long as the
tasks form no cycle and no attribute of a machine (Resources) needs two values. A task needs what its operators need
together. Tasks with labels of one group that differ are on different nodes (Task.Apart). With
TaskOptions.Network each channel between two tasks has a netwriter at its beginning and a netreader at its end.

Compare tells what changes from one physical graph to the next. A task stays if its operators have the same
names, types, parameters, resources, placement and inner wiring; parameters that may be set while it runs are then
settings. State moves to an operator from those that stand for the same operator and stage of the spec: the key
groups that it needs and has not (Origin.Groups), or, if it is not kept by key, what an operator that goes has.

# Places

Every part of a graph has its Pos in the source, and the value of a parameter has a Text, which maps each
byte of it to its place: an error inside an expression is reported where that part of the expression stands,
whatever escapes and variables come before it. Diagnostics print as

	spec.xml:12:5: operator "late": unknown column "dealy" in condition; did you mean "delay"?
*/
package dataflow
