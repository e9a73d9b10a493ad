package api

import "fmt"

// PassedOver says which rows an operator has not worked on as the others, and what would help: a line for each kind.
func (o *Operator) PassedOver() []string {
	var list []string
	say := func(n int64, text string) {
		if n > 0 {
			list = append(list, fmt.Sprintf("operator %q: ", o.Name)+text)
		}
	}
	say(o.Skipped, Count(o.Skipped, "bad row")+" skipped")
	say(o.Dead, Count(o.Dead, "bad row")+" sent to the output \"errors\"")
	say(o.Lost, Count(o.Lost, "row")+" that had been read before cannot be read again, for the input is not a file; what they would have added is lost")
	say(o.Gaps, "the input that was being read is gone, has been cut, or is a pipe from which more had been read than was kept; what it had there is missing")
	say(o.Late, Count(o.Late, "late row")+" dropped; a larger watermark-delay or allowed-lateness would keep more")
	return list
}

// Count is a number of things.
func Count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
