package main

import (
	"os"
	"strings"

	"sluice/specs/xmlspec"
)

// lookup finds a variable that a spec names, as os.LookupEnv does.
type lookup = func(name string) (value string, ok bool)

// only finds these variables and no others.
func only(env map[string]string) lookup {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// variables gives the lookup of the options, and a map that has what it has found.
func (o *planOptions) variables() (env lookup, used map[string]string) {
	used = map[string]string{}
	find := o.env
	if find == nil {
		find = os.LookupEnv
	}
	return func(name string) (string, bool) {
		value, ok := find(name)
		if ok {
			used[name] = value
		}
		return value, ok
	}, used
}

// givenEnv are the variables that a spec names, for a service that has others: those that the command line gives
// ("NAME=VALUE"), and else those of this process. What is not set is left out.
func givenEnv(text string, given []string) (map[string]string, error) {
	values := map[string]string{}
	for _, g := range given {
		name, value, ok := strings.Cut(g, "=")
		if !ok || name == "" {
			return nil, usageErrorf("--env must have the form NAME=VALUE; it is %q", g)
		}
		values[name] = value
	}
	env, named := map[string]string{}, map[string]bool{}
	xmlspec.Parse("", strings.NewReader(text), func(name string) (string, bool) {
		named[name] = true
		value, ok := values[name]
		if !ok {
			value, ok = os.LookupEnv(name)
		}
		if ok {
			env[name] = value
		}
		return value, ok
	})
	for name := range values {
		if !named[name] {
			return nil, usageErrorf("--env %s: the spec names no variable ${%s}", name, name)
		}
	}
	return env, nil
}
