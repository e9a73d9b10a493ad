// Package catalog lists all operator types: what specs are checked against, and what runs them.
package catalog

import (
	"fmt"
	"slices"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/connect/file"
	"sluice/operators/route"
	"sluice/operators/window"
)

// entry is an operator type: its descriptor, and how it is made to run, either as a source or not.
type entry struct {
	desc *dataflow.Descriptor
	open func(*operators.Context) (operators.Source, error)
	make func(*operators.Context, Options) (operators.Operator, error)
}

// entries are all operator types, in the order in which the documentation lists them.
var entries = []entry{
	{desc: file.Reader, open: file.OpenReader},
	{desc: file.Writer, make: func(c *operators.Context, o Options) (operators.Operator, error) {
		return file.OpenWriter(c, file.WriterOptions{Limit: o.Limit, Owner: o.Owner})
	}},
	{desc: operators.Filter, make: plain(operators.NewFilter)},
	{desc: operators.Map, make: plain(operators.NewMap)},
	{desc: window.Descriptor, make: plain(window.New)},
	{desc: operators.Union, make: plain(operators.NewUnion)},
	{desc: route.Splitter, make: plain(route.NewSplitter)},
	{desc: route.Multicast, make: plain(route.NewPass)},
	{desc: route.PartitionFilter, make: plain(route.NewPartitionFilter)},
	{desc: route.Merge, make: plain(route.NewPass)},
	{desc: route.Selector, make: plain(route.NewSelector)},
	{desc: route.Failover, make: makeFailover},
	{desc: route.NetWriter, make: plain(route.NewPass)},
	{desc: route.NetReader, make: plain(route.NewPass)},
}

func makeFailover(c *operators.Context, o Options) (operators.Operator, error) {
	if o.Cluster {
		return route.NewSpread(c)
	}
	return route.NewFailover(c)
}

func plain(f func(*operators.Context) (operators.Operator, error)) func(*operators.Context, Options) (operators.Operator, error) {
	return func(c *operators.Context, _ Options) (operators.Operator, error) { return f(c) }
}

// Operators finds the descriptors of all operator types.
var Operators dataflow.Catalog = all{}

type all struct{}

// Lookup implements dataflow.Catalog.
func (all) Lookup(operatorType string) *dataflow.Descriptor {
	if e := lookup(operatorType); e != nil {
		return e.desc
	}
	return nil
}

// Types implements dataflow.Catalog.
func (all) Types() []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.desc.Name)
	}
	slices.Sort(names)
	return names
}

// Descriptors returns all descriptors in the order of the documentation.
func Descriptors() []*dataflow.Descriptor {
	var ds []*dataflow.Descriptor
	for _, e := range entries {
		ds = append(ds, e.desc)
	}
	return ds
}

func lookup(operatorType string) *entry {
	for i := range entries {
		if entries[i].desc.Name == operatorType {
			return &entries[i]
		}
	}
	return nil
}

// Options say what operators have to know beside the spec.
type Options struct {
	// Limit is the most rows that each writer writes; negative: any number.
	Limit int64
	// Owner tells the query from all others that may run (file.WriterOptions); "" if outputs are not to be claimed.
	Owner string
	// Cluster says that the query runs on several processes, so that the channel of a failover node that
	// has an address is the active one.
	Cluster bool
}

// Build makes the running operator of a node that has inputs.
func Build(c *operators.Context, o Options) (operators.Operator, error) {
	e := lookup(c.Op.Type)
	if e == nil || e.make == nil {
		return nil, fmt.Errorf("catalog: operator type %q cannot be run", c.Op.Type)
	}
	return e.make(c, o)
}

// OpenSource makes the running source of a node without inputs.
func OpenSource(c *operators.Context) (operators.Source, error) {
	e := lookup(c.Op.Type)
	if e == nil || e.open == nil {
		return nil, fmt.Errorf("catalog: operator type %q is not a source", c.Op.Type)
	}
	return e.open(c)
}

// Set gives a parameter of op, of which running is what Build or OpenSource has made, a new value, after
// checking it like one in a spec. operators.Settable says when it may be called. After an error the operator is as
// it was.
func Set(op *dataflow.Operator, running any, param, value string) error {
	if err := op.CheckSetting(param, value); err != nil {
		return err
	}
	s, ok := running.(operators.Settable)
	if !ok {
		return operators.NotSettable(op, param)
	}
	return s.Set(param, value)
}
