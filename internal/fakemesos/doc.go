// Package fakemesos is a test double of Mesos: masters and agents that speak the v1 scheduler, executor and operator APIs
// over real HTTP on the loopback, start real executors, and fail when they are told to.
//
//	c := fakemesos.New(t, fakemesos.Options{Masters: 2, Agents: []fakemesos.AgentSpec{{}, {Attributes: "rack:r2"}}})
//	// a framework subscribes at c.URL() and launches tasks; agents start its executors as processes
//	agent := c.Agents()[0].ID
//	c.StopAgent(agent)             // its process dies
//	c.StartAgent(agent)            // and starts again
//	c.FailOver()                   // the other master leads
//	c.FaultEvents(fakemesos.EventFault{Do: fakemesos.DropEvent, Times: 1})
//	c.FaultCalls(fakemesos.CallFault{Do: fakemesos.LoseAnswer, Times: 1})
//
// # Meaning
//
// The double does what recordings of a real master (Mesos 1.12) show; "rule" here and in comments is a rule of
// testdata/README.md, which says how they were made. A call that no recording shows is refused with 501, kept in
// Cluster.Unknown, and fails the test at its end, unless Options.AllowUnknown is set.
//
//   - Masters take calls in JSON and in protobuf, with mesos-go's types, and answer in both; operator queries in JSON only.
//     Streams are RecordIO, one record a chunk. The first master leads; the others redirect to it. All masters share the
//     registry of agents, and nothing else: a new leader learns frameworks and tasks from the agents that register again.
//   - Agents run an executor as a process (AgentSpec zero), as a function inside the test (Run), or not at all (Simulate:
//     each task is TASK_RUNNING at once and TASK_KILLED when killed; 1,000 tasks on 200 agents take a third of a second).
//     Tasks with a command are run by a shell, or by the function Command.
//   - The URIs of a command are fetched into the sandbox: paths, file:, http: and https:; a .tar.gz is extracted unless it
//     is to be executable.
//   - Time is real. Every interval is Mesos' own times Options.Scale, those that frameworks name too (refuse_seconds,
//     failover_timeout, grace periods), and those that executors are told in their environment. Options.Times sets single ones.
//   - Faults: Rescind, CutStream, Partition and Heal, StopAgent and StartAgent, LeaveAgent, MarkGone, Drain, Maintain,
//     StartMaintenance, KillExecutor, RestartMaster, FailOver, Leaderless; events that are dropped, sent twice, delayed, reordered;
//     calls that are lost, slow or refused, or whose answer is lost.
//   - Options.Users asks for HTTP basic authentication, Options.TLS makes masters speak HTTPS.
//   - Announce registers the masters in a ZooKeeper, as nodes json.info_ with their MasterInfo.
//   - Inspection: Calls, Tasks, Frameworks, Agents, Offers, Settled (no update waits for its acknowledgement), Unknown.
//
// # What is compared with recordings
//
// TestTranscripts sends the recorded requests, with ids translated, and compares answers and events field by field:
// sched01 to sched07 (sched03 up to health checks), sched09 to sched16, sched18 to sched20 (sched20 up to the masters
// without a leader), sched21 to sched24, exec01 to exec07 and exec11 to exec17 (the executors' side is replayed inside the
// agents; that of exec12 was not kept and is imitated), oper02, oper03, oper04 (up to jsonp). TestRawBytes compares the
// bytes of sched00, TestMesosGo heads and lengths of mesos-go's requests with proto01, TestJSONCodec its failure.
//
// Compared are status, Content-Type, Allow, Location and WWW-Authenticate, bodies, events and how streams end. The order
// of events is compared for each task, and over all that masters and agents say (RESCIND, FAILURE, their updates). Only the
// presence is compared of: timestamps and times, executor_pid, pid, port, ip; uuids and ids must be the same thing
// throughout. Of long messages about differing executors only the first line is compared. Heartbeats, and offers after the
// last recorded ones, may be more than recorded. Offers come at intervals where a recording is about their time (sched01,
// sched02, sched04, sched11, sched15, sched16, sched19, sched20, sched22, sched23); elsewhere the test says when.
//
// # What is not modelled
//
//   - Groups (LAUNCH_GROUP) and Mesos' default executor: sched08, rule 50. Reservations made by calls, volumes, operations:
//     sched17. Health checks, max_completion_time: the end of sched03.
//   - The old GET endpoints and most queries of operators: oper01. (When answers are compressed is that of oper05, rule 14.)
//   - A call of type UNKNOWN ends a real master (sched25, a part of rule 18); here it is a call that no recording shows.
//   - Masters that never recover (the end of sched20; those without a leader are, with Leaderless), agents that do not come back after a master's
//     restart (the end of rule 38: reconciliation stays silent about them for good).
//   - The environment of Mesos' own executors: exec10.
//   - What is no HTTP is answered with 400, Expect: 100-continue with 100; a master closes the connection, and answers at once.
//     The order of fields in JSON is that of their numbers.
//   - mesos-go's schema lacks AgentInfo.checkpoint and what versions say of their build; they are not sent.
//
// Beyond the recordings are, from what is known of Mesos: a launch that is lost on its way to an agent ends as TASK_DROPPED
// or TASK_LOST when the agent registers again (Partition, Heal); the wait status -1 of an executor that could not be started;
// what is said to offers of several agents or roles in one ACCEPT; RESCIND of offers for roles that UPDATE_FRAMEWORK takes
// away; agents that have GPUs are offered to frameworks with the capability GPU_RESOURCES only (the recordings show no more of
// it than that --filter_gpu_resources is on); the operator's events FRAMEWORK_UPDATED and AGENT_REMOVED; the order of tasks in implicit reconciliation.
package fakemesos
