/*
Package detect finds the leading Mesos master through ZooKeeper.

	d, err := detect.Open("zk://zk1:2181,zk2:2181/mesos", detect.Options{})
	defer d.Close()
	for m := range d.Detect(ctx) {
		if !m.Known() {
			continue // no master leads; wait for the next one
		}
		connect(m.Addr())
	}

Masters tells addresses only; so a Detector is what mesos.Options wants.

Each master that runs has an ephemeral, numbered node below the path: json.info_0000000012 with its MasterInfo in
JSON, or info_0000000012 with it in protobuf, as masters before 0.24 have it. The one with the lowest number, of both
kinds together, leads. Other nodes, such as log_replicas, are passed over.

Detect tells the leader once it is known, and then each change. Who reads late gets the latest one only. While ZooKeeper
cannot be reached nothing is told: the leader may well go on, which the connection to it shows. What
ZooKeeper says may also be late: a master that does not lead answers with a redirect, and one that knows no leader with
503; who gets these waits or follows, and need not ask this package.

A node that cannot be read counts as no leader, and is logged.
*/
package detect
