// Package expr is the expression language: its parser, its types, and the kernels that compute it over
// batches. This page is the manual of the language.
//
//	p, errs := expr.CompilePredicate("delay > 60 AND origin LIKE 'S%'", expr.NewScope("flights", schema))
//	rows := p.Select(ctx, batch, nil, rows)
//	plan, errs := expr.CompileSelect("origin, delay / 60.0 AS hours", scope)
//	plan, errs := expr.CompileAggregate("origin", "origin, count(*) AS n", "n > 5", scope, false)
//
// # Names and literals
//
// A column is written name or stream.name, and "name" with quotes if it is a keyword or has other characters
// than letters, digits and _; a quote in it is doubled. Names are case-sensitive; keywords and functions
// are not. Only these words are reserved: AND OR NOT IS NULL TRUE FALSE IN BETWEEN LIKE CASE WHEN THEN ELSE
// AS DISTINCT. A column may be named like a function.
//
//	12                       int; one that does not fit 64 bits is a decimal
//	1.5  .5                  decimal(2,1), decimal(1,1): all digits that are written, without zeros in front
//	1e3  1.5e-7              float
//	'it''s'                  string
//	TRUE  FALSE  NULL
//	250ms 10s 5m 1h 2d       duration; also several parts, 1h30m, and fractions, 1.5h
//	INTERVAL '5' MINUTE      duration; MICROSECOND to WEEK, singular or plural. Months and years have no length
//	INTERVAL '-1h30m'        duration
//	TIMESTAMP '2001-01-01 06:55:00'   in any form that files may have, see package value
//
// # Operators
//
// From what binds most to what binds least:
//
//	+x -x
//	* / %
//	+ -
//	||
//	[NOT] IN (...)   [NOT] BETWEEN a AND b   [NOT] LIKE pattern [ESCAPE 'c']
//	= <> != < <= > >=
//	IS [NOT] NULL   IS [NOT] TRUE   IS [NOT] FALSE   IS [NOT] DISTINCT FROM y
//	NOT
//	AND
//	OR
//
// Operators of one line group to the left; comparisons, and IN, BETWEEN and LIKE, do not chain.
//
// # NULL and row errors
//
// An operation is NULL where one of its operands is, but for AND, OR, IS, IN, CASE and the functions that say
// so. AND is FALSE if one side is, and OR TRUE; else they are NULL if one side is.
//
// Overflow, division by zero (of floats too), a cast that fails and an argument outside of a function's domain
// are row errors: the row has no value, and its message quotes the part of the text: integer overflow
// in "a + b". The row is NULL then in the result of Eval, and not in that of Select, whatever the part stands
// in. A row has the error that is met first; parts are computed from left to right, each over all rows of a
// batch.
//
// These compute a part only for the rows that need it, so that b <> 0 AND a / b > 2 never fails:
//
//	x AND y      y where x is not FALSE; x OR y: y where x is not TRUE
//	CASE         a condition where none before it was TRUE, a result where its condition is TRUE
//	coalesce     an argument where all before it are NULL
//	x IN (a, b)  an element, if not all of them are constants, where x is not NULL and equal to none before it
//
// A condition (the text of CompilePredicate; HAVING, FILTER and WHEN) is only asked where it is TRUE. There, y
// of x AND y is not computed where x is NULL either, and in NOT (x OR y) likewise.
//
// Parts that are constant are computed once. One that fails is a row error where it is reached.
//
// # Types
//
// Arithmetic takes int, float and decimal. An int beside a decimal counts as decimal(19,0); any number
// beside a float becomes a float. There is no other conversion without CAST, except that a text literal beside
// a timestamp or a duration in a comparison, IN or BETWEEN is read as one, and that a bare NULL has any type.
//
//	int op int                    int; / truncates toward zero, % has the sign of the dividend
//	float op float                float; a result that is infinite or no number is a row error, unless
//	                              an operand was so
//	decimal(p1,s1) + - (p2,s2)    decimal(max(p1-s1, p2-s2) + s + 1, s) with s = max(s1, s2)
//	*                             decimal(p1 + p2, s1 + s2); s1 + s2 above 38 is refused
//	/                             decimal(p1 - s1 + s2 + s, s) with s = max(s1, s2, 6); rounded, halves
//	                              away from zero
//	%                             decimal(max(p1-s1, p2-s2) + s, s) with s = max(s1, s2)
//	timestamp - timestamp         duration
//	timestamp + - duration        timestamp, also duration + timestamp
//	duration + - % duration       duration
//	duration / duration           float
//	duration * int, int * duration, duration / int    duration; / truncates toward zero
//	-int -float -decimal -duration
//	string || string, bytes || bytes    also string || any other type but bytes, and the reverse: it is cast to string
//
// A decimal type of more than 38 digits has 38, and loses digits before the point: a value that does not fit
// 38 digits is a row error.
//
// Comparable are two values of one kind, and numbers with each other: an int with a decimal exactly, and any
// number with a float as floats. FALSE is less than TRUE. Text is compared byte by byte. Floats are
// totally ordered: not-a-number, which only comes from files, is equal to itself and above all other
// numbers; 0 and -0 are equal.
//
// The results of CASE, the arguments of coalesce, greatest and least, and x with the elements of IN have
// one type: the same kind, or of numbers float if one is, else the decimal that has the most digits
// before and the most behind the point (38 at most).
//
// LIKE has % for any text and _ for one character. There is no escape character unless ESCAPE names one.
//
// CASE x WHEN a THEN ... compares x = a. Without ELSE it is NULL where no WHEN holds.
//
// # Casts
//
//	bool, int, float, decimal, bytes, timestamp, duration to string and back: the forms of package value
//	int to float, decimal; bool to int: 1 and 0; int to bool: FALSE for 0
//	float, decimal to int, and to a decimal of fewer digits: rounded, halves away from zero
//	decimal to float
//
// A value that the type does not have is a row error. Between numbers and times there is no cast: d / 1s is a
// duration in seconds, n * 1s the reverse, and extract(epoch FROM t) the time in seconds.
//
// # Functions
//
// Functions is the list of them, with signatures. Unless it says otherwise, a function is NULL where one of
// its arguments is. An argument may be an int where a float or decimal is wanted, and a decimal
// where a float is.
//
//	abs(x)                    of int, float, decimal, duration: the same type
//	sign(x)                   int: -1, 0 or 1
//	round(x[, n])             int and float: the same type; decimal(p,s): decimal(p-s+1+max(n,0), max(n,0)), or
//	                          x as it is if n >= s. Halves go away from zero; n < 0 rounds to tens. n must be
//	                          constant for decimals. A float is multiplied by 10^n, rounded and divided
//	floor(x) ceil(x)          int and float: the same type; decimal(p,s): decimal(p-s+1, 0)
//	power(x, y)               float, as the following ones
//	sqrt(x) ln(x) log10(x) exp(x)
//	greatest(x, ...) least(x, ...)   of the arguments that are not NULL; NULL if all are
//	coalesce(x, ...)          the first argument that is not NULL
//	nullif(x, y)              CASE WHEN x = y THEN NULL ELSE x END
//	lower(s) upper(s)         character by character (upper('ß') is 'ß')
//	length(s)                 characters; of bytes: bytes
//	substring(s, from[, n])   also substring(s FROM from FOR n); s may be bytes. Counted from 1; the part of
//	                          [from, from+n) that s has. n < 0 is a row error
//	trim(s[, chars])          both ends, of any of the characters, spaces if left out; ltrim, rtrim: one end.
//	                          Also trim([LEADING | TRAILING | BOTH] [chars] FROM s)
//	replace(s, from, to)      all occurrences from the left; s if from is empty
//	position(part, s)         also position(part IN s). In characters from 1; 0 if it is not there; 1 if empty
//	starts_with(s, part) ends_with(s, part)
//	regexp_like(s, pattern)   whether the pattern (RE2) matches a part of s
//	split_part(s, sep, n)     n from 1, or from -1 at the end; '' if there is none; n = 0 is a row error. If sep is
//	                          empty, s is one part
//	concat(x, ...)            of any types, cast to string; NULL counts as '', the result is never NULL
//	date_trunc('unit', t)     microsecond ... day, week (from Monday), month, quarter, year; in UTC
//	extract(unit FROM t)      int: year quarter month week day doy dow hour minute second, and millisecond and
//	                          microsecond since the start of the minute; decimal(19,6): epoch. dow is 0 on
//	                          Sunday; week is that of ISO 8601. Of a duration: day hour minute second millisecond
//	                          microsecond epoch, where hour is what is left over the days, and so on, all with
//	                          its sign
//	year(t) month(t) day(t) hour(t) minute(t) second(t)    extract
//	now()                     the clock of the epoch
//	hash(x, ...)              int; never NULL
//
// hash is the 64-bit XXH3 of the arguments one after the other, each as a byte and a value, numbers with the
// least byte first: 0 for NULL; 1 bool: a byte; 2 int, 7 timestamp, 8 duration: 8 bytes; 3 float: 8 bytes, with
// one zero and one not-a-number; 4 decimal: a byte for the scale and 16 bytes, without zeros at the end; 5
// string, 6 bytes: 4 bytes for the length, and the text.
//
// # Aggregates
//
// count(*), count(x), sum, avg, min, max, stddev_samp, var_samp, first and last, of the rows in which x is not
// NULL; each with FILTER (WHERE condition) behind it; count, sum, avg, min and max with DISTINCT before x.
// Of no rows, count is 0 and the others are NULL. They stand in the select list and HAVING of an aggregation
// only, and not inside each other. Their types: count int; sum that of x, but decimal(38,s) of decimal(p,s);
// avg float, but decimal(38, max(s, 6)) of decimals and duration of durations; stddev_samp and var_samp float;
// the others that of x. CompileAggregate has the rest.
//
// # Bounds
//
// A text has at most 64 KiB and 4000 parts, nested at most 200 deep. A computed vector has at most 1 GiB of
// text; a row that would exceed that is a row error.
//
// # How it works
//
// A text is cut into tokens (token.go), parsed (parse.go, operand.go, call.go) into nodes (syntax.go), and
// checked (check.go, checkparts.go, functions.go) into typed operations whose constant parts are folded
// (typed.go). A program builds from them (build.go) a tree of evaluators, which give vectors, or of selectors,
// which narrow a list of rows. Kernels are loops over raw slices, one form for all rows and one for listed ones;
// conditions are loops without branches; faults are noticed by a flag for the batch, and only then
// looked for row by row.
package expr
