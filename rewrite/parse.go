package rewrite

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"sluice/dataflow"
)

// What ParseRules and Apply accept at most.
const (
	MaxFile     = 1 << 20 // bytes in a file of rules
	MaxRules    = 1000    // rules in a file
	MaxDepth    = 2500    // brackets inside brackets
	MaxTokens   = 50_000  // words and signs in a rule
	MaxReplicas = 1024    // replicas of one operator
)

// ParseRules reads the rules of one file. Each rule that is wrong is reported, by its first mistake if
// it is one of grammar, else by all of them; the set holds the others. Types of nodes are looked up in
// cat; with a nil catalog they are taken as they are until Check.
func ParseRules(file string, text []byte, cat dataflow.Catalog) (*RuleSet, dataflow.Diagnostics) {
	p := &fileParser{file: file}
	if len(text) > MaxFile {
		p.errorf(lexer.Position{}, "", "the file has %d bytes; a file of rules has at most %d", len(text), MaxFile)
		return &RuleSet{}, p.diags
	}
	if !utf8.Valid(text) {
		p.errorf(lexer.Position{}, "", "the file is not UTF-8 text")
		return &RuleSet{}, p.diags
	}
	set := &RuleSet{}
	for _, src := range p.split(string(text)) {
		syntax := p.parse(src)
		if syntax == nil {
			continue
		}
		rule, diags := compile(file, syntax, src, cat)
		p.diags = append(p.diags, diags...)
		if !diags.HasErrors() {
			p.diags = append(p.diags, set.add(rule)...)
		}
	}
	p.diags.Sort()
	return set, p.diags
}

// ruleSource is the text of one rule and its tokens.
type ruleSource struct {
	doc    string // the comment before it
	text   string
	tokens []lexer.Token
}

type fileParser struct {
	file  string
	diags dataflow.Diagnostics
}

func (p *fileParser) errorf(pos lexer.Position, suggestion, format string, args ...any) {
	p.diags = append(p.diags, dataflow.Diagnostic{Pos: place(p.file, pos), Suggestion: suggestion, Message: fmt.Sprintf(format, args...)})
}

func place(file string, pos lexer.Position) dataflow.Pos {
	return dataflow.Pos{File: file, Line: pos.Line, Col: pos.Column}
}

// split cuts a file into rules. A rule starts at the word "rule" outside all brackets, or at the start
// of a line, so that a rule that is not closed does not swallow the next one.
func (p *fileParser) split(text string) []ruleSource {
	tokens := p.tokens(text)
	symbols := ruleLexer.Symbols()
	var rules []ruleSource
	var doc docComment
	depth, start, last := 0, -1, 0
	flush := func(end int) {
		if start >= 0 {
			rules[len(rules)-1].text = text[start:end]
		}
	}
	for _, t := range tokens {
		switch {
		case t.Type == symbols["Space"]:
			continue
		case t.Type == symbols["Comment"]:
			if depth <= 0 {
				doc.add(t)
			}
			continue
		}
		if t.Value == "rule" && (depth <= 0 || t.Pos.Column == 1) {
			flush(last)
			if len(rules) == MaxRules {
				p.errorf(t.Pos, "", "a file has at most %d rules", MaxRules)
				return rules
			}
			rules = append(rules, ruleSource{doc: doc.before(t)})
			start, depth = t.Pos.Offset, 0
		}
		last = t.Pos.Offset + len(t.Value)
		if len(rules) == 0 {
			p.errorf(t.Pos, suggest(t.Value, []string{"rule"}), "unexpected %q: a file of rules holds rules, as in: rule name { pattern => result }", t.Value)
			return nil
		}
		depth += nesting(t.Value)
		rules[len(rules)-1].tokens = append(rules[len(rules)-1].tokens, t)
		if depth == 0 {
			doc = docComment{}
		}
	}
	flush(last)
	return rules
}

func nesting(token string) int {
	switch token {
	case "(", "[", "{":
		return 1
	case ")", "]", "}":
		return -1
	}
	return 0
}

// docComment gathers the comment lines directly above a rule.
type docComment struct {
	lines []string
	line  int // of the last one
}

func (d *docComment) add(t lexer.Token) {
	if t.Pos.Line != d.line+1 {
		d.lines = nil
	}
	text := strings.TrimLeft(strings.TrimRight(t.Value, "\r "), "#/")
	d.lines = append(d.lines, strings.TrimPrefix(text, " "))
	d.line = t.Pos.Line
}

func (d *docComment) before(t lexer.Token) string {
	if d.line+1 != t.Pos.Line {
		return ""
	}
	return strings.TrimSpace(strings.Join(d.lines, "\n"))
}

// tokens are those up to the first character that is none.
func (p *fileParser) tokens(text string) []lexer.Token {
	lex, err := ruleLexer.LexString("", text)
	if err != nil {
		p.errorf(lexer.Position{}, "", "%v", err)
		return nil
	}
	var tokens []lexer.Token
	for {
		t, err := lex.Next()
		if err != nil {
			var at *lexer.Error
			if errors.As(err, &at) {
				r, _ := utf8.DecodeRuneInString(text[min(at.Pos.Offset, len(text)):])
				message := fmt.Sprintf("unexpected character %q", r)
				if r == '"' {
					message = "this text has no closing quote on its line"
				}
				p.errorf(at.Pos, "", "%s", message)
			}
			return tokens
		}
		if t.EOF() {
			return tokens
		}
		tokens = append(tokens, t)
	}
}

// parse reads one rule, or reports why it is none.
func (p *fileParser) parse(src ruleSource) *ruleSyntax {
	if len(src.tokens) > MaxTokens {
		p.errorf(src.tokens[0].Pos, "", "the rule is too long: it has more than %d words and signs", MaxTokens)
		return nil
	}
	depth := 0
	for _, t := range src.tokens {
		if depth += nesting(t.Value); depth > MaxDepth {
			p.errorf(t.Pos, "", "brackets are nested more than %d deep", MaxDepth)
			return nil
		}
	}
	before := len(p.diags)
	peek, err := lexer.Upgrade(&tokenList{tokens: src.tokens})
	if err != nil {
		p.errorf(src.tokens[0].Pos, "", "%v", err)
		return nil
	}
	syntax, err := ruleParser.ParseFromLexer(peek)
	if err == nil {
		return syntax
	}
	if before > 0 && len(p.diags) > 0 && p.diags[len(p.diags)-1].Pos.Line >= src.tokens[len(src.tokens)-1].Pos.Line {
		return nil // the rule ends where a character could not be read, which has been reported
	}
	p.syntaxError(err)
	return nil
}

func (p *fileParser) syntaxError(err error) {
	var unexpected *participle.UnexpectedTokenError
	if errors.As(err, &unexpected) {
		what := fmt.Sprintf("unexpected %q", unexpected.Unexpected.Value)
		if unexpected.Unexpected.EOF() {
			what = "the rule ends too early"
		}
		_, expected, ok := strings.Cut(unexpected.Message(), " (expected ")
		if ok {
			what += "; expected " + expectation(strings.TrimSuffix(expected, ")"))
		}
		p.errorf(unexpected.Position(), "", "%s", what)
		return
	}
	var at participle.Error
	if errors.As(err, &at) {
		p.errorf(at.Position(), "", "%s", at.Message())
		return
	}
	p.errorf(lexer.Position{}, "", "%v", err)
}

// tokenList is a lexer over tokens that have been read already.
type tokenList struct {
	tokens []lexer.Token
	next   int
}

// Next implements lexer.Lexer.
func (l *tokenList) Next() (lexer.Token, error) {
	if l.next < len(l.tokens) {
		l.next++
		return l.tokens[l.next-1], nil
	}
	end := l.tokens[len(l.tokens)-1]
	end.Pos.Advance(end.Value)
	return lexer.EOFToken(end.Pos), nil
}
