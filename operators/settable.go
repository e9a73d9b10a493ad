package operators

import (
	"fmt"

	"sluice/dataflow"
)

// Settable is an Operator, or a Source, of which parameters can be changed while it runs: those whose
// descriptor says Settable.
type Settable interface {
	// Set gives a parameter a new value, between two epochs. The value has been checked like one in a
	// spec (dataflow.Operator.CheckSetting); an empty one is that of a parameter that is left out. A
	// value that is refused nevertheless changes nothing. A parameter that does not affect rows, such as
	// rate and active, may be set at any time by another goroutine.
	Set(param, value string) error
}

// NotSettable is the error of a parameter that op does not let be set.
func NotSettable(op *dataflow.Operator, param string) error {
	return fmt.Errorf("%s of operator %q cannot be set while the query runs", param, op.Name)
}
