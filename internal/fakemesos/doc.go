// Package fakemesos is a test double of Mesos: masters and agents that speak the v1 scheduler, executor and operator APIs
// over real HTTP on the loopback.
//
//	c := fakemesos.New(t, fakemesos.Options{Agents: []fakemesos.AgentSpec{{}, {Attributes: "rack:r2"}}})
//	// a framework subscribes at c.URL(), launches tasks, and real executor processes run
//	c.StopAgent(c.Agents()[0].ID)  // its process dies
//	c.FailOver()                   // another master leads
//	c.FaultEvents(fakemesos.EventFault{Do: fakemesos.DropEvent, Times: 1})
package fakemesos
