package window

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// Kind is a kind of window.
type Kind uint8

// The kinds of windows.
const (
	None     Kind = iota // the whole stream
	Tumbling             // tumbling(10s)
	Hopping              // hopping(10s, 2s)
	Session              // session(5m)
	Rows                 // rows(100) and rows(100, 10)
)

var kindNames = [...]string{"", "tumbling", "hopping", "session", "rows"}

// Spec is a window as it is written.
type Spec struct {
	Kind Kind
	// Size is the length of a window in microseconds or, for Rows, in rows; for Session, the gap.
	Size int64
	// Hop is the distance between the starts of two windows, in the same unit; Size if windows do not
	// overlap. It is 0 for None and Session.
	Hop int64
}

// Timed reports whether the windows are intervals of event time.
func (s Spec) Timed() bool { return s.Kind == Tumbling || s.Kind == Hopping || s.Kind == Session }

// noWatermark is what rows carry that are emitted at the end of the stream and belong to no time:
// nothing finds them late.
const noWatermark = batch.MinWatermark

// lastWatermark comes after all times.
const lastWatermark = batch.MaxWatermark

// ParseError is what is wrong with the text of a window.
type ParseError struct {
	Offset     int // byte offset in the text
	Message    string
	Suggestion string // the known name that was probably meant; may be empty
}

func (e *ParseError) Error() string {
	if e.Suggestion == "" {
		return e.Message
	}
	return fmt.Sprintf("%s; did you mean %q?", e.Message, e.Suggestion)
}

const forms = "tumbling(10s), hopping(10s, 2s), session(5m), rows(100) or rows(100, 10)"

// Parse reads a window: tumbling(SIZE), hopping(SIZE, HOP), session(GAP), rows(N) or rows(N, HOP),
// where SIZE, HOP and GAP are durations such as 250ms, 10s or 1h30m. An empty text is no window. Names
// may be in any case. The error is a *ParseError.
func Parse(text string) (Spec, error) {
	p := parser{text: text}
	s, err := p.spec()
	if err != nil {
		return Spec{}, err
	}
	return s, nil
}

// parser reads the text of a window from left to right.
type parser struct {
	text string
	at   int
}

// argument is one argument of a window.
type argument struct {
	text   string
	offset int
}

func (p *parser) fail(offset int, format string, args ...any) *ParseError {
	return &ParseError{Offset: offset, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// until takes everything up to one of the characters, without white space at its ends.
func (p *parser) until(chars string) argument {
	p.space()
	start := p.at
	for p.at < len(p.text) && strings.IndexByte(chars, p.text[p.at]) < 0 {
		p.at++
	}
	return argument{strings.TrimRight(p.text[start:p.at], " \t\r\n"), start}
}

func (p *parser) spec() (Spec, *ParseError) {
	name := p.until("(,)")
	if name.text == "" && p.at == len(p.text) {
		return Spec{}, nil
	}
	kind := None
	for k, n := range kindNames {
		if n != "" && strings.EqualFold(n, name.text) {
			kind = Kind(k)
		}
	}
	if kind == None {
		e := p.fail(name.offset, "unknown window %s; a window is %s", quote(name.text), forms)
		if e.Suggestion = dataflow.Nearest(strings.ToLower(name.text), kindNames[1:]); e.Suggestion != "" {
			e.Message = "unknown window " + quote(name.text)
		}
		return Spec{}, e
	}
	args, err := p.arguments(kind)
	if err != nil {
		return Spec{}, err
	}
	return p.build(kind, name.offset, args)
}

// arguments reads "(a, b)" up to the end of the text.
func (p *parser) arguments(kind Kind) ([]argument, *ParseError) {
	if p.at == len(p.text) || p.text[p.at] != '(' {
		return nil, p.fail(p.at, "window %s needs its arguments in parentheses, as in %s", kindNames[kind], example(kind))
	}
	p.at++
	var args []argument
	for {
		args = append(args, p.until("(,)"))
		if p.at == len(p.text) {
			return nil, p.fail(p.at, "window lacks its closing parenthesis")
		}
		c := p.text[p.at]
		if c == '(' {
			return nil, p.fail(p.at, `unexpected "(" in window`)
		}
		p.at++
		if c == ')' {
			break
		}
	}
	if p.space(); p.at < len(p.text) {
		return nil, p.fail(p.at, "unexpected %s after the window", quote(p.text[p.at:]))
	}
	return args, nil
}

func (p *parser) build(kind Kind, offset int, args []argument) (Spec, *ParseError) {
	least, most := 1, 1
	switch kind {
	case Hopping:
		least, most = 2, 2
	case Rows:
		most = 2
	}
	if len(args) < least || len(args) > most {
		return Spec{}, p.fail(offset, "window %s does not take %d argument%s; write %s", kindNames[kind], len(args), plural(len(args)), example(kind))
	}
	s := Spec{Kind: kind}
	values := make([]int64, len(args))
	for i, a := range args {
		v, err := p.value(kind, a)
		if err != nil {
			return Spec{}, err
		}
		values[i] = v
	}
	s.Size = values[0]
	if kind != Session {
		s.Hop = values[len(values)-1]
	}
	if s.Hop > s.Size {
		return Spec{}, p.fail(args[1].offset, "the hop %s is longer than the window %s: rows between two windows would be lost; filter them out before, if that is meant", args[1].text, args[0].text)
	}
	return s, nil
}

// value reads a size or a hop.
func (p *parser) value(kind Kind, a argument) (int64, *ParseError) {
	if a.text == "" {
		return 0, p.fail(a.offset, "window %s lacks an argument; write %s", kindNames[kind], example(kind))
	}
	if kind == Rows {
		n, err := strconv.ParseInt(a.text, 10, 32)
		if err != nil || n < 1 {
			return 0, p.fail(a.offset, "%s is not a number of rows; it must be an integer from 1 to 2147483647", quote(a.text))
		}
		return n, nil
	}
	d, err := dataflow.ParseDuration(a.text)
	switch {
	case err != nil:
		return 0, p.fail(a.offset, "%s", err)
	case d <= 0:
		return 0, p.fail(a.offset, "%s is not longer than 0", quote(a.text))
	case d > maxDuration:
		return 0, p.fail(a.offset, "duration %s is too long", quote(a.text))
	}
	return d, nil
}

// maxDuration is the longest duration of a window: about 146,000 years, which leaves room for
// reckoning with it.
const maxDuration = 1 << 62

func example(kind Kind) string {
	return [...]string{"", "tumbling(10s)", "hopping(10s, 2s)", "session(5m)", "rows(100) or rows(100, 10)"}[kind]
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// quote shows a part of the text in a message, not too much of it.
func quote(text string) string {
	const limit = 40
	if len(text) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return strconv.Quote(text)
}
