// Package sim runs whole clusters in one loop: the real cores of tasks, channels and scheduler, with a
// simulated clock, network, disk and processes, under faults that a seed decides.
//
//	SIM_SEED=1234 go test -run TestSeeds ./internal/sim            # one seed
//	SIM_SEED=1234 SIM_TRACE=1 go test -v -run TestSeeds ./internal/sim
//	SIM_SEED=1234 SIM_OFF=chain go test -run TestSeeds ./internal/sim  # with a rule switched off
//	SIM_SEEDS=20000 go test -timeout 1h -run TestSeeds ./internal/sim  # more seeds than usual
//
// # What is real and what is not
//
// Real are executor.Instance with the channels' ends, scheduler.Core, the operators of the catalog, the
// rewrite rules and the spec language. Simulated are:
//
//   - the clock, in microseconds; everything that happens is an event at a time, and events of one time
//     happen in the order in which they were planned
//   - worker processes: they come up late, may be killed at any instant, in the middle of a call too, may be cut
//     off from the scheduler, and go on as zombies then until they are killed
//   - the network: connections between workers keep messages in order, take their time and break with
//     all that is under way; control messages are delayed, lost, doubled and overtaken
//   - the disk: slow, fails now and then, and is what all workers share
//   - the scheduler's process: it may end between any two actions, fail to save, or be taken for dead. Then another one
//     takes over, while it goes on, at once or after a sleep, until its save is refused; workers hear both
//   - sources, which give drawn rows in drawn portions, and sinks, which keep what has been published
//
// Nothing depends on real time, goroutines or the order of maps, so a seed replays exactly.
//
// # What is checked
//
// At the end, each sink has published the rows that the logical graph gives in one process over the
// epochs of the epoch logs: the same epochs, each with the same rows; in the same order, but behind a
// merge of partitions. A change of a parameter holds from the epoch that the scheduler recorded. The logs
// hold each row of the input once.
//
// At every step: no generation of a task is launched twice, complete checkpoints ascend, and no epoch is
// published twice. A cluster in which nothing moves for a while is stuck: the error says where each task
// stands.
package sim
