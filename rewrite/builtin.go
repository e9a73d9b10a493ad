package rewrite

import (
	"embed"
	"fmt"
	"io/fs"
	"sync"
)

//go:embed rules/*.rules
var ruleFiles embed.FS

var builtin = sync.OnceValues(func() (*RuleSet, error) {
	set := &RuleSet{}
	names, err := fs.Glob(ruleFiles, "rules/*.rules")
	if err != nil {
		return nil, fmt.Errorf("rewrite: built-in rules: %w", err)
	}
	for _, name := range names {
		text, err := ruleFiles.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("rewrite: built-in rules: %w", err)
		}
		rules, diags := ParseRules(name, text, nil)
		if diags = append(diags, set.Add(rules)...); diags.HasErrors() {
			return nil, fmt.Errorf("rewrite: built-in rules: %w", diags)
		}
	}
	return set, nil
})

// Builtin returns the rules that come with Sluice, one file each in rules/. The set is the caller's own;
// the rules are shared. A test holds that the files are right; should they not be, the set is empty.
func Builtin() *RuleSet {
	set := &RuleSet{}
	if all, err := builtin(); err == nil {
		set.Add(all)
	}
	return set
}
