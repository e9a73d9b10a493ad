package fakemesos

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// TestGPUs: agents that have GPUs are offered to frameworks only that say that they know what these are.
func TestGPUs(t *testing.T) {
	c := New(t, Options{Agents: []AgentSpec{
		{Hostname: "plain", Simulate: true}, {Hostname: "gpu", Resources: "cpus:4;mem:2048;gpus:2", Simulate: true},
	}})
	without := connect(t, c, frameworkInfo(""))
	for _, o := range without.wait(scheduler.Event_OFFERS).Offers.Offers {
		if o.Hostname != "plain" {
			t.Errorf("%s is offered to a framework that does not know of GPUs", o.Hostname)
		}
	}
	info := frameworkInfo("")
	info.Name = "gpus"
	info.Capabilities = append(info.Capabilities, mesos.FrameworkInfo_Capability{Type: mesos.FrameworkInfo_Capability_GPU_RESOURCES})
	with := connect(t, c, info)
	offers := with.wait(scheduler.Event_OFFERS).Offers.Offers
	if len(offers) != 1 || offers[0].Hostname != "gpu" {
		t.Fatalf("offers %+v", offers)
	}
	if gpus := readResources(offers[0].Resources).scalar("gpus"); gpus != 2000 {
		t.Errorf("%d thousandths of a GPU are offered", gpus)
	}
}
