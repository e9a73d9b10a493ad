package xmlspec

import (
	"sluice/dataflow"
)

// resources reads what an operator needs of its machine.
func (p *parser) resources(e element) (r dataflow.Resources) {
	p.children(e) // it has none: this reports them
	if len(e.node.el.Attr) == 0 {
		p.errorf(e.node.start, "", `<%s> says nothing; write what the operator needs, such as cpus="2" or mem="512MB"`, resources)
	}
	amount(p, e, "cpus", &r.CPUs, dataflow.ParseCPUs)
	amount(p, e, "mem", &r.Mem, dataflow.ParseByteSize)
	amount(p, e, "disk", &r.Disk, dataflow.ParseByteSize)
	amount(p, e, "gpus", &r.GPUs, count("gpus", dataflow.MaxGPUs))
	amount(p, e, "ports", &r.Ports, count("ports", dataflow.MaxPorts))
	if !e.has("attributes") {
		return r
	}
	reported := len(p.diags)
	t := p.expand(e.attrs["attributes"].value)
	if len(p.diags) > reported {
		return r
	}
	list, errs := dataflow.ParseAttributes(t.value)
	for _, err := range errs {
		p.errorf(t.sourceOffset(err.Offset), "", "attributes: %v", err)
	}
	r.Attributes = list
	return r
}

// amount reads an attribute, if it is there.
func amount[T any](p *parser, e element, name string, to *T, parse func(string) (T, error)) {
	if !e.has(name) {
		return
	}
	reported := len(p.diags)
	t := p.expand(e.attrs[name].value).trim()
	value, err := parse(t.value)
	if err != nil && len(p.diags) == reported {
		p.errorf(t.sourceOffset(0), "", "%s: %v", name, err)
	}
	*to = value
}

func count(what string, most int) func(string) (int, error) {
	return func(text string) (int, error) { return dataflow.ParseCount(text, what, most) }
}
