/*
Package storetest is what every shared.State must pass: the sealing of logs, with zombies that go on
writing; trimming; snapshots; decisions and the coordinator's record, with races for them; and thousands of
random calls against a simple model.

	storetest.Run(t, func(t testing.TB) storetest.Shared {
		m := shared.NewMemory(nil)
		return func(process string, coordinator bool) (shared.State, error) { return m.Open(process, coordinator) }
	})
*/
package storetest
