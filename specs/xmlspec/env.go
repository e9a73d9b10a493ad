package xmlspec

import (
	"fmt"
	"strings"
)

// expander replaces environment variables in values.
type expander struct {
	lookup func(string) (string, bool)
	room   int  // bytes that values may still grow to, altogether
	full   bool // there was too little room, which has been reported
}

// expand replaces ${NAME} and ${NAME:-default} in t. Faults are told to report with the offset in the
// source; what is wrong is left out of the result.
func (e *expander) expand(t text, report func(source int, message string)) text {
	if !strings.Contains(t.value, "${") {
		return t
	}
	var out text
	var b strings.Builder
	add := func(part text) {
		e.room -= len(part.value)
		if e.room < 0 {
			return
		}
		for _, s := range part.spans {
			s.offset += b.Len()
			out.spans = append(out.spans, s)
		}
		b.WriteString(part.value)
	}
	at := 0
	for {
		n := strings.Index(t.value[at:], "${")
		if n < 0 {
			break
		}
		dollar := at + n
		if dollar > at && t.value[dollar-1] == '$' { // $${ stands for ${
			add(t.slice(at, dollar))
			add(t.slice(dollar+1, dollar+2))
			at = dollar + 2
			continue
		}
		if dollar > at {
			add(t.slice(at, dollar))
		}
		source := t.sourceOffset(dollar)
		end := strings.IndexByte(t.value[dollar:], '}')
		if end < 0 {
			report(source, `"${" without a closing "}"; write "$${" for the two characters themselves`)
			at = len(t.value)
			break
		}
		at = dollar + end + 1
		value, fallback, message := e.variable(t.value[dollar+2 : at-1])
		switch {
		case message != "":
			report(source, message)
		case value != "":
			add(text{value, []textSpan{{source: source, fixed: true}}})
		case fallback != "":
			add(t.slice(at-1-len(fallback), at-1))
		}
	}
	if at < len(t.value) {
		add(t.slice(at, len(t.value)))
	}
	if e.room < 0 {
		if !e.full {
			e.full = true
			report(t.sourceOffset(0), fmt.Sprintf("values with their variables are larger than %d MiB altogether", MaxSize>>20))
		}
		return t
	}
	out.value = b.String()
	if len(out.spans) == 0 {
		out.spans = t.slice(0, 0).spans
	}
	return out
}

// variable is the value of what stands between "${" and "}", or the default that counts instead, or
// what is wrong with it.
func (e *expander) variable(inner string) (value, fallback, message string) {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !isVariable(name) {
		return "", "", fmt.Sprintf(`%q is not a variable: write "${NAME}" or "${NAME:-default}"`, "${"+shorten(inner)+"}")
	}
	value, ok := e.lookup(name)
	switch {
	case ok && value != "":
		return value, "", ""
	case hasFallback:
		return "", fallback, ""
	case !ok:
		return "", "", fmt.Sprintf(`environment variable %s is not set; "${%[1]s:-default}" gives it a default`, shorten(name))
	}
	return "", "", ""
}

func isVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
