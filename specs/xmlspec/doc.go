/*
Package xmlspec reads the XML form of a dataflow.

	<dataflow name="late-flights">
	  <type name="Flight">
	    <column name="date"   type="timestamp" eventtime="true"/>
	    <column name="delay"  type="int"/>
	    <column name="origin" type="string" nullable="false"/>
	  </type>

	  <operator name="source" type="reader">
	    <output name="flights" type="Flight"/>
	    <output name="bad" port="errors"/>
	    <param name="path" value="${DATA:-.}/flights.csv"/>
	    <param name="on-error" value="dead-letter"/>
	  </operator>

	  <operator name="late" type="filter">
	    <input name="flights"/>
	    <param name="condition">flights.delay &gt; 60</param>
	    <output name="lateFlights"/>
	  </operator>

	  <operator name="sink" type="writer">
	    <input name="lateFlights"/>
	    <param name="path" value="-"/>
	  </operator>

	  <operator name="badRows" type="writer">
	    <input name="bad"/>
	    <param name="path" value="bad.csv"/>
	  </operator>

	  <rewrite rule="partition" operator="late"><param name="k" value="2"/></rewrite>
	  <rules href="my.rules"/>
	</dataflow>

# Elements

	element    attributes (* must be there)        inside it
	dataflow   name                                type, operator, rewrite, rules
	type       name*                               column
	column     name* type* nullable eventtime
	operator   name* type*                         input, output, param, resources
	input      name*
	output     name* type port
	param      name* value                         text
	resources  cpus mem disk gpus ports attributes
	rewrite    rule* operator*                     param
	rules      href*

Elements inside another one may stand in any order; the order counts among columns, inputs, outputs and
rewrites. Text belongs in <param> alone. Comments and processing instructions may stand anywhere.

<dataflow>: the name of the query; left out, it is the file's name without its ending.

<type> declares a stream type. A column's type is one of bool, int, float, decimal(p,s), string, bytes,
timestamp and duration; plain decimal is decimal(38,9). nullable and eventtime are true or false; a column is
nullable unless it says otherwise, and at most one column of a type, a timestamp, is its event time.

<operator> is a node. Each <input> names a stream, which is some operator's <output>. An output's type may be
left out where it follows from the operator, and is checked where it is given. Its port says which of the
operator's outputs the stream is: without one it is the main output, or, if the stream is named like a port
("errors", say) and is not the operator's only output, that port.

<resources>, of which an operator has at most one, says what the operator needs of the machine that runs it:

	<resources cpus="0.5" mem="512MB" disk="1GB" gpus="1" ports="1" attributes="rack=r1, disk=ssd"/>

At least one attribute must be there. Sizes are whole or decimal numbers with a unit, B, KB, MB, GB or TB, each 1024
times the one before. cpus are cores, also parts of one, in thousandths. attributes are values that attributes of the
machine must have, each attribute once. An operator needs at most 100000 cpus, 1024TB, 1000 gpus, 1000 ports and 64
attributes.

<rewrite> and <rules> are passed on as they are.

A name is anything of 1 to 200 characters without white space at its ends.

# Values

The value of a parameter is the attribute value or the text of the element, not both. A text is all character
data of the element, CDATA sections included, without the white space at its ends; value="" is the empty
value. As XML has it, a line end or tab in an attribute counts as a space.

In a parameter's value, in href and in the attributes of <resources>, ${NAME} is the environment variable NAME; that it is not set is an error.
${NAME:-default} is the default if the variable is not set or empty; the default reaches to the next "}". A
name has letters, digits and "_", and no digit first. What a variable or a default holds is not looked at
again. "$${" stands for "${" itself; any other "$" stands for itself, so 'x$' and '$$' need no care.

# Mistakes

Parse reports all that is wrong with the document, not only the first mistake: unknown elements and attributes,
what is misplaced, missing or duplicate, wrong types and booleans, unknown variables. What is misspelled is
read as the name that is suggested, so that one letter causes one error. What takes knowledge of operators is
left to dataflow.Resolve, which may be called even then.

A diagnostic about an element stands at its "<", one about an attribute at its name or value, and one inside a
value at the very character, whatever escapes and variables come before it; the value of a variable
stands where the variable does. Lines and columns count from 1, columns in characters; a line ends with
"\n", "\r\n" or a lone "\r".

A document that cannot be used at all gives one diagnostic and no graph: one that is not well formed, is not
in UTF-8, has a document type or entity declaration, uses an entity that XML does not define, or exceeds a bound:

	4 MiB           size; also all values together, after variables are replaced
	32              depth of elements
	200,000         elements
	20,000          operators
	64              attributes of one element

No more than this is read of an input, and memory stays in proportion to it. After 1000 mistakes the rest is
not shown.

# Schema

Schema (the file sluice.xsd) is an XML Schema for editors. To refer to it, the root element may have the
attributes xmlns:xsi and xsi:noNamespaceSchemaLocation; an <?xml-model?> instruction works as well. It
accepts every good spec; not all mistakes can be said in it.

# What is not covered

XML namespaces, XInclude, external entities and XML 1.1.
*/
package xmlspec
