package expr

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of an expression.
type Error struct {
	Offset     int    // byte offset in the text at which the faulty part starts
	Message    string // what is wrong
	Suggestion string // the known name that was probably meant; may be empty
}

func (e Error) String() string {
	if e.Suggestion == "" {
		return e.Message
	}
	return fmt.Sprintf("%s; did you mean %q?", e.Message, e.Suggestion)
}

// Errors are all faults of one expression, sorted by offset. As an error its text has a line for each.
type Errors []Error

func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = fmt.Sprintf("%d: %s", e.Offset, e)
	}
	return strings.Join(lines, "\n")
}

// sort orders by offset and drops repetitions.
func (es *Errors) sort() {
	slices.SortStableFunc(*es, func(a, b Error) int { return a.Offset - b.Offset })
	*es = slices.Compact(*es)
}

func (es *Errors) add(offset int, format string, args ...any) {
	*es = append(*es, Error{Offset: offset, Message: fmt.Sprintf(format, args...)})
}

// ParamError is one fault in a parameter of an aggregate operator.
type ParamError struct {
	Param string // "group-by", "select" or "having"
	Error
}

// ParamErrors are all faults of an aggregate's parameters, in the order group-by, select, having.
type ParamErrors []ParamError

func (es *ParamErrors) add(param string, errs Errors) {
	errs.sort()
	for _, e := range errs {
		*es = append(*es, ParamError{param, e})
	}
}

// quoteLimit is how many bytes of an expression a message shows.
const quoteLimit = 60

// quote shows part of an expression in a message: in double quotes, on one line, not too long.
func quote(text string, s span) string {
	if s.end > len(text) { // a constant is computed before its text is known
		return ""
	}
	part := strings.Join(strings.Fields(text[s.start:s.end]), " ")
	if len(part) > quoteLimit {
		cut := quoteLimit
		for cut > 0 && part[cut]&0xc0 == 0x80 {
			cut--
		}
		part = part[:cut] + "..."
	}
	return `"` + part + `"`
}
