package naive

import (
	"fmt"
	"strconv"
	"strings"
)

// The levels of binding, from the loosest: OR, AND, NOT, IS, comparisons, IN BETWEEN LIKE, ||, + -, * / %,
// signs, and all that needs no parentheses.
const (
	orLevel = iota + 1
	andLevel
	notLevel
	isLevel
	compareLevel
	inLevel
	concatLevel
	addLevel
	multiplyLevel
	signLevel
	atomLevel
)

var levels = map[string]int{
	"or": orLevel, "and": andLevel, "not": notLevel,
	"is null": isLevel, "is not null": isLevel, "is true": isLevel, "is not true": isLevel, "is false": isLevel, "is not false": isLevel,
	"is distinct from": isLevel, "is not distinct from": isLevel,
	"=": compareLevel, "<>": compareLevel, "!=": compareLevel, "<": compareLevel, "<=": compareLevel, ">": compareLevel, ">=": compareLevel,
	"in": inLevel, "not in": inLevel, "between": inLevel, "not between": inLevel, "like": inLevel, "not like": inLevel,
	"||": concatLevel, "+": addLevel, "-": addLevel, "*": multiplyLevel, "/": multiplyLevel, "%": multiplyLevel,
	"neg": signLevel,
}

func (n *Node) level() int {
	if l, ok := levels[n.Op]; ok {
		return l
	}
	if n.Op == "literal" && strings.HasPrefix(n.SQL(), "-") {
		return signLevel
	}
	return atomLevel
}

// SQL writes the expression with as few parentheses as the levels of binding allow.
func (n *Node) SQL() string {
	switch level := levels[n.Op]; {
	case n.Op == "literal":
		return n.literalSQL()
	case n.Op == "column":
		return n.Name
	case n.Op == "cast":
		return "CAST(" + n.Args[0].SQL() + " AS " + n.Type.String() + ")"
	case n.Op == "neg":
		return "- " + n.Args[0].inside(signLevel)
	case n.Op == "not":
		return "NOT " + n.Args[0].inside(notLevel)
	case level == isLevel && len(n.Args) == 1:
		return n.Args[0].inside(isLevel) + " " + strings.ToUpper(n.Op)
	case level == isLevel:
		return n.Args[0].inside(isLevel) + " " + strings.ToUpper(n.Op) + " " + n.Args[1].inside(isLevel+1)
	case level == inLevel:
		return n.inSQL()
	case level == compareLevel:
		return n.Args[0].inside(level+1) + " " + n.Op + " " + n.Args[1].inside(level+1)
	case level > 0:
		return n.Args[0].inside(level) + " " + strings.ToUpper(n.Op) + " " + n.Args[1].inside(level+1)
	case n.Op == "case" || n.Op == "case of":
		return n.caseSQL()
	}
	return n.callSQL()
}

// inside writes n where parts that bind less than level need parentheses.
func (n *Node) inside(level int) string {
	if n.level() < level {
		return "(" + n.SQL() + ")"
	}
	return n.SQL()
}

func (n *Node) inSQL() string {
	sql := n.Args[0].inside(inLevel+1) + " " + strings.ToUpper(n.Op) + " "
	switch n.Op {
	case "between", "not between":
		return sql + n.Args[1].inside(inLevel+1) + " AND " + n.Args[2].inside(inLevel+1)
	case "in", "not in":
		return sql + "(" + list(n.Args[1:]) + ")"
	}
	sql += n.Args[1].inside(inLevel + 1)
	if len(n.Args) > 2 {
		sql += " ESCAPE " + n.Args[2].SQL()
	}
	return sql
}

func list(args []*Node) string {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = a.SQL()
	}
	return strings.Join(parts, ", ")
}

func (n *Node) caseSQL() string {
	sql, args := "CASE", n.Args
	if n.Op == "case of" {
		sql += " " + args[0].SQL()
		args = args[1:]
	}
	for ; len(args) >= 2; args = args[2:] {
		sql += " WHEN " + args[0].SQL() + " THEN " + args[1].SQL()
	}
	if len(args) == 1 {
		sql += " ELSE " + args[0].SQL()
	}
	return sql + " END"
}

func (n *Node) callSQL() string {
	name := strings.TrimSuffix(n.Op, "()")
	switch name {
	case "extract":
		return "extract(" + n.Args[0].Value.Text + " FROM " + n.Args[1].SQL() + ")"
	case "position":
		return "position(" + n.Args[0].inside(concatLevel) + " IN " + n.Args[1].SQL() + ")"
	}
	return name + "(" + list(n.Args) + ")"
}

func (n *Node) literalSQL() string {
	v := n.Value
	if n.Name != "" {
		return n.Name
	}
	if v.Null {
		return "NULL"
	}
	s, _ := format(v, n.Type)
	switch n.Type.Kind {
	case Bool:
		return strings.ToUpper(s)
	case Float:
		return strconv.FormatFloat(v.Float, 'e', -1, 64)
	case Decimal:
		return plainDecimal(v.Dec, n.Type.Scale)
	case Timestamp:
		return "TIMESTAMP '" + s + "'"
	case Duration:
		return "INTERVAL '" + s + "'"
	case String:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	case Bytes:
		return fmt.Sprintf("CAST('%s' AS bytes)", s)
	}
	return s
}
