package operators

// Settable is an Operator, or a Source, of which parameters can be changed while it runs: those whose
// descriptor says Settable.
type Settable interface {
	// Set gives a parameter a new value, between two epochs. The value has been checked like one in a
	// spec (dataflow.Resolve of a graph that has it); a value that is refused nevertheless changes nothing. A
	// parameter that does not affect rows, such as rate, may be set at any time by another goroutine.
	Set(param, value string) error
}
