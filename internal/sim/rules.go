package sim

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/protocol"
)

// ruleNames are the names of the rules, as in SIM_OFF, in their order.
var ruleNames = []string{
	"prev", "brake", "trimmed", "endlog", "endany", "cross", "flush", "chain", "restate", "endstay",
	"fence", "seal", "controllog", "hold", "allvote", "attempt", "dedup", "logfirst", "ranges", "term", "durable",
}

// parseOff reads names of rules that are to be switched off.
func parseOff(text string) (protocol.Off, error) {
	var off protocol.Off
	for name := range strings.SplitSeq(text, ",") {
		if name == "" {
			continue
		}
		i := slices.Index(ruleNames, name)
		if i < 0 {
			return 0, fmt.Errorf("sim: there is no rule %q; there are %s", name, strings.Join(ruleNames, ", "))
		}
		off = off.With(protocol.Rule(i))
	}
	return off, nil
}
