package rewrite

import (
	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The grammar of a rule, as participle reads it: each field's tag is the piece of grammar that fills
// it. doc.go has the whole grammar in one place.
type (
	ruleSyntax struct {
		Pos         lexer.Position
		Name        string             `parser:"'rule' @Ident"`
		Params      []*paramSyntax     `parser:"( '(' ( @@ ( ',' @@ )* )? ')' )?"`
		On          *nameSyntax        `parser:"( 'on' @@ )?"`
		Pattern     *termSyntax        `parser:"'{' @@"`
		Constraints *constraintsSyntax `parser:"( '[' @@ ']' )?"`
		Triggers    []*triggerSyntax   `parser:"( 'when' @@ ( ',' @@ )* )?"`
		Result      *termSyntax        `parser:"'=>' @@"`
		Without     []*nameSyntax      `parser:"( 'without' @@ ( ',' @@ )* )?"`
		Where       []*bindingSyntax   `parser:"( 'where' @@ ( ',' @@ )* )? '}'"`
	}
	nameSyntax struct {
		Pos  lexer.Position
		Name string `parser:"@Ident"`
	}
	paramSyntax struct {
		Pos     lexer.Position
		Name    string       `parser:"@Ident"`
		Default *valueSyntax `parser:"( '=' @@ )?"`
	}
	bindingSyntax struct {
		Pos  lexer.Position
		Name string      `parser:"@Ident ':='"`
		Term *termSyntax `parser:"@@"`
	}
	triggerSyntax struct {
		Pos         lexer.Position
		Event       string             `parser:"@Ident"`
		Variable    *nameSyntax        `parser:"'(' @@ ')'"`
		Constraints *constraintsSyntax `parser:"( '[' @@ ']' )?"`
	}

	termSyntax struct {
		Pos      lexer.Position
		Bind     string          `parser:"( @Ident ':=' )?"`
		Stage    *stageSyntax    `parser:"( @@"`
		Head     *headSyntax     `parser:"| @@ )"`
		Range    *rangeSyntax    `parser:"( (?= '[' ( 'by' | Ident ']' | ( Ident ':=' )? ( Number | Ident ) '..' ) ) '[' @@ ']' )?"`
		Open     bool            `parser:"( @'('"`
		Args     []*termSyntax   `parser:"  ( @@ ( ',' @@ )* )? ')' )?"`
		Suffixes []*suffixSyntax `parser:"@@*"`
	}
	headSyntax struct {
		Name   string `parser:"@Ident"`
		Primes string `parser:"@Prime?"`
		Star   bool   `parser:"@'*'?"`
	}
	stageSyntax struct {
		Operator *nameSyntax  `parser:"'stage' '(' @@ ','"`
		From     *valueSyntax `parser:"@@"`
		Range    bool         `parser:"( @'..'"`
		To       *valueSyntax `parser:"  @@? )? ')'"`
	}
	rangeSyntax struct {
		Pos   lexer.Position
		By    *valueSyntax `parser:"  'by' @@"`
		Each  string       `parser:"| (?= Ident ']' ) @Ident"`
		Index string       `parser:"| ( @Ident ':=' )?"`
		From  *valueSyntax `parser:"  @@ '..'"`
		To    *valueSyntax `parser:"  @@"`
	}
	suffixSyntax struct {
		Pos     lexer.Position
		Params  *settingsSyntax `parser:"  @@"`
		Label   *nameSyntax     `parser:"| '@' '{' @@ '}'"`
		Standby bool            `parser:"| @'standby'"`
	}
	settingsSyntax struct {
		List []*settingSyntax `parser:"'{' ( @@ ( ',' @@ )* )? '}'"`
	}
	settingSyntax struct {
		Pos   lexer.Position
		Name  string       `parser:"@Ident '='"`
		Value *valueSyntax `parser:"@@"`
	}

	valueSyntax struct {
		Pos    lexer.Position
		Text   string      `parser:"  @String"`
		Number string      `parser:"| @Number"`
		Call   *callSyntax `parser:"| @@"`
	}
	callSyntax struct {
		Name string         `parser:"@Ident"`
		Open bool           `parser:"( @'('"`
		Args []*valueSyntax `parser:"  ( @@ ( ',' @@ )* )? ')' )?"`
	}

	constraintsSyntax struct {
		List []*orSyntax `parser:"@@ ( ',' @@ )*"`
	}
	orSyntax struct {
		Terms []*andSyntax `parser:"@@ ( 'or' @@ )*"`
	}
	andSyntax struct {
		Terms []*unarySyntax `parser:"@@ ( 'and' @@ )*"`
	}
	unarySyntax struct {
		Pos   lexer.Position
		Not   *unarySyntax       `parser:"  'not' @@"`
		Group *constraintsSyntax `parser:"| '(' @@ ')'"`
		Test  *testSyntax        `parser:"| @@"`
	}
	testSyntax struct {
		Call  *callSyntax    `parser:"@@"`
		Op    string         `parser:"( ( @( '!=' | '<=' | '>=' | '=' | '<' | '>' )"`
		Value *valueSyntax   `parser:"    @@ )"`
		In    []*valueSyntax `parser:"| 'in' '(' @@ ( ',' @@ )* ')' )?"`
	}
)

var ruleLexer = lexer.MustSimple([]lexer.SimpleRule{
	{Name: "Comment", Pattern: `(#|//)[^\n]*`},
	{Name: "Space", Pattern: `\s+`},
	{Name: "Ident", Pattern: `[\pL_][\pL\pN_]*(-[\pL\pN_]+)*`},
	{Name: "Prime", Pattern: `'+`},
	{Name: "Number", Pattern: `-?[0-9]+(\.[0-9]+)?([a-z]+([0-9]+[a-z]+)*)?`},
	{Name: "String", Pattern: `"(\\.|[^"\\\n])*"`},
	{Name: "Operator", Pattern: `=>|:=|!=|<=|>=|\.\.|[=<>]`},
	{Name: "Punct", Pattern: `[(){}\[\],@*]`},
})

var ruleParser = participle.MustBuild[ruleSyntax](participle.Lexer(ruleLexer), participle.UseLookahead(2))

// reserved are the words that are no names of variables.
var reserved = []string{"any", "stage", "standby", "on", "when", "where", "without", "not", "and", "or", "in", "by", "true", "false", "rule"}
