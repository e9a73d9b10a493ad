/*
Package rewrite is the language of rewrite rules and the engine that applies them. A rule turns a part of a
dataflow into another one that gives the same rows: it adds replicas, the nodes around them, and where they
are placed.

This rule runs an operator twice, on two nodes, so that nothing stops when one of them fails:

	# Runs two copies of an operator on different nodes.
	rule hot-standby {
	  a2 := any(f := any(a1 := any*)) [deterministic(f)]
	  =>
	  a2(stream-selector(f(m) @{p1}, f'(m) @{p2}))
	  where m := multicast(a1)
	}

Applied to the operator late of

	sink := writer(late := filter(source := reader))

by <rewrite rule="hot-standby" operator="late"/>, it gives

	step 1: rule hot-standby on late
	- late := filter(source)
	+ late.multicast := multicast(source)
	+ late.1 := filter(late.multicast.1) @{hot-standby#1:p1}
	+ late.2 := filter(late.multicast.2) @{hot-standby#1:p2}
	+ late.stream-selector := stream-selector(late.1, late.2)
	- sink := writer(late)
	+ sink := writer(late.stream-selector)

A rule has a pattern, which says what part of a graph it is about, constraints in brackets, which say when it
may be applied, and after the arrow the result, which says what stands there afterwards. A spec loads rules of
its own with <rules href="my.rules"/>; sluice rules --check FILE checks a file, and sluice explain SPEC --rule
NAME --operator OP tries a rule without changing the spec.

# Patterns

A pattern is a term, written from the sink to the source: writer(filter(reader)).

	any(x)        one operator of any type, with the input x
	filter(x)     one operator of this type
	any, filter   the same, whatever its inputs are
	any*          the streams that feed an operator, whatever gives them
	f := any(x)   the same as any(x), and from here on its name is f
	f             once more the operator that has this name already: two parts of a pattern read it

The arguments of an operator stand for its inputs, all of them and in order. any* alone stands for all inputs,
at least one; beside other arguments for any number: union(before := any*, f := filter(a := any*), after :=
any*) is a union that has a filter among its inputs, and if there are several, the first. An operator as an
argument stands for all inputs in a row that it gives.

The outermost any(f), if the rule is not applied to it, stands for all operators that read f, by whichever of
its outputs. So every rule of the form a2 := any(f := ...) replaces f for all who read it. A pattern whose
outermost term has a type, or more than one argument, stands for one operator, and its readers need no name:
they go on to read what the result gives.

Different names stand for different operators. If a pattern can match in several ways, the first one that
fulfils the constraints counts, in the order of inputs and of consumers in the graph.

# Applying a rule

<rewrite rule="r" operator="x"> applies rule r with its variable f standing for the operator x. A rule without
an f names another one in its head:

	rule share on r { ... }

Parameters stand in the head too, with their defaults; one without a default must be given. They are numbers,
texts in quotes, durations (10s) or true and false; a <param> of the rewrite must be of the default's kind.

	rule partition(k = 2) { ... }

After a rewrite the name of an operator means all that stand for it: operator="late" each of late.1 and late.2,
in this order, operator="late.1" that one. A rule is not applied again to what it made itself.

# Results

Every term denotes a list of streams, a bundle. For most operators these are one stream; but an operator may
have several inputs and, besides its main output, others such as errors.

	a1            what any* stood for: the streams that fed the operator
	f(x)          the operator f with its inputs replaced by x; its bundle is those of its outputs that are read
	f             the operator f as it is
	f', f''       a second and a third replica of f; f itself is then the first
	f[1..k](x)    k replicas of f, as k arguments of the term around them; k is a number or a parameter
	f[i := 1..k](x)  the same, and in x, as well as in braces, i is the number of the replica
	g[i](x)       in such an x: replica i of g
	multicast(x)  a new node of this type for each stream of x
	merge(x, y)   a new node for each pair of streams of x and y, which must be equally many
	merge[by n](x, y, ...)  a tree: nodes over up to n arguments each, and over their results, until one is left
	map[by n](merge(x, y, ...))  a tree each node of which is map(merge(...)) of up to n
	a2(x)         the consumers, which read x instead; it is the outermost term
	where m := x  x under a name. A name that is used twice is one node with two readers.

A bundle keeps track of what its streams stand for. f takes from its argument the stream that stands for its
first input for its first input, and so on, and consumers that read errors of f read what stands for it in the
result: the second stream-selector, say, for a new node is made for each output that is read.

Some types have any number of outputs and no main one: splitter, multicast, failover. Each use of such a node
is an output of its own, "1", "2" and so on in the order of the result, so f[1..k](s) connects replica i to output
i of s. The streams of other operators may have any number of readers.

Replicas of late are called late.1, late.2, ...; new nodes have the name of the operator that the rule is applied
to and their type, late.multicast, with a number if there are several. If a stream takes the place of another
one that is no longer there, it takes its name. With k = 1, f[1..k] is f itself, and new nodes that would have
nothing to do with one input and one output are left out.

The result must use all that the pattern names, for what is lost would be missing in the query. An operator that
is to go is named at the end:

	rule share on r {
	  a2 := any(u := union(f := any(r := reader), g := any(s := reader))) [same(r, s)]
	  => a2(u(f(r), g(r))) without s
	}

Operators that the pattern did not match keep their streams. If one of them reads an operator that the result
replaces, the rule is refused.

# After a term

	{name = value, ...}  parameters: of a new node, or of an operator, where they replace those that it has
	@{p1}                placement
	standby              the replica is started only when another one fails

A value is a literal, a parameter of the rule, the index of a range, or one of these functions; a parameter whose
value is empty is left out.

	key(f)          the key of f, "" if it has none: expressions over what f reads, so it is meant for a node at an
	                input of f (the key of that input, if each has another), or for a stream with the same columns
	param(f, "x")   the value of a parameter of f
	name(f) type(f) stages(f) inputs(f) outputs(f) consumers(f)   as for constraints
	groups(i, k)    the key groups of part i of k, as in "0-359"

checkpoint = true is no parameter of a type, but every operator has it: its state is snapshotted by epoch.

Nodes with different labels, @{p1} and @{p2}, are never on one node of the cluster. A label on replicas in a range
or inside it, f[1..k](s) @{p}, is one for each replica, p.1, p.2 and so on; these are spread over as many nodes as
there are, and may share one. Labels of different applications of rules have nothing to do with each other; an
operator that has been placed and is replicated, or placed again, keeps what it has, and a new node that has a
label gets it too. Operators that are connected
and equally placed make one task; those without placement, too.

# Stages

An operator may be able to say of which chain of operators it is made: a filter with AND of filters, an aggregate
of one that computes partial results, one that combines partial results, and one that makes the final ones of
them.

	stage(f, 1)(x)       the first stage, reading x
	stage(f, 2..)(x)     the chain of all stages from the second on
	stage(f, 2..3)(x)    the chain of two
	stage(f, 1)[1..k](x) replicas of a stage
	stage(f, 2)[by n](x) a tree of copies of a stage

They are called late.stage1, late.stage2 and so on. stages(f) is their number, 1 if f cannot be divided.

# Constraints

Constraints stand in brackets after the pattern, with "and", "or", "not" and brackets; a comma means "and" and binds
least. These hold or do not hold:

	stateless(f)      f keeps nothing from one row to the next
	stateful(f)       the opposite
	deterministic(f)  what f gives depends on its input rows alone
	keyed(f)          f keeps its state by key
	commutative(f)    the result does not depend on the order of rows
	associative(f)    results over parts of the rows can be merged
	splittable(f)     replicas, each with a part of the rows (all of a key together), do the same as f
	unordered(f)      no operator behind f depends on the order of rows that differ in the key of f, as first(x)
	                  and windows of rows do unless they are by the same key: replicas that each have a part of
	                  the keys give their rows in another order between keys
	fused(f, g)       g is all that reads f, and f all that g reads
	same(f, g)        equal types, parameters and outputs
	source(f)         f has no inputs
	sink(f)           f has no outputs

These have a value, to be compared with = != < <= > >= or in (...). Numbers and durations are compared as such, other
values as texts, which are only equal or not.

	type(f)           the type of f; types need no quotes: type(f) in (filter, map)
	param(f, "x")     the value of a parameter, as written or by default
	name(f) key(f)    the name of f, its key
	stages(f) inputs(f) outputs(f) consumers(f)
	                  the number of stages, of inputs, of outputs that are read, of operators that read it

and these are measured while a query runs. Where they are not known, neither they nor their opposite hold.

	rate(f)           rows a second that f reads
	backlog(f)        rows that wait for f
	utilisation(f)    the share of time that f works, 0 to 1
	cost(f)           seconds of work for a row

# Triggers

"when" after the constraints binds a rule to events, so that it is applied where one happens without being asked for,
if its constraints hold and those of the trigger:

	when bottleneck(f) [rate(f) > 10000], idle(f)

	bottleneck(f)     f cannot keep up with its input
	idle(f)           f has little to do
	failed(f)         the node of f has failed
	parallel(f)       sluice run -p N wants N replicas of f; the rule's parameter k is N

A rule with triggers can be applied by <rewrite> as well; the trigger's own constraints do not count then.

# Checks

All mistakes of a rule are reported when it is loaded, with file, line and column, and a suggestion for a misspelt
name: names that are not bound or bound twice, what the result loses, replicas of what is no operator, terms that are
defined by themselves, unknown types, functions and events, parameters that are not used.

After each application the new graph is checked like a spec, and that those who read the result find the columns that
they had; that no sink is replaced; and, once a rewrite is done for all that its name means, that copies that race, as
those in front of a stream-selector do, still have one order: one of them alone must not be divided by key. What fails is an error at the <rewrite>, which names the constraint and the reason,
or the rule and the place in it.

That a result gives the same rows as before is up to the author of the rule; so each rule's comment should say when it
would not.

# Grammar

	file       = { rule }
	rule       = "rule" name [ "(" [ param { "," param } ] ")" ] [ "on" name ] "{" body "}"
	param      = name [ "=" value ]
	body       = term [ "[" constraints "]" ] [ "when" trigger { "," trigger } ] "=>" term
	             [ "without" name { "," name } ] [ "where" binding { "," binding } ]
	binding    = name ":=" term
	trigger    = name "(" name ")" [ "[" constraints "]" ]
	term       = [ name ":=" ] head [ range ] [ "(" [ term { "," term } ] ")" ] { suffix }
	head       = name { "'" } | "any" [ "*" ] | "stage" "(" name "," value [ ".." [ value ] ] ")"
	range      = "[" [ name ":=" ] "1" ".." value "]" | "[" name "]" | "[" "by" value "]"
	suffix     = "{" [ name "=" value { "," name "=" value } ] "}" | "@" "{" name "}" | "standby"
	value      = text | number | duration | "true" | "false" | name | name "(" [ value { "," value } ] ")"
	constraints = or { "," or }
	or         = and { "or" and }
	and        = not { "and" not }
	not        = "not" not | "(" constraints ")" | test
	test       = name "(" [ value { "," value } ] ")" [ compare value | "in" "(" value { "," value } ")" ]
	compare    = "=" | "!=" | "<" | "<=" | ">" | ">="

A name is a letter or "_", then letters, digits and "_", with single "-" between them. A text is in double quotes with
the escapes of Go. "#" and "//" start a comment; the comment lines directly above a rule are its documentation.

A file has at most MaxFile bytes and MaxRules rules, a rule at most MaxTokens words and signs with brackets up to
MaxDepth deep, an operator at most MaxReplicas replicas.

# The engine

	rules := rewrite.Builtin()
	mine, diags := rewrite.ParseRules("my.rules", text, catalog)
	diags = append(diags, rules.Add(mine)...)
	engine := &rewrite.Engine{Catalog: catalog}
	result, more := engine.Run(graph, rules) // applies graph.Rewrites
	for _, step := range result.Steps {
		fmt.Printf("%s on %s\n%s", step.Rule.Name, step.Target, step.Diff)
	}

Run applies the rewrites of a spec, Apply one rule to one operator, Parallel all rules with the event parallel;
Triggered and Applies tell whether a rule would apply. Graphs are values: each step makes a new one, resolved, and
leaves the old one as it was. Operators that a rule makes have a dataflow.Origin, which says what they stand for; with
it dataflow.Compare finds the state that moves between two graphs. Two hooks, Matched and Applied, see each
application before and after its result is built.

Matching starts at the target and follows the pattern from there, so its time does not depend on the size of the graph;
Apply copies and resolves the graph, in time proportional to its size. All orders are those of the graph and of the
rule: the same rules on the same graph give the same result, names included.

# Not covered

Rules have no arithmetic, and no pattern matches a chain of any length. A rule does not see rows.
*/
package rewrite
