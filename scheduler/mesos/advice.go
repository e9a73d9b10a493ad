package mesos

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/mesos/mesos-go/api/v1/lib"
)

// advice says what is behind the end of a worker and what to do, where Mesos' words alone do not; else it is "".
func (c *Core) advice(w *worker, s *pb.TaskStatus) string {
	var spec ExecutorSpec
	if q := c.queries[w.rec.Query]; q != nil {
		spec = q.executor
	}
	if s.GetState() == pb.TASK_FAILED && s.GetSource() == pb.SOURCE_EXECUTOR {
		return "; that was on " + w.about()
	}
	if s.GetState() == pb.TASK_GONE_BY_OPERATOR {
		return fmt.Sprintf("; an operator has said that %s is gone, so that nothing of it runs any longer", w.about())
	}
	switch s.GetReason() {
	case pb.REASON_CONTAINER_LAUNCH_FAILED:
		if len(spec.URIs) > 0 && strings.Contains(s.GetMessage(), "fetch") {
			return fmt.Sprintf("; %s could not fetch %s from the scheduler: it must reach the API at that address, which --advertise sets, and trust its certificate if it has one",
				w.about(), strings.Join(spec.URIs, ", "))
		}
	case pb.REASON_EXECUTOR_REGISTRATION_TIMEOUT:
		return fmt.Sprintf("; on %s it took too long to fetch and start the executor: on slow networks agents need a longer --executor_registration_timeout", w.about())
	case pb.REASON_CONTAINER_LIMITATION_MEMORY:
		return fmt.Sprintf("; the worker on %s needs more than it has, which is %s: --mesos-mem says how much", w.about(), w.rec.Resources)
	case pb.REASON_CONTAINER_LIMITATION_DISK:
		return fmt.Sprintf("; the worker on %s needs more than it has, which is %s: --mesos-disk says how much", w.about(), w.rec.Resources)
	}
	return ""
}

// Exit statuses of a shell that could not run a program, and of the loader of a program whose C library is too old.
const (
	exitNoLoad    = 1
	exitNoExecute = 126
	exitNotFound  = 127
)

// aboutExit says how an executor has ended; "" if there was none.
func (c *Core) aboutExit(w *worker, status int32) string {
	if status < 0 {
		return ""
	}
	return exitText(status) + c.exitAdvice(w, status)
}

// exitAdvice says where to look for why an executor has ended, and what to do if its task had not begun.
func (c *Core) exitAdvice(w *worker, status int32) string {
	look := fmt.Sprintf("; what it said last is in stderr of its sandbox on %s", w.about())
	q := c.queries[w.rec.Query]
	if q == nil || w.rec.State != "" || status&0x7f != 0 {
		return look
	}
	switch status >> 8 & 0xff {
	case exitNoExecute:
		return fmt.Sprintf(": %s cannot be executed there. It is for %s, and must be on a file system from which programs may be run", q.executor.program(),
			cmp.Or(q.executor.Machine, "machines of one kind")) + look
	case exitNotFound:
		return fmt.Sprintf(": %s is not there, or not all libraries that it needs", q.executor.program()) + look
	case exitNoLoad:
		return fmt.Sprintf(": the C library there may be older than %s needs, which is %s", q.executor.program(), cmp.Or(q.executor.CLibrary, "that of where it was built")) + look
	}
	return look
}

// program is the program that an agent runs.
func (e *ExecutorSpec) program() string {
	_, rest, _ := strings.Cut(e.Command, "'")
	name, _, found := strings.Cut(rest, "'")
	if !found {
		return e.Command
	}
	return name
}
